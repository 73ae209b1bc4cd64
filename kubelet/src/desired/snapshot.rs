//! A complete snapshot of what one pod source contains.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::object::Object;
use api::problem::{ObjectName, Problem};
use api::references::PodClaim;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{Completeness, SourceKind};
use crate::observed::PodUid;

/// An object of a pod source. Source, merge and pod worker share it by reference.
#[derive(Clone, Debug, PartialEq)]
pub enum SourceObject {
    /// A pod with its node-specific name, UID and annotations.
    Pod(Arc<Pod>),
    ConfigMap(Arc<ConfigMap>),
    Secret(Arc<Secret>),
    /// A service-account token that the API server issued for a pod.
    Token(Arc<TokenRequest>),
    /// A PersistentVolumeClaim of a pod, with its volume.
    Claim(Arc<PodClaim>),
    /// A Service of this node.
    Service(Arc<Service>),
    /// The Service of the API server, for environment variables.
    ApiService(Arc<Service>),
}

impl SourceObject {
    /// Wraps a decoded object.
    pub fn new(object: Object) -> Self {
        match object {
            Object::Pod(pod) => Self::Pod(Arc::from(pod)),
            Object::ConfigMap(map) => Self::ConfigMap(Arc::from(map)),
            Object::Secret(secret) => Self::Secret(Arc::from(secret)),
            Object::Service(service) => Self::Service(Arc::from(service)),
        }
    }

    /// The kind of the object.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Pod(_) => "Pod",
            Self::ConfigMap(_) => "ConfigMap",
            Self::Secret(_) => "Secret",
            Self::Token(_) => "TokenRequest",
            Self::Claim(_) => "PersistentVolumeClaim",
            Self::Service(_) | Self::ApiService(_) => "Service",
        }
    }

    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Pod(pod) => &pod.metadata,
            Self::ConfigMap(map) => &map.metadata,
            Self::Secret(secret) => &secret.metadata,
            Self::Token(token) => &token.metadata,
            Self::Claim(claim) => &claim.metadata,
            Self::Service(service) | Self::ApiService(service) => &service.metadata,
        }
    }

    /// Kind, namespace and name.
    pub fn object_name(&self) -> ObjectName {
        let metadata = self.metadata();
        ObjectName {
            kind: self.kind().to_owned(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }

    /// The object as JSON.
    ///
    /// # Errors
    /// If serialization fails, which does not happen for typed objects.
    pub fn json(&self) -> serde_json::Result<Value> {
        match self {
            Self::Pod(pod) => serde_json::to_value(pod),
            Self::ConfigMap(map) => serde_json::to_value(map),
            Self::Secret(secret) => serde_json::to_value(secret),
            Self::Token(token) => serde_json::to_value(token),
            Self::Claim(claim) => serde_json::to_value(claim),
            Self::Service(service) | Self::ApiService(service) => serde_json::to_value(service),
        }
    }

    /// Whether both point to the same object in memory.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pod(a), Self::Pod(b)) => Arc::ptr_eq(a, b),
            (Self::ConfigMap(a), Self::ConfigMap(b)) => Arc::ptr_eq(a, b),
            (Self::Secret(a), Self::Secret(b)) => Arc::ptr_eq(a, b),
            (Self::Token(a), Self::Token(b)) => Arc::ptr_eq(a, b),
            (Self::Claim(a), Self::Claim(b)) => Arc::ptr_eq(a, b),
            (Self::Service(a), Self::Service(b)) => Arc::ptr_eq(a, b),
            (Self::ApiService(a), Self::ApiService(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// An object and its origin.
#[derive(Clone, Debug)]
pub struct Found {
    /// Name in the manifest.
    pub name: Arc<ObjectName>,
    pub object: SourceObject,
    /// The file or URL.
    pub origin: Arc<str>,
}

/// A problem and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProblem {
    /// The file or URL.
    pub origin: Arc<str>,
    pub problem: Problem,
    /// Whether the last good version of the file stays in use.
    pub last_good: bool,
}

impl fmt::Display for FoundProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = if self.problem.line > 0 { "" } else { " " };
        write!(f, "{}:{gap}{}", self.origin, self.problem)?;
        if self.last_good { f.write_str(" (the last good version stays in use)") } else { Ok(()) }
    }
}

/// All objects of one source, in the order of precedence: earlier objects win over later ones.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub source: SourceKind,
    /// The valid objects.
    pub objects: Vec<Found>,
    /// Desired pods that must not be started yet. Their existing containers keep running.
    pub waiting: BTreeSet<PodUid>,
    /// Problems with the other objects.
    pub problems: Vec<FoundProblem>,
    /// Directory entries that are skipped, one sentence each.
    pub skipped: Vec<String>,
    /// `Incomplete` until the source has been read once. Until then the snapshot contains only saved objects.
    pub completeness: Completeness,
}

impl Snapshot {
    /// Whether both snapshots have the same objects (by pointer), origins and problems.
    pub fn is_same(&self, other: &Self) -> bool {
        self.source == other.source
            && self.completeness == other.completeness
            && self.problems == other.problems
            && self.skipped == other.skipped
            && self.waiting == other.waiting
            && self.objects.len() == other.objects.len()
            && self
                .objects
                .iter()
                .zip(&other.objects)
                .all(|(a, b)| a.origin == b.origin && a.object.is_same(&b.object))
    }
}
