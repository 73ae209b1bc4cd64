//! Translates field paths of the converted Pod to those of the manifest.

use serde_json::Value;

use super::Form;
use crate::path::{OwnedStep, PathBuf};

/// Pairs of a v1 path and the path in the manifest. `[]` matches any index. The first rule whose result leads to an
/// existing value wins. The rest of the path is appended.
const CONTAINERS: [(&str, &str); 12] = [
    ("containers[].command", "containers[].entrypoint"),
    ("containers[].args", "containers[].command"),
    ("containers[].env[].name", "containers[].env[].key"),
    ("containers[].volumeMounts[].mountPath", "containers[].volumeMounts[].path"),
    ("containers[].resources.limits.cpu", "containers[].cpu"),
    ("containers[].resources.requests.cpu", "containers[].cpu"),
    ("containers[].resources.limits.memory", "containers[].memory"),
    ("containers[].resources.requests.memory", "containers[].memory"),
    ("volumes[].secret.secretName", "volumes[].source.secret.target"),
    ("volumes[].hostPath", "volumes[].source.hostDir"),
    ("volumes[].gcePersistentDisk", "volumes[].source.persistentDisk"),
    ("nodeName", "host"),
];
const SECURITY: [(&str, &str); 2] = [
    ("containers[].securityContext.privileged", "containers[].privileged"),
    ("containers[].securityContext.capabilities", "containers[].capabilities"),
];
const NAMES: [(&str, &str); 2] = [("metadata.name", "id"), ("metadata.uid", "uuid")];

/// The path of a Pod field in the manifest.
pub(super) fn in_manifest(form: Form, manifest: &Value, path: &PathBuf) -> PathBuf {
    let steps = path.steps();
    if form == Form::V1Beta3Pod {
        let host = [("nodeName", "host")];
        let rules =
            SECURITY.iter().chain(&host).map(|(new, old)| (format!("spec.{new}"), format!("spec.{old}")));
        let status = [("spec.nodeName".to_owned(), "status.host".to_owned())];
        return rewrite(rules.chain(status), manifest, steps).unwrap_or_else(|| path.clone());
    }
    let prefix = if form == Form::BoundPod { "spec." } else { "" };
    let names = NAMES.iter().map(|(new, old)| ((*new).to_owned(), (*old).to_owned()));
    let rules = SECURITY.iter().chain(&CONTAINERS);
    let rules = rules.map(|(new, old)| (format!("spec.{new}"), format!("{prefix}{old}")));
    // Volume sources were nested under `source`.
    let source = ("spec.volumes[]".to_owned(), format!("{prefix}volumes[].source"));
    let rest = ("spec".to_owned(), prefix.trim_end_matches('.').to_owned());
    let metadata = ("metadata".to_owned(), String::new());
    rewrite(names.chain(rules).chain([source]), manifest, steps)
        .or_else(|| replace(&rest, steps))
        .or_else(|| replace_names(steps))
        .or_else(|| replace(&metadata, steps))
        .unwrap_or_else(|| path.clone())
}

/// Translates the path of a missing name to the field that the manifest uses for it.
fn replace_names(steps: &[OwnedStep]) -> Option<PathBuf> {
    NAMES.iter().find_map(|(new, old)| replace(&((*new).to_owned(), (*old).to_owned()), steps))
}

/// Applies the first rule whose result leads to an existing value.
fn rewrite(
    mut rules: impl Iterator<Item = (String, String)>,
    manifest: &Value,
    steps: &[OwnedStep],
) -> Option<PathBuf> {
    rules.find_map(|rule| replace(&rule, steps).filter(|path| exists_in(manifest, path.steps())))
}

/// Replaces the pattern at the start of `steps`; indices are carried over.
fn replace((pattern, replacement): &(String, String), steps: &[OwnedStep]) -> Option<PathBuf> {
    let mut indices = Vec::new();
    let mut rest = steps.iter();
    for part in parts(pattern) {
        match (part, rest.next()?) {
            (None, OwnedStep::Index(index)) => indices.push(*index),
            (Some(name), OwnedStep::Field(step) | OwnedStep::Key(step)) if name == step => {}
            _ => return None,
        }
    }
    let mut indices = indices.into_iter();
    let mut path: Vec<OwnedStep> = Vec::new();
    for part in parts(replacement) {
        path.push(match part {
            None => OwnedStep::Index(indices.next()?),
            Some(name) => OwnedStep::Field(name.to_owned()),
        });
    }
    path.extend(rest.cloned());
    Some(PathBuf(path))
}

/// Splits `a[].b` into `a`, any index, `b`.
fn parts(pattern: &str) -> impl Iterator<Item = Option<&str>> {
    pattern
        .split('.')
        .filter(|part| !part.is_empty())
        .flat_map(|part| match part.strip_suffix("[]") {
            Some(list) => [Some(Some(list)), Some(None)],
            None => [Some(Some(part)), None],
        })
        .flatten()
}

fn exists_in(manifest: &Value, steps: &[OwnedStep]) -> bool {
    let mut here = Some(manifest);
    for step in steps {
        here = here.and_then(|value| match step {
            OwnedStep::Field(name) | OwnedStep::Key(name) => value.get(name),
            OwnedStep::Index(index) => value.get(index),
        });
    }
    here.is_some()
}
