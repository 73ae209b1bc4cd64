//! The ConfigMaps and Secrets that Pods of a node may refer to.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};

/// Shared, immutable data by `(namespace, name)`; cheap to clone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct References {
    /// ConfigMaps by namespace and name.
    pub config_maps: BTreeMap<(String, String), Arc<ConfigMap>>,
    /// Secrets by namespace and name.
    pub secrets: BTreeMap<(String, String), Arc<Secret>>,
}

impl References {
    /// The ConfigMap of that name, if any local source holds it.
    pub fn config_map(&self, namespace: &str, name: &str) -> Option<&Arc<ConfigMap>> {
        self.config_maps.get(&(namespace.to_owned(), name.to_owned()))
    }

    /// The Secret of that name, if any local source holds it.
    pub fn secret(&self, namespace: &str, name: &str) -> Option<&Arc<Secret>> {
        self.secrets.get(&(namespace.to_owned(), name.to_owned()))
    }
}
