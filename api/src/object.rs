//! The objects that a manifest may contain.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::problem::ObjectName;

/// An object of a manifest: valid, with defaults, in `v1`.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A Pod.
    Pod(Box<Pod>),
    /// A ConfigMap for Pods of this node.
    ConfigMap(Box<ConfigMap>),
    /// A Secret for Pods of this node.
    Secret(Box<Secret>),
    /// A Service for Pods of this node.
    Service(Box<Service>),
}

impl Object {
    /// The kind of the object.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Pod(_) => "Pod",
            Self::ConfigMap(_) => "ConfigMap",
            Self::Secret(_) => "Secret",
            Self::Service(_) => "Service",
        }
    }

    /// The namespace of the object. The decoder sets `default` if the manifest has none.
    pub fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    /// The name of the object.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Kind, namespace and name for messages.
    pub fn object_name(&self) -> ObjectName {
        ObjectName {
            kind: self.kind().to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
        }
    }

    /// The metadata of the object.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Pod(pod) => &pod.metadata,
            Self::ConfigMap(config_map) => &config_map.metadata,
            Self::Secret(secret) => &secret.metadata,
            Self::Service(service) => &service.metadata,
        }
    }

    /// The mutable metadata.
    pub fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Pod(pod) => &mut pod.metadata,
            Self::ConfigMap(config_map) => &mut config_map.metadata,
            Self::Secret(secret) => &mut secret.metadata,
            Self::Service(service) => &mut service.metadata,
        }
    }
}
