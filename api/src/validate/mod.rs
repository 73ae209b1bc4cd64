//! Validates typed objects of manifests, with the rules of the API.

mod container;
mod containers;
mod data;
mod env;
mod handlers;
mod metadata;
mod mounts;
pub(crate) mod names;
mod network;
mod pod;
mod projected;
mod resources;
mod scheduling;
mod security;
mod selectors;
mod volumes;

pub use self::names::is_dns_subdomain;

pub(crate) use self::names::REQUIRED;
pub(crate) use self::pod::APPARMOR_PREFIX;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};

use crate::field_error::{FieldError, FieldErrors};
use crate::object::Object;

/// Validates an object with defaults.
pub fn object(object: &Object) -> Vec<FieldError> {
    match object {
        Object::Pod(inner) => pod(inner),
        Object::ConfigMap(inner) => config_map(inner),
        Object::Secret(inner) => secret(inner),
        Object::Service(inner) => service(inner),
    }
}

/// Validates a Pod with defaults.
pub fn pod(pod: &Pod) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    metadata::check(&pod.metadata, &mut errors);
    pod::check(pod, &mut errors);
    errors.into_vec()
}

/// Validates the spec of a Pod or a pod template with defaults, without its metadata.
pub fn pod_spec(pod: &Pod) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    pod::check(pod, &mut errors);
    errors.into_vec()
}

/// Validates the data of a ConfigMap.
pub fn config_map_data(config_map: &ConfigMap) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    data::config_map(config_map, &mut errors);
    errors.into_vec()
}

/// Validates the metadata of a Service. The decoder has validated its spec.
fn service(service: &Service) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    metadata::check(&service.metadata, &mut errors);
    errors.into_vec()
}

/// Validates the data of a Secret with defaults.
pub fn secret_data(secret: &Secret) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    data::secret(secret, &mut errors);
    errors.into_vec()
}

/// Validates a ConfigMap.
pub fn config_map(config_map: &ConfigMap) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    metadata::check(&config_map.metadata, &mut errors);
    data::config_map(config_map, &mut errors);
    errors.into_vec()
}

/// Validates a Secret with defaults.
pub fn secret(secret: &Secret) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    metadata::check(&secret.metadata, &mut errors);
    data::secret(secret, &mut errors);
    errors.into_vec()
}

#[cfg(test)]
mod tests {
    //! Tests of validation errors.
    #![allow(clippy::unwrap_used, reason = "tests")]

    mod data;
    mod names;
    mod pods;

    use k8s_openapi::api::core::v1::Pod;

    use crate::field_error::FieldError;

    fn messages(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(|error| format!("{}: {}; {}", error.path, error.what, error.remedy)).collect()
    }

    /// Validates a Pod with this spec in YAML; `expected` omits `spec.`.
    #[track_caller]
    fn spec(yaml: &str, expected: &[&str]) {
        let manifest = format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec: {yaml}\n");
        let mut value: serde_json::Value = serde_yaml::from_str(&manifest).unwrap();
        crate::defaults::pod_spec(value["spec"].as_object_mut().unwrap());
        let pod: Pod = serde_json::from_value(value).unwrap();
        let messages = messages(&super::pod(&pod));
        let messages: Vec<&str> =
            messages.iter().map(|line| line.strip_prefix("spec.").unwrap_or(line)).collect();
        assert_eq!(messages, expected, "of {yaml}");
    }

    /// Validates a Pod with one container; `expected` omits `spec.containers[0].`.
    #[track_caller]
    fn container(fields: &str, expected: &[&str]) {
        let expected: Vec<String> = expected.iter().map(|line| format!("containers[0].{line}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        let volumes = "volumes: [{name: data, emptyDir: {}}, {name: host, hostPath: {path: /tmp}}]";
        spec(&format!("{{{volumes}, containers: [{{name: c, image: i, {fields}}}]}}"), &expected);
    }

    /// Validates a Pod with one volume `v`; `expected` omits `spec.volumes[0].`.
    #[track_caller]
    fn volume(source: &str, expected: &[&str]) {
        let expected: Vec<String> = expected.iter().map(|line| format!("volumes[0].{line}")).collect();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        spec(
            &format!("{{volumes: [{{name: v, {source}}}], containers: [{{name: c, image: i}}]}}"),
            &expected,
        );
    }

    /// Validates a Pod with a container and these fields; `expected` omits `spec.`.
    #[track_caller]
    fn fields(fields: &str, expected: &[&str]) {
        spec(&format!("{{containers: [{{name: c, image: i}}], {fields}}}"), expected);
    }
}
