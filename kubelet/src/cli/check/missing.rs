//! Finds required ConfigMaps, Secrets and keys that none of the given manifests contains.

use std::collections::BTreeSet;

use api::references::References;
use k8s_openapi::api::core::v1::{Container, Pod, Volume};

use crate::volumes::types::{self, ReferenceKind as Kind};

/// A reference to a missing object or key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Missing {
    /// Path of the field.
    pub path: String,
    /// Description of the missing object or key.
    pub what: String,
    /// Suggested remedy.
    pub remedy: &'static str,
}

const WAITS: &str = "add it to the manifests, or check it together with the manifest that contains it; the pod waits until it exists";
const PULLS_WITHOUT: &str = "add it to the manifests, or check it together with the manifest that contains it; the pod does not wait for it: \
                             until the node has it, images are pulled without it";

/// Returns all missing references of a pod. Each object or key is reported once.
pub(super) fn of(pod: &Pod, references: &References) -> Vec<Missing> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let mut search = Search { namespace, references, reported: BTreeSet::new(), missing: Vec::new() };
    let Some(spec) = &pod.spec else { return Vec::new() };
    for (at, container) in spec.init_containers.iter().flatten().enumerate() {
        search.container(&format!("spec.initContainers[{at}]"), container);
    }
    for (at, container) in spec.containers.iter().enumerate() {
        search.container(&format!("spec.containers[{at}]"), container);
    }
    for (at, volume) in spec.volumes.iter().flatten().enumerate() {
        search.volume(&format!("spec.volumes[{at}]"), volume);
    }
    for (at, secret) in spec.image_pull_secrets.iter().flatten().enumerate() {
        let path = format!("spec.imagePullSecrets[{at}].name");
        search.report_if_missing(path, Kind::Secret, Some(&secret.name), None, PULLS_WITHOUT);
    }
    search.missing
}

struct Search<'a> {
    namespace: &'a str,
    references: &'a References,
    reported: BTreeSet<String>,
    missing: Vec<Missing>,
}

impl Search<'_> {
    fn container(&mut self, path: &str, container: &Container) {
        for (at, from) in container.env_from.iter().flatten().enumerate() {
            let path = format!("{path}.envFrom[{at}]");
            if let Some(map) = from.config_map_ref.as_ref().filter(|map| map.optional != Some(true)) {
                self.need(format!("{path}.configMapRef.name"), Kind::ConfigMap, Some(&map.name), None);
            }
            if let Some(secret) = from.secret_ref.as_ref().filter(|secret| secret.optional != Some(true)) {
                self.need(format!("{path}.secretRef.name"), Kind::Secret, Some(&secret.name), None);
            }
        }
        for (at, variable) in container.env.iter().flatten().enumerate() {
            let Some(from) = &variable.value_from else { continue };
            let path = format!("{path}.env[{at}].valueFrom");
            if let Some(map) = from.config_map_key_ref.as_ref().filter(|map| map.optional != Some(true)) {
                let path = format!("{path}.configMapKeyRef");
                self.need(path, Kind::ConfigMap, Some(&map.name), Some(&map.key));
            }
            if let Some(secret) = from.secret_key_ref.as_ref().filter(|secret| secret.optional != Some(true))
            {
                self.need(
                    format!("{path}.secretKeyRef"),
                    Kind::Secret,
                    Some(&secret.name),
                    Some(&secret.key),
                );
            }
        }
    }

    fn volume(&mut self, path: &str, volume: &Volume) {
        let Some(source) = types::of(volume) else { return };
        for reference in source.references() {
            self.need(format!("{path}.{}", reference.path), reference.kind, Some(reference.name), None);
        }
    }

    /// Reports a missing object, or a missing key of an object, for which the pod would wait.
    fn need(&mut self, path: String, kind: Kind, name: Option<&str>, key: Option<&str>) {
        self.report_if_missing(path, kind, name, key, WAITS);
    }

    /// Reports a missing reference with this remedy.
    fn report_if_missing(
        &mut self,
        path: String,
        kind: Kind,
        name: Option<&str>,
        key: Option<&str>,
        remedy: &'static str,
    ) {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return };
        let object = format!("{} {}/{name}", kind.name(), self.namespace);
        let what = match (self.has(kind, name, key), key) {
            (None, _) => format!("none of these manifests contains the {object}"),
            (Some(false), Some(key)) => format!("the {object} has no key {key}"),
            (Some(_), _) => return,
        };
        if self.reported.insert(what.clone()) {
            self.missing.push(Missing { path, what, remedy });
        }
    }

    /// Whether the object has the key; `None` if there is no such object.
    fn has(&self, kind: Kind, name: &str, key: Option<&str>) -> Option<bool> {
        let Some(key) = key else {
            return match kind {
                Kind::ConfigMap => self.references.config_map(self.namespace, name).map(|_| true),
                Kind::Secret => self.references.secret(self.namespace, name).map(|_| true),
            };
        };
        match kind {
            Kind::ConfigMap => self.references.config_map(self.namespace, name).map(|map| {
                map.data.as_ref().is_some_and(|data| data.contains_key(key))
                    || map.binary_data.as_ref().is_some_and(|data| data.contains_key(key))
            }),
            Kind::Secret => self
                .references
                .secret(self.namespace, name)
                .map(|secret| secret.data.as_ref().is_some_and(|data| data.contains_key(key))),
        }
    }
}
