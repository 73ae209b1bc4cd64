//! What should run here: the pure merge of what every source wants.

mod admit;
mod merge;
mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::problem::ObjectName;
use api::references::References;
use k8s_openapi::api::core::v1::Pod;

pub use self::admit::{Admission, Decision, Node, Rejection, UNSUPPORTED};
pub use self::merge::Merge;
pub use self::snapshot::{Found, FoundProblem, Held, Snapshot};
use crate::observed::PodUid;

/// Where a pod comes from; the value of the annotation `kubernetes.io/config.source`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceKind {
    /// A directory or file of manifests.
    File,
    /// A URL.
    Http,
    /// Pushed straight to this node.
    Push,
    /// The master.
    Api,
}

impl SourceKind {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::File, Self::Http, Self::Push, Self::Api];

    /// The kind that the annotation of a pod names, a file's when it names none.
    pub fn of(pod: &Pod) -> Self {
        let annotations = pod.metadata.annotations.as_ref();
        match annotations.and_then(|a| a.get("kubernetes.io/config.source")).map(String::as_str) {
            Some("http") => Self::Http,
            Some("push") => Self::Push,
            Some("api") => Self::Api,
            _ => Self::File,
        }
    }

    /// The word of the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Http => "http",
            Self::Push => "push",
            Self::Api => "api",
        }
    }
}

/// One pod that should run here.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredPod {
    /// Its identity.
    pub uid: PodUid,
    /// The pod: defaulted, valid, named for this node, with its UID and config annotations.
    pub pod: Arc<Pod>,
    /// Who wants it.
    pub source: SourceKind,
}

impl DesiredPod {
    /// Whether the master says that it is to go: it is ended with the grace that its metadata gives, and not begun.
    pub fn is_doomed(&self) -> bool {
        self.source == SourceKind::Api && self.pod.metadata.deletion_timestamp.is_some()
    }
}

/// Whether every source has spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completeness {
    /// Pods may be started, and none ended for being absent.
    Incomplete,
    /// What is absent is not wanted.
    Complete,
}

/// Everything that should run here.
#[derive(Clone, Debug)]
pub struct Desired {
    /// The pods.
    pub pods: BTreeMap<PodUid, Arc<DesiredPod>>,
    /// The pods by precedence: what comes first wins where two want one thing.
    pub order: Vec<PodUid>,
    /// ConfigMaps and Secrets of this node's own sources, for the pods of these.
    pub references: Arc<References>,
    /// ConfigMaps and Secrets of the master, for its pods: what bears one name on both sides is two things.
    pub of_master: Arc<References>,
    /// Where each object of this node's own sources comes from, and each pod; pods by the name they bear here.
    pub owners: BTreeMap<ObjectName, Owner>,
    /// Pods of the master that do not run because this node has one of its own of that name, each with where that is from.
    pub namesakes: BTreeMap<PodUid, (Arc<DesiredPod>, Arc<str>)>,
    /// Pods that are wanted and not to begin yet: what is there of them goes on.
    pub waiting: BTreeSet<PodUid>,
    /// What is wrong, by source and place.
    pub problems: Vec<FoundProblem>,
    /// Whether that is all of this node's own sources.
    pub completeness: Completeness,
    /// Whether that is all of the master: without one there is nothing to wait for.
    pub master: Completeness,
    /// Sources that are not asked: whatever they wanted runs on, as nobody has said that it is wanted no more.
    pub unasked: BTreeSet<SourceKind>,
}

impl Desired {
    /// What pods of that source may refer to.
    pub fn references_of(&self, source: SourceKind) -> &Arc<References> {
        match source {
            SourceKind::Api => &self.of_master,
            SourceKind::File | SourceKind::Http | SourceKind::Push => &self.references,
        }
    }

    /// Whether a pod that such a source wanted is wanted no more; of an unknown source that is known once all have spoken.
    pub fn is_unwanted(&self, uid: &PodUid, source: Option<SourceKind>) -> bool {
        if self.pods.contains_key(uid) || self.waiting.contains(uid) {
            return false;
        }
        let (own, master) =
            (self.completeness == Completeness::Complete, self.master == Completeness::Complete);
        match source {
            Some(unasked) if self.unasked.contains(&unasked) => false,
            Some(SourceKind::Api) => master,
            Some(SourceKind::File | SourceKind::Http | SourceKind::Push) => own,
            None => own && master,
        }
    }
}

/// Who may change an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The source.
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
            of_master: Arc::default(),
            owners: BTreeMap::new(),
            namesakes: BTreeMap::new(),
            waiting: BTreeSet::new(),
            problems: Vec::new(),
            completeness: Completeness::Incomplete,
            master: Completeness::Incomplete,
            unasked: BTreeSet::new(),
        }
    }
}
