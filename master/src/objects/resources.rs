//! Resource requests and limits.

use std::collections::BTreeMap;

use api::resources::ResourceList;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Deserialize;

use super::pod::{Container, PodSpec};
use super::values::StringMap;

/// Requests and limits by resource name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    pub requests: StringMap,
    pub limits: StringMap,
}

impl ResourceRequirements {
    /// Converts to the stock type. Returns `None` without requests and limits.
    fn to_stock(&self) -> Option<core::ResourceRequirements> {
        (*self != Self::default()).then(|| core::ResourceRequirements {
            requests: texts(&self.requests),
            limits: texts(&self.limits),
            ..core::ResourceRequirements::default()
        })
    }
}

impl PodSpec {
    /// The containers' resources, the pod-level resources and the overhead, for the arithmetic of [`api::resources`]. All
    /// other fields are empty.
    pub fn resources_only(&self) -> core::PodSpec {
        let container = |container: &Container| core::Container {
            name: container.name.to_string(),
            restart_policy: Some(container.restart_policy.to_string()).filter(|policy| !policy.is_empty()),
            resources: container.resources.to_stock(),
            ..core::Container::default()
        };
        core::PodSpec {
            containers: self.containers.iter().map(container).collect(),
            init_containers: Some(self.init_containers.iter().map(container).collect()),
            overhead: texts(&self.overhead),
            resources: self.resources.to_stock(),
            ..core::PodSpec::default()
        }
    }
}

/// Parses quantities by resource name. Omits invalid ones.
pub fn quantities(texts: &StringMap) -> ResourceList {
    texts.iter().filter_map(|(name, text)| Some((name.to_owned(), text.parse().ok()?))).collect()
}

fn texts(map: &StringMap) -> Option<BTreeMap<String, Quantity>> {
    (!map.is_empty())
        .then(|| map.iter().map(|(name, text)| (name.to_owned(), Quantity(text.to_owned()))).collect())
}
