//! What one source wants, all of it at once.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use api::object::Object;
use api::problem::{ObjectName, Problem};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{Completeness, SourceKind};
use crate::observed::PodUid;

/// An object of a source, shared from here to the worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Held {
    /// A pod as it will run here: named for this node, with UID and annotations.
    Pod(Arc<Pod>),
    /// Plain data.
    ConfigMap(Arc<ConfigMap>),
    /// Confidential data.
    Secret(Arc<Secret>),
    /// A token that the master has given for a pod.
    Token(Arc<TokenRequest>),
    /// The Service by which pods find the master's API.
    ApiService(Arc<Service>),
}

impl Held {
    /// The same object, shared.
    pub fn new(object: Object) -> Self {
        match object {
            Object::Pod(pod) => Self::Pod(Arc::from(pod)),
            Object::ConfigMap(map) => Self::ConfigMap(Arc::from(map)),
            Object::Secret(secret) => Self::Secret(Arc::from(secret)),
        }
    }

    /// The kind as a manifest spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Pod(_) => "Pod",
            Self::ConfigMap(_) => "ConfigMap",
            Self::Secret(_) => "Secret",
            Self::Token(_) => "TokenRequest",
            Self::ApiService(_) => "Service",
        }
    }

    /// The metadata, whatever the kind.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Pod(pod) => &pod.metadata,
            Self::ConfigMap(map) => &map.metadata,
            Self::Secret(secret) => &secret.metadata,
            Self::Token(token) => &token.metadata,
            Self::ApiService(service) => &service.metadata,
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

    /// As a manifest would say it.
    ///
    /// # Errors
    /// Never, as far as is known: every typed object becomes JSON.
    pub fn json(&self) -> serde_json::Result<Value> {
        match self {
            Self::Pod(pod) => serde_json::to_value(pod),
            Self::ConfigMap(map) => serde_json::to_value(map),
            Self::Secret(secret) => serde_json::to_value(secret),
            Self::Token(token) => serde_json::to_value(token),
            Self::ApiService(service) => serde_json::to_value(service),
        }
    }

    /// True when both are one and the same in memory.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Pod(a), Self::Pod(b)) => Arc::ptr_eq(a, b),
            (Self::ConfigMap(a), Self::ConfigMap(b)) => Arc::ptr_eq(a, b),
            (Self::Secret(a), Self::Secret(b)) => Arc::ptr_eq(a, b),
            (Self::Token(a), Self::Token(b)) => Arc::ptr_eq(a, b),
            (Self::ApiService(a), Self::ApiService(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// An object and where it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// What its manifest calls it.
    pub name: Arc<ObjectName>,
    /// The object.
    pub object: Held,
    /// The file or URL.
    pub origin: Arc<str>,
}

/// Something wrong and where it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProblem {
    /// The file or URL.
    pub origin: Arc<str>,
    /// What is wrong.
    pub problem: Problem,
    /// The last good version of what is wrong stays in force.
    pub last_good: bool,
}

impl fmt::Display for FoundProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = if self.problem.line > 0 { "" } else { " " };
        write!(f, "{}:{gap}{}", self.origin, self.problem)?;
        if self.last_good { f.write_str(" (the last good version stays in force)") } else { Ok(()) }
    }
}

/// All that one source wants, in its own order: what stands first wins over what stands later.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The source.
    pub source: SourceKind,
    /// What it holds.
    pub objects: Vec<Found>,
    /// Pods that it wants and that are not to begin yet: what is there of them goes on.
    pub waiting: BTreeSet<PodUid>,
    /// What is wrong with the rest.
    pub problems: Vec<FoundProblem>,
    /// `Incomplete` when the source could not be read yet and only what it last held is known.
    pub completeness: Completeness,
}

impl Snapshot {
    /// True when the other says the same: the very same objects from the same places, the same problems.
    pub fn is_same(&self, other: &Self) -> bool {
        self.source == other.source
            && self.completeness == other.completeness
            && self.problems == other.problems
            && self.waiting == other.waiting
            && self.objects.len() == other.objects.len()
            && self
                .objects
                .iter()
                .zip(&other.objects)
                .all(|(a, b)| a.origin == b.origin && a.object.is_same(&b.object))
    }
}
