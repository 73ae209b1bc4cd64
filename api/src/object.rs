//! What a manifest may hold once it is understood.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::problem::ObjectName;

/// An object of a local source: defaulted, valid, and in the one version everything else speaks (`v1`).
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A unit of work.
    Pod(Box<Pod>),
    /// Plain data that Pods of this node refer to.
    ConfigMap(Box<ConfigMap>),
    /// Confidential data that Pods of this node refer to.
    Secret(Box<Secret>),
}

impl Object {
    /// The kind as a manifest spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Pod(_) => "Pod",
            Self::ConfigMap(_) => "ConfigMap",
            Self::Secret(_) => "Secret",
        }
    }

    /// The namespace; decoding fills in `default`, so it is only empty in objects made by hand.
    pub fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or_default()
    }

    /// The name as the manifest gives it.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Kind, namespace and name, for messages.
    pub fn object_name(&self) -> ObjectName {
        ObjectName {
            kind: self.kind().to_owned(),
            namespace: self.namespace().to_owned(),
            name: self.name().to_owned(),
        }
    }

    /// The metadata, whatever the kind.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Pod(pod) => &pod.metadata,
            Self::ConfigMap(config_map) => &config_map.metadata,
            Self::Secret(secret) => &secret.metadata,
        }
    }

    /// The metadata, whatever the kind, to change it.
    pub fn metadata_mut(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Pod(pod) => &mut pod.metadata,
            Self::ConfigMap(config_map) => &mut config_map.metadata,
            Self::Secret(secret) => &mut secret.metadata,
        }
    }
}
