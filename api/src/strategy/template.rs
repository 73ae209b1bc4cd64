//! Defaults and validation of pod specs and pod templates.

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::causes::Causes;
use super::dotted::{fields_at, object_at};
use super::field_value::FieldValue;
use super::{Cause, Json, from_field_error, metadata};
use crate::field_error::FieldError;
use crate::path::PathBuf;
use crate::{defaults, schema, validate};

/// Sets the defaults of a Pod's spec.
pub(super) fn default_pod(pod: &mut Json) {
    default_by(pod, "spec", defaults::pod_spec);
}

/// Sets the defaults of the pod template spec at a dotted path.
pub(super) fn default(object: &mut Json, path: &str) {
    default_by(object, path, defaults::template_spec);
}

fn default_by(object: &mut Json, path: &str, fill_in: fn(&mut Map<String, Value>)) {
    if let Some(spec) = object_at(object, path) {
        schema::require("core.v1.PodSpec", spec);
        fill_in(spec);
    }
}

/// Validates the pod spec in `pod`: the object `whole` itself, or a template at `path` in it. Ephemeral containers
/// are not validated here.
pub(super) fn check_pod(pod: &FieldValue<'_, '_>, path: &str, whole: &Json, causes: &mut Causes) {
    let errors = match typed(pod) {
        Ok(mut pod) => {
            // Admission sets the account of the pods of a template.
            if let Some(spec) = pod.spec.as_mut().filter(|_| !path.is_empty()) {
                let account = spec.service_account_name.get_or_insert_default();
                if account.is_empty() {
                    "default".clone_into(account);
                }
            }
            validate::pod_spec(&pod)
        }
        Err(error) => return causes.invalid(&pod.at("spec"), &format!("cannot be read: {error}")),
    };
    let prefix = PathBuf::from(path);
    for error in errors {
        let path = error.path.under(&prefix);
        causes.push(from_field_error::cause(&FieldError { path, ..error }, whole));
    }
}

/// Deserializes the spec and annotations for validation.
pub(super) fn typed(pod: &FieldValue<'_, '_>) -> Result<Pod, serde_json::Error> {
    let mut spec = Option::<PodSpec>::deserialize(pod.at("spec").value())?;
    if let Some(spec) = &mut spec {
        spec.ephemeral_containers = None;
    }
    let annotations = pod.at("metadata.annotations");
    let annotations = annotations.entries().map(|(key, value)| (key.to_owned(), value.text().to_owned()));
    let metadata = ObjectMeta { annotations: Some(annotations.collect()), ..ObjectMeta::default() };
    Ok(Pod { metadata, spec, ..Pod::default() })
}

/// The requirements of a controller for its pod template.
pub(super) struct TemplateRules {
    /// The kind for messages.
    pub kind: &'static str,
    /// The supported restart policies.
    pub restart_policies: &'static [&'static str],
    /// True if pods may have `activeDeadlineSeconds`.
    pub deadline: bool,
}

/// Validates the pod template at a dotted path of `object`.
pub(super) fn check(object: &Json, path: &str, wanted: &TemplateRules, causes: &mut Causes) {
    let root = FieldValue::root(object);
    let template = &root.at(path);
    metadata::labels(&template.at("metadata.labels"), causes);
    metadata::annotations(&template.at("metadata.annotations"), causes);
    check_pod(template, path, object, causes);
    let spec = template.at("spec");
    causes.absent(&spec.at("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    let policy = spec.at("restartPolicy");
    if policy.text() == "Always" && !wanted.restart_policies.contains(&"Always") {
        // `Always` is the default, so the client probably omitted the policy.
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

/// The labels of the template at a dotted path, created if they are missing.
pub(super) fn labels<'a>(object: &'a mut Json, path: &str) -> Option<&'a mut Map<String, Value>> {
    fields_at(object, &format!("{path}.metadata.labels"))
}
