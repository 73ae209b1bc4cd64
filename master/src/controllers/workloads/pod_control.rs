//! The pods of the workload objects of one kind: which pods an object owns, and whether the informers show all writes.
//!
//! A controller of pods has one [`PodControl`]. `pod_writes` creates and deletes the pods.

use std::sync::Arc;

use client::{Client, Error, Kind};

use super::claim::Owner;
use super::own_writes::OwnWrites;
use super::owners::{enqueue_adopters, enqueue_owners, is_irrelevant};
use super::requests::{Claimant, claim_all};
use crate::controllers::informers::{Change, SharedInformers};
use crate::controllers::object::Object;
use crate::controllers::work_queue::WorkQueue;
use crate::objects::{LabelSelector, ObjectMeta};

/// Claims, creates and deletes the pods of the objects of one kind.
#[derive(Debug)]
pub struct PodControl {
    pub(super) client: Client,
    pub(super) informers: SharedInformers,
    /// The kind of the owners.
    pub(super) kind: Kind,
    /// The source of events.
    pub(super) component: &'static str,
    pub(super) writes: OwnWrites,
    /// A finalizer that the pods of the owners have.
    finalizer: Option<&'static str>,
    /// Whether pods are adopted and released only while they have not ended and are not being deleted.
    only_active: bool,
}

/// An object that owns pods. It was read from the API server, not from the cache.
#[derive(Clone, Copy, Debug)]
pub struct PodOwner<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub is_terminating: bool,
    /// Selects pods.
    pub selector: &'a LabelSelector,
}

impl<'a> PodOwner<'a> {
    /// Returns the owner with this metadata and selector.
    pub fn of<A>(namespace: &'a str, metadata: &'a ObjectMeta<A>, selector: &'a LabelSelector) -> Self {
        Self {
            namespace,
            name: &metadata.name,
            uid: &metadata.uid,
            is_terminating: metadata.is_terminating(),
            selector,
        }
    }

    /// The part that decides which pods are claimed.
    pub fn owner(&self) -> Owner<'a> {
        Owner { uid: self.uid, is_terminating: self.is_terminating, selector: self.selector }
    }
}

impl PodControl {
    /// Creates the pod control for a kind. It reads the pods of the given informers.
    pub fn new(client: Client, informers: SharedInformers, kind: Kind, component: &'static str) -> Self {
        let writes = OwnWrites::new(Kind::POD);
        Self { client, informers, kind, component, writes, finalizer: None, only_active: true }
    }

    /// Adds a finalizer to adopted pods, and removes it from released ones. Because the owners count their pods by this
    /// finalizer, pods that have ended are adopted as well, and released like those that are being deleted.
    pub fn with_finalizer(mut self, finalizer: &'static str) -> Self {
        self.finalizer = Some(finalizer);
        self.only_active = false;
        self
    }

    /// Removes the pending writes of an owner that no longer exists.
    pub fn forget(&self, uid: &str) {
        self.writes.forget(uid);
    }

    /// Enqueues the owners of a changed pod, and the objects that may adopt it. `selector` returns the selector of an
    /// object of this kind.
    pub fn on_pod_change(
        &self,
        change: &Change,
        queue: &WorkQueue,
        selector: fn(&Object) -> Option<&LabelSelector>,
    ) {
        if !is_irrelevant(change) {
            self.enqueue_owners(change, queue);
            enqueue_adopters(change, &self.kind, &self.informers, queue, selector);
        }
    }

    /// Enqueues the owners of a changed pod. Records that the pod was shown.
    pub fn enqueue_owners(&self, change: &Change, queue: &WorkQueue) {
        enqueue_owners(change, &self.kind, &self.writes, queue);
    }

    /// Returns the pods of the owner. Adopts matching orphans, and releases pods that no longer match.
    ///
    /// # Errors
    /// If it is unknown whether the owner exists, or an owner reference cannot be changed. The caller retries.
    pub async fn claim<'p>(
        &self,
        of: &PodOwner<'_>,
        pods: &'p [Arc<Object>],
    ) -> Result<Vec<&'p Arc<Object>>, Error> {
        let claimant = Claimant {
            kind: &self.kind,
            namespace: of.namespace,
            name: of.name,
            owner: of.owner(),
            only_active: self.only_active,
            finalizer: self.finalizer,
        };
        Ok(claim_all(&self.client, &claimant, &Kind::POD, pods).await?.own)
    }

    /// Whether the cached pods show all writes for an owner. See [`OwnWrites::are_seen`].
    ///
    /// # Errors
    /// If an overdue write cannot be confirmed. The caller retries.
    pub async fn has_seen_own_writes(&self, namespace: &str, uid: &str) -> Result<bool, Error> {
        self.writes.are_seen(&self.client, &self.informers, namespace, uid).await
    }
}
