//! What a well-formed object may still get wrong, as creating it through the API would say.

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

use crate::fault::{Fault, Faults};
use crate::object::Object;

/// Everything that is wrong with a defaulted object.
pub fn object(object: &Object) -> Vec<Fault> {
    match object {
        Object::Pod(inner) => pod(inner),
        Object::ConfigMap(inner) => config_map(inner),
        Object::Secret(inner) => secret(inner),
    }
}

/// Everything that is wrong with a defaulted Pod.
pub fn pod(pod: &Pod) -> Vec<Fault> {
    let mut faults = Faults::default();
    metadata::check(&pod.metadata, &mut faults);
    pod::check(pod, &mut faults);
    faults.into_vec()
}

/// Everything that is wrong with the spec of a defaulted Pod, or of a template of one, which need not have a name.
pub fn pod_spec(pod: &Pod) -> Vec<Fault> {
    let mut faults = Faults::default();
    pod::check(pod, &mut faults);
    faults.into_vec()
}

/// Everything that is wrong with what a ConfigMap holds.
pub fn config_map_data(config_map: &ConfigMap) -> Vec<Fault> {
    let mut faults = Faults::default();
    data::config_map(config_map, &mut faults);
    faults.into_vec()
}

/// Everything that is wrong with what a defaulted Secret holds.
pub fn secret_data(secret: &Secret) -> Vec<Fault> {
    let mut faults = Faults::default();
    data::secret(secret, &mut faults);
    faults.into_vec()
}

/// Everything that is wrong with a ConfigMap.
pub fn config_map(config_map: &ConfigMap) -> Vec<Fault> {
    let mut faults = Faults::default();
    metadata::check(&config_map.metadata, &mut faults);
    data::config_map(config_map, &mut faults);
    faults.into_vec()
}

/// Everything that is wrong with a defaulted Secret.
pub fn secret(secret: &Secret) -> Vec<Fault> {
    let mut faults = Faults::default();
    metadata::check(&secret.metadata, &mut faults);
    data::secret(secret, &mut faults);
    faults.into_vec()
}
