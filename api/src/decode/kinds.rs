//! Tells what a value is: by `apiVersion` and `kind`, or, before there were kinds, by `version`.

use serde_json::Value;

use crate::fault::{Aim, Faults};
use crate::legacy;
use crate::path::Path;
use crate::schema::nearest;

/// What a value holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// One object.
    One(Form),
    /// A list of that form under `items`.
    Many(Form),
    /// A list of anything under `items`.
    List,
}

/// The form of one object, with the name of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A `v1` Pod.
    Pod,
    /// A `v1` ConfigMap.
    ConfigMap,
    /// A `v1` Secret.
    Secret,
    /// A Pod in an older form.
    Legacy(legacy::Form),
}

impl Form {
    /// The kind of what it becomes.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Pod | Self::Legacy(_) => "Pod",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
        }
    }
}

const V1BETA3_POD: Form = Form::Legacy(legacy::Form::V1Beta3Pod);
const CONTAINER_MANIFEST: Form = Form::Legacy(legacy::Form::ContainerManifest);
const BOUND_POD: Form = Form::Legacy(legacy::Form::BoundPod);

/// Every kind a manifest may hold, by API version.
const KNOWN: [(&str, &str, Holds); 14] = [
    ("v1", "Pod", Holds::One(Form::Pod)),
    ("v1", "ConfigMap", Holds::One(Form::ConfigMap)),
    ("v1", "Secret", Holds::One(Form::Secret)),
    ("v1", "List", Holds::List),
    ("v1", "PodList", Holds::Many(Form::Pod)),
    ("v1", "ConfigMapList", Holds::Many(Form::ConfigMap)),
    ("v1", "SecretList", Holds::Many(Form::Secret)),
    ("v1beta3", "Pod", Holds::One(V1BETA3_POD)),
    ("v1beta3", "List", Holds::List),
    ("v1beta3", "PodList", Holds::Many(V1BETA3_POD)),
    ("v1beta1", "ContainerManifestList", Holds::Many(CONTAINER_MANIFEST)),
    ("v1beta2", "ContainerManifestList", Holds::Many(CONTAINER_MANIFEST)),
    ("v1beta1", "BoundPods", Holds::Many(BOUND_POD)),
    ("v1beta2", "BoundPods", Holds::Many(BOUND_POD)),
];

/// Kinds that make Pods elsewhere, from a template.
const TEMPLATES: [&str; 7] =
    ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"];

/// Tells what `value` holds, or notes why that cannot be told.
pub(super) fn tell(value: &Value, path: &Path<'_>, faults: &mut Faults) -> Option<Holds> {
    let Value::Object(fields) = value else {
        let found = if value.is_array() { "a list" } else { "a single value" };
        faults.add(
            path,
            format!("expected an object, found {found}"),
            "begin with `apiVersion: v1` and `kind: Pod`",
        );
        return None;
    };
    let kind = text(fields.get("kind"), &path.field("kind"), faults)?;
    let api_version = text(fields.get("apiVersion"), &path.field("apiVersion"), faults)?;
    match (api_version, kind) {
        (_, None) if fields.contains_key("version") => manifest_version(fields.get("version"), path, faults),
        (_, None) => {
            let remedy = match kind_by_content(value) {
                Some(kind) => format!("add `kind: {kind}`"),
                None => "add `kind: Pod`, `kind: ConfigMap` or `kind: Secret`".to_owned(),
            };
            faults.add(path, "`kind` is missing", remedy);
            None
        }
        (None, Some(kind)) => {
            let remedy = match KNOWN.iter().find(|(_, known, _)| *known == kind) {
                Some((version, ..)) => format!("add `apiVersion: {version}`"),
                None => "add `apiVersion: v1`".to_owned(),
            };
            faults.add(path, "`apiVersion` is missing", remedy);
            if !KNOWN.iter().any(|(_, known, _)| *known == kind) {
                unknown_kind(kind, path, faults);
            }
            None
        }
        (Some(version), Some(kind)) => {
            let known = KNOWN.iter().find(|(at, known, _)| (*at, *known) == (version, kind));
            if known.is_none() {
                unknown(version, kind, path, faults);
            }
            known.map(|(.., holds)| *holds)
        }
    }
}

/// `Some(None)` when the field is absent, `None` after noting that it is no text.
fn text<'a>(field: Option<&'a Value>, path: &Path<'_>, faults: &mut Faults) -> Option<Option<&'a str>> {
    match field {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) if text.is_empty() => Some(None),
        Some(Value::String(text)) => Some(Some(text)),
        Some(_) => {
            faults.add(path, "expected a string", "write a name, such as `kind: Pod` and `apiVersion: v1`");
            None
        }
    }
}

fn manifest_version(version: Option<&Value>, path: &Path<'_>, faults: &mut Faults) -> Option<Holds> {
    match version.and_then(Value::as_str) {
        // Early manifests were read without regard to case.
        Some(version) if ["v1beta1", "v1beta2"].contains(&version.to_lowercase().as_str()) => {
            Some(Holds::One(CONTAINER_MANIFEST))
        }
        _ => {
            faults.add(
                &path.field("version"),
                "a ContainerManifest of this version is not known",
                "write `version: v1beta2`; or, for a Pod, `apiVersion: v1` and `kind: Pod`",
            );
            None
        }
    }
}

fn kind_by_content(value: &Value) -> Option<&'static str> {
    if value.pointer("/spec/containers").is_some() {
        Some("Pod")
    } else if value.get("stringData").is_some() {
        Some("Secret")
    } else if value.get("data").is_some() || value.get("binaryData").is_some() {
        Some("ConfigMap")
    } else {
        None
    }
}

fn unknown(version: &str, kind: &str, path: &Path<'_>, faults: &mut Faults) {
    let versions: Vec<&str> =
        KNOWN.iter().filter(|(_, known, _)| *known == kind).map(|(at, ..)| *at).collect();
    if versions.is_empty() {
        return unknown_kind(kind, path, faults);
    }
    let remedy = match nearest(version, versions.iter().copied()) {
        Some(near) => format!("write `apiVersion: {near}`"),
        None => format!("write `apiVersion: {}`", versions.join("` or `")),
    };
    faults.add(&path.field("apiVersion"), format!("`{version}` has no {kind} that a node reads"), remedy);
}

fn unknown_kind(kind: &str, path: &Path<'_>, faults: &mut Faults) {
    let path = &path.field("kind");
    if TEMPLATES.contains(&kind) {
        let what = format!("a node runs Pods, not a {kind}");
        faults.add(path, what, "write the Pod of its template here, or give it to a master");
        return;
    }
    let shown: String = kind.chars().take(60).collect();
    match nearest(kind, KNOWN.iter().map(|(_, known, _)| *known)) {
        Some(near) if near != kind => {
            faults.add(path, format!("unknown kind `{shown}`"), format!("did you mean `{near}`?"));
        }
        _ => {
            let what = format!("a node reads Pods, ConfigMaps and Secrets, not a {shown}");
            faults.aim(path, Aim::Value, what, "remove this document, or give it to a master");
        }
    }
}
