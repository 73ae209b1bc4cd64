//! Pods in templates, and a pod's spec wherever it stands: filled in as JSON, typed once to be checked.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::causes::Causes;
use super::fill::{fields_at, object_at};
use super::place::Place;
use super::{Cause, Json, found, metadata};
use crate::fault::Fault;
use crate::path::PathBuf;
use crate::{defaults, schema, validate};

/// Fills in the spec of a Pod.
pub(super) fn default_pod(pod: &mut Json) {
    default_by(pod, "spec", defaults::pod_spec);
}

/// Fills in the spec of a template's pods at a dotted path.
pub(super) fn default(object: &mut Json, path: &str) {
    default_by(object, path, defaults::template_spec);
}

fn default_by(object: &mut Json, path: &str, fill_in: fn(&mut Map<String, Value>)) {
    if let Some(spec) = object_at(object, path) {
        schema::require("core.v1.PodSpec", spec);
        fill_in(spec);
    }
}

/// Notes everything that is wrong with the pod's spec in the fields of `pod`; they are the object itself, or a template
/// at `path` in it. Ephemeral containers are left to the caller.
pub(super) fn check_pod(pod: &Place<'_, '_>, path: &str, whole: &Json, causes: &mut Causes) {
    let faults = match typed(pod) {
        Ok(pod) => validate::pod_spec(&pod),
        Err(error) => return causes.invalid(&pod.at("spec"), &format!("cannot be read: {error}")),
    };
    let prefix = PathBuf::from(path);
    for fault in faults {
        let path = fault.path.under(&prefix);
        causes.push(found::cause(&Fault { path, ..fault }, whole));
    }
}

/// The pod as the typed checks take it: its spec and annotations.
pub(super) fn typed(pod: &Place<'_, '_>) -> Result<Pod, serde_json::Error> {
    let mut spec = Option::<PodSpec>::deserialize(pod.at("spec").value())?;
    if let Some(spec) = &mut spec {
        spec.ephemeral_containers = None;
    }
    let annotations = pod.at("metadata.annotations");
    let annotations = annotations.entries().map(|(key, value)| (key.to_owned(), value.text().to_owned()));
    let metadata = ObjectMeta { annotations: Some(annotations.collect()), ..ObjectMeta::default() };
    Ok(Pod { metadata, spec, ..Pod::default() })
}

/// What a controller asks of the template of its pods.
pub(super) struct Wanted {
    /// The kind, for messages.
    pub kind: &'static str,
    /// The restart policies that make sense.
    pub restart_policies: &'static [&'static str],
    /// True when pods may have a deadline.
    pub deadline: bool,
}

/// Notes everything that is wrong with a template at the dotted path of `object`.
pub(super) fn check(object: &Json, path: &str, wanted: &Wanted, causes: &mut Causes) {
    let root = Place::root(object);
    let template = &root.at(path);
    metadata::labels(&template.at("metadata.labels"), causes);
    metadata::annotations(&template.at("metadata.annotations"), causes);
    check_pod(template, path, object, causes);
    let spec = template.at("spec");
    causes.absent(&spec.at("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    let policy = spec.at("restartPolicy");
    if policy.text() == "Always" && !wanted.restart_policies.contains(&"Always") {
        // It is the default, so most likely nothing was said at all.
        let known: Vec<String> = wanted.restart_policies.iter().map(|known| format!("\"{known}\"")).collect();
        causes.missing(&policy, &format!("valid values: {}", known.join(", ")));
    } else if !policy.is_empty() && !wanted.restart_policies.contains(&policy.text()) {
        causes.push(Cause::not_supported(policy.path(), policy.text(), wanted.restart_policies));
    }
    if !wanted.deadline && !spec.at("activeDeadlineSeconds").is_absent() {
        let why = format!("activeDeadlineSeconds in {} is not Supported", wanted.kind);
        causes.forbidden(&spec.at("activeDeadlineSeconds"), &why);
    }
}

/// The labels of the template at a dotted path, made where there are none.
pub(super) fn labels<'a>(object: &'a mut Json, path: &str) -> Option<&'a mut Map<String, Value>> {
    fields_at(object, &format!("{path}.metadata.labels"))
}
