//! Desired state of the node: a pure merge of the snapshots of all pod sources.

mod admission;
mod merge;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::problem::ObjectName;
use api::references::References;
use k8s_openapi::api::core::v1::Pod;

pub use self::admission::{APP_ARMOR, Admission, Decision, Node, Rejection, UNSUPPORTED, selects_node};
pub use self::merge::Merge;
pub use self::snapshot::{Found, FoundProblem, Snapshot, SourceObject};
use crate::observed::PodUid;

/// The source of a pod. Its name is the value of the annotation `kubernetes.io/config.source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// Pods pushed directly to this node. They precede other sources, because the API shows one object per name.
    Push,
    /// A static pod file or directory.
    File,
    /// A static pod URL.
    Http,
    /// The API server.
    Api,
}

impl SourceKind {
    /// All kinds of sources.
    pub const ALL: [Self; 4] = [Self::Push, Self::File, Self::Http, Self::Api];

    /// The source that a pod's annotation names; `File` if it names none.
    pub fn of(pod: &Pod) -> Self {
        let annotations = pod.metadata.annotations.as_ref();
        match annotations.and_then(|a| a.get("kubernetes.io/config.source")).map(String::as_str) {
            Some("http") => Self::Http,
            Some("push") => Self::Push,
            Some("api") => Self::Api,
            _ => Self::File,
        }
    }

    /// The value of the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Push => "push",
            Self::Api => "api",
        }
    }
}

/// A pod that should run on this node.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredPod {
    pub uid: PodUid,
    /// The pod: defaulted, validated, with its node-specific name, UID and config annotations.
    pub pod: Arc<Pod>,
    /// Source of the pod.
    pub source: SourceKind,
}

impl DesiredPod {
    /// Whether an API has marked the pod for deletion. Such a pod is terminated with the grace period in its metadata,
    /// and never started.
    pub fn is_terminating(&self) -> bool {
        matches!(self.source, SourceKind::Api | SourceKind::Push)
            && self.pod.metadata.deletion_timestamp.is_some()
    }
}

/// Whether all snapshots have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Some are missing. Pods may be started, but absent pods must not be terminated.
    Incomplete,
    /// All have arrived. Absent pods are not desired.
    Complete,
}

/// The desired state of the node.
#[derive(Clone, Debug)]
pub struct Desired {
    pub pods: BTreeMap<PodUid, Arc<DesiredPod>>,
    /// UIDs by precedence: earlier pods win conflicts.
    pub order: Vec<PodUid>,
    /// ConfigMaps and Secrets of local sources, which pods of local sources use.
    pub references: Arc<References>,
    /// ConfigMaps and Secrets of the API server, which its pods use. Objects of the same name in both sets are
    /// independent.
    pub api_references: Arc<References>,
    /// The owner of each local object and of each pod. Pods have their full name here.
    pub owners: BTreeMap<ObjectName, Owner>,
    /// Pods of the API server that cannot run because a local pod has the same name. Each has the origin of the
    /// local pod.
    pub name_conflicts: BTreeMap<PodUid, (Arc<DesiredPod>, Arc<str>)>,
    /// Desired pods that must not be started yet. Their existing containers keep running.
    pub waiting: BTreeSet<PodUid>,
    /// Problems of all sources.
    pub problems: Vec<FoundProblem>,
    /// Whether all local sources have sent a complete snapshot.
    pub completeness: Completeness,
    /// Whether the API server source is complete. It is always true without an API server.
    pub api_completeness: Completeness,
    /// Sources that are not configured. Their pods keep running, because no source can say that they were removed.
    pub unconfigured: BTreeSet<SourceKind>,
}

impl Desired {
    /// The references that pods of a source may use.
    pub fn references_of(&self, source: SourceKind) -> &Arc<References> {
        match source {
            SourceKind::Api => &self.api_references,
            SourceKind::File | SourceKind::Http | SourceKind::Push => &self.references,
        }
    }

    /// Whether a file or a URL owns the object of this kind, with this namespace and name, in the API of the node. Clients
    /// own all others, because they have pushed them.
    pub fn is_of_manifest(&self, kind: &str, (namespace, name): &(String, String)) -> bool {
        let name = ObjectName { kind: kind.to_owned(), namespace: namespace.clone(), name: name.clone() };
        self.owners.get(&name).is_some_and(|owner| owner.source != SourceKind::Push)
    }

    /// Whether the source has sent a complete list since the kubelet started. Unconfirmed pods come from the checkpoint
    /// of an earlier kubelet process.
    pub fn is_confirmed(&self, source: SourceKind) -> bool {
        source != SourceKind::Api || self.api_completeness == Completeness::Complete
    }

    /// Whether a pod of a source is no longer desired. If the source is unknown, the snapshots of all sources must
    /// be complete.
    pub fn is_unwanted(&self, uid: &PodUid, source: Option<SourceKind>) -> bool {
        if self.pods.contains_key(uid) || self.waiting.contains(uid) {
            return false;
        }
        let (own, api_completeness) =
            (self.completeness == Completeness::Complete, self.api_completeness == Completeness::Complete);
        match source {
            Some(unconfigured) if self.unconfigured.contains(&unconfigured) => false,
            Some(SourceKind::Api) => api_completeness,
            Some(SourceKind::File | SourceKind::Http | SourceKind::Push) => own,
            None => own && api_completeness,
        }
    }
}

/// The owner of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub source: SourceKind,
    /// The file or URL.
    pub origin: Arc<str>,
}

impl Default for Desired {
    fn default() -> Self {
        Self {
            pods: BTreeMap::new(),
            order: Vec::new(),
            references: Arc::default(),
            api_references: Arc::default(),
            owners: BTreeMap::new(),
            name_conflicts: BTreeMap::new(),
            waiting: BTreeSet::new(),
            problems: Vec::new(),
            completeness: Completeness::Incomplete,
            api_completeness: Completeness::Incomplete,
            unconfigured: BTreeSet::new(),
        }
    }
}
