//! Detects the kind of a value from `apiVersion` and `kind`. For manifests that are older than these fields,
//! detects it from `version`.

use serde_json::Value;

use crate::field_error::{FieldErrors, Target};
use crate::legacy;
use crate::path::Path;
use crate::schema::nearest;

/// The content of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// A single object.
    One(Form),
    /// A list of objects of one form under `items`.
    Many(Form),
    /// A list of any objects under `items`.
    List,
}

/// The form of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A `v1` Pod.
    Pod,
    /// A `v1` ConfigMap.
    ConfigMap,
    /// A `v1` Secret.
    Secret,
    /// A `v1` Service.
    Service,
    /// A Pod of an API version before v1.
    Legacy(legacy::Form),
}

impl Form {
    /// The kind of the decoded object.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Pod | Self::Legacy(_) => "Pod",
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Service => "Service",
        }
    }
}

const V1BETA3_POD: Form = Form::Legacy(legacy::Form::V1Beta3Pod);
const CONTAINER_MANIFEST: Form = Form::Legacy(legacy::Form::ContainerManifest);
const BOUND_POD: Form = Form::Legacy(legacy::Form::BoundPod);

/// All kinds that a manifest may contain, by API version.
const KNOWN: [(&str, &str, Content); 16] = [
    ("v1", "Pod", Content::One(Form::Pod)),
    ("v1", "ConfigMap", Content::One(Form::ConfigMap)),
    ("v1", "Secret", Content::One(Form::Secret)),
    ("v1", "Service", Content::One(Form::Service)),
    ("v1", "List", Content::List),
    ("v1", "PodList", Content::Many(Form::Pod)),
    ("v1", "ConfigMapList", Content::Many(Form::ConfigMap)),
    ("v1", "SecretList", Content::Many(Form::Secret)),
    ("v1", "ServiceList", Content::Many(Form::Service)),
    ("v1beta3", "Pod", Content::One(V1BETA3_POD)),
    ("v1beta3", "List", Content::List),
    ("v1beta3", "PodList", Content::Many(V1BETA3_POD)),
    ("v1beta1", "ContainerManifestList", Content::Many(CONTAINER_MANIFEST)),
    ("v1beta2", "ContainerManifestList", Content::Many(CONTAINER_MANIFEST)),
    ("v1beta1", "BoundPods", Content::Many(BOUND_POD)),
    ("v1beta2", "BoundPods", Content::Many(BOUND_POD)),
];

/// Workload kinds. A node cannot run them itself, only the Pods of their templates.
const TEMPLATES: [&str; 7] =
    ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController"];

/// Detects the content of `value`, or reports an error.
pub(super) fn detect(value: &Value, path: &Path<'_>, errors: &mut FieldErrors) -> Option<Content> {
    let Value::Object(fields) = value else {
        let found = if value.is_array() { "a list" } else { "a single value" };
        errors.add(
            path,
            format!("expected an object, found {found}"),
            "begin with `apiVersion: v1` and `kind: Pod`",
        );
        return None;
    };
    let kind = text(fields.get("kind"), &path.field("kind"), errors)?;
    let api_version = text(fields.get("apiVersion"), &path.field("apiVersion"), errors)?;
    match (api_version, kind) {
        (_, None) if fields.contains_key("version") => manifest_version(fields.get("version"), path, errors),
        (_, None) => {
            let remedy = match kind_by_content(value) {
                Some(kind) => format!("add `kind: {kind}`"),
                None => "add `kind: Pod`, `kind: ConfigMap` or `kind: Secret`".to_owned(),
            };
            errors.add(path, "`kind` is missing", remedy);
            None
        }
        (None, Some(kind)) => {
            let remedy = match KNOWN.iter().find(|(_, known, _)| *known == kind) {
                Some((version, ..)) => format!("add `apiVersion: {version}`"),
                None => "add `apiVersion: v1`".to_owned(),
            };
            errors.add(path, "`apiVersion` is missing", remedy);
            if !KNOWN.iter().any(|(_, known, _)| *known == kind) {
                unknown_kind(kind, path, errors);
            }
            None
        }
        (Some(version), Some(kind)) => {
            let known = KNOWN.iter().find(|(at, known, _)| (*at, *known) == (version, kind));
            if known.is_none() {
                unknown(version, kind, path, errors);
            }
            known.map(|(.., holds)| *holds)
        }
    }
}

/// The string in a field. Returns `Some(None)` if the field is absent, and `None` after it has reported a value
/// that is not a string.
fn text<'a>(field: Option<&'a Value>, path: &Path<'_>, errors: &mut FieldErrors) -> Option<Option<&'a str>> {
    match field {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) if text.is_empty() => Some(None),
        Some(Value::String(text)) => Some(Some(text)),
        Some(_) => {
            errors.add(path, "expected a string", "write a name, such as `kind: Pod` and `apiVersion: v1`");
            None
        }
    }
}

fn manifest_version(version: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) -> Option<Content> {
    match version.and_then(Value::as_str) {
        // Early versions ignored the case of `version`.
        Some(version) if ["v1beta1", "v1beta2"].contains(&version.to_lowercase().as_str()) => {
            Some(Content::One(CONTAINER_MANIFEST))
        }
        _ => {
            errors.add(
                &path.field("version"),
                "unknown version of ContainerManifest",
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

fn unknown(version: &str, kind: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let versions: Vec<&str> =
        KNOWN.iter().filter(|(_, known, _)| *known == kind).map(|(at, ..)| *at).collect();
    if versions.is_empty() {
        return unknown_kind(kind, path, errors);
    }
    let remedy = match nearest(version, versions.iter().copied()) {
        // Pods of v1beta1 and v1beta2 had other fields.
        _ if kind == "Pod" && ["v1beta1", "v1beta2"].contains(&version) => {
            "write `apiVersion: v1`, and under `spec` what is under `desiredState.manifest`".to_owned()
        }
        Some(near) => format!("write `apiVersion: {near}`"),
        None => format!("write `apiVersion: {}`", versions.join("` or `")),
    };
    errors.add(&path.field("apiVersion"), format!("a node does not support {kind} of `{version}`"), remedy);
}

fn unknown_kind(kind: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = &path.field("kind");
    if TEMPLATES.contains(&kind) {
        let what = format!("a node runs Pods, not a {kind}");
        errors.add(path, what, "write a Pod from its template here, or send it to a master");
        return;
    }
    let shown: String = kind.chars().take(60).collect();
    match nearest(kind, KNOWN.iter().map(|(_, known, _)| *known)) {
        Some(near) if near != kind => {
            errors.add(path, format!("unknown kind `{shown}`"), format!("did you mean `{near}`?"));
        }
        _ => {
            let what = format!("a node reads Pods, ConfigMaps, Secrets and Services, not {shown}");
            errors.add_at(path, Target::Value, what, "remove this document, or send it to a master");
        }
    }
}
