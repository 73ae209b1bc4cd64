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
mod restart;
mod scheduling;
mod security;
mod selectors;
#[cfg(test)]
mod tests;
mod volumes;

pub use self::names::is_dns_subdomain;

pub(crate) use self::names::REQUIRED;
pub(crate) use self::pod::APPARMOR_PREFIX;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

use crate::field_error::{FieldError, FieldErrors};
use crate::object::Object;

/// Validates an object with defaults.
pub fn object(object: &Object) -> Vec<FieldError> {
    match object {
        Object::Pod(inner) => pod(inner),
        Object::ConfigMap(inner) => config_map(inner),
        Object::Secret(inner) => secret(inner),
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
