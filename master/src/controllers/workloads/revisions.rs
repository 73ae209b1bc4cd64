//! Reads and writes the ControllerRevisions of an owner, by the decisions of [`history`].

use std::collections::HashSet;
use std::sync::Arc;

use client::{Client, DeleteOptions, Error, Kind};
use serde_json::{Map, Value, json};

use super::claim::controller_reference;
use super::expectations::Expected;
use super::history::{self, Revision, Update};
use super::own_writes::OwnWrites;
use super::owners::enqueue_owners;
use super::requests::{Claimant, claim_all};
use crate::controllers::informers::{Change, SharedInformers};
use crate::controllers::object::{Object, unreadable};
use crate::controllers::work_queue::WorkQueue;
use crate::objects::template::TemplateDigest;
use crate::objects::{ControllerRevision, LabelSelector, ObjectMeta, StringMap};

/// The histories of all owners of a kind.
#[derive(Debug)]
pub struct Revisions {
    client: Client,
    informers: SharedInformers,
    owner_kind: Kind,
    /// The label of a revision with its hash.
    hash_label: &'static str,
    writes: OwnWrites,
}

/// An owner of revisions.
#[derive(Clone, Copy, Debug)]
pub struct RevisionOwner<'a> {
    pub metadata: &'a ObjectMeta<StringMap>,
    pub selector: &'a LabelSelector,
    /// The pod template as JSON.
    pub template: &'a Value,
    /// `status.collisionCount`.
    pub collisions: i64,
}

/// The revision of the present template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentRevision {
    pub name: Box<str>,
    /// The value of the hash label.
    pub hash: Box<str>,
}

impl Revisions {
    /// Creates the histories of a kind. They read ControllerRevisions of the given informers.
    pub fn new(
        client: Client,
        informers: SharedInformers,
        owner_kind: Kind,
        hash_label: &'static str,
    ) -> Self {
        let writes = OwnWrites::new(Kind::CONTROLLER_REVISION);
        Self { client, informers, owner_kind, hash_label, writes }
    }

    /// Handles a change of a ControllerRevision: enqueues its owners. An orphan is adopted with the next change of its
    /// owner.
    pub fn on_change(&self, change: &Change, queue: &WorkQueue) {
        enqueue_owners(change, &self.owner_kind, &self.writes, queue);
    }

    /// Removes the pending writes of an owner that no longer exists.
    pub fn forget(&self, owner: &str) {
        self.writes.forget(owner);
    }

    /// Whether the cached revisions show all writes for an owner. See [`OwnWrites::are_seen`].
    ///
    /// # Errors
    /// If an overdue write cannot be confirmed. The caller retries.
    pub async fn has_seen_own_writes(&self, namespace: &str, owner: &str) -> Result<bool, Error> {
        self.writes.are_seen(&self.client, &self.informers, namespace, owner).await
    }

    /// Returns the cached revisions of an owner. Returns `None` if one had to be adopted or released first; its change
    /// enqueues the owner again.
    ///
    /// # Errors
    /// If a request fails. The caller retries.
    pub async fn claim(&self, owner: &RevisionOwner<'_>) -> Result<Option<Vec<Arc<Object>>>, Error> {
        let all = self.informers.list(&Kind::CONTROLLER_REVISION, &owner.metadata.namespace);
        let claimant = Claimant::of(&self.owner_kind, owner.metadata, owner.selector);
        Ok(claim_all(&self.client, &claimant, &Kind::CONTROLLER_REVISION, &all).await?.settled())
    }

    /// Makes the owner's template the newest revision. Returns `None` if another revision has the name: the caller
    /// increments `status.collisionCount` and retries.
    ///
    /// # Errors
    /// If a request fails. The caller retries.
    pub async fn record(
        &self,
        owner: &RevisionOwner<'_>,
        revisions: &[Revision<'_>],
    ) -> Result<Option<CurrentRevision>, Error> {
        match history::update(revisions, TemplateDigest::of(owner.template)) {
            Update::Current(revision) => Ok(Some(self.current(revision.name, revision.labels))),
            Update::Renumber { revision, number } => {
                self.renumber(owner, &revision, number).await?;
                Ok(Some(self.current(revision.name, revision.labels)))
            }
            Update::Create { number } => self.create(owner, number).await,
        }
    }

    fn current(&self, name: &str, labels: &StringMap) -> CurrentRevision {
        CurrentRevision { name: name.into(), hash: labels.get(self.hash_label).unwrap_or_default().into() }
    }

    async fn renumber(
        &self,
        owner: &RevisionOwner<'_>,
        revision: &Revision<'_>,
        number: i64,
    ) -> Result<(), Error> {
        let (uid, version) = (revision.uid, revision.resource_version);
        let expected = Expected::Changed { uid: uid.into(), resource_version: version.into() };
        self.writes.expect(&owner.metadata.uid, revision.name, expected);
        let patch = json!({"metadata": {"uid": uid, "resourceVersion": version}, "revision": number});
        let namespace = &owner.metadata.namespace;
        let patched = self.client.patch(&Kind::CONTROLLER_REVISION, namespace, revision.name, patch).await;
        patched.map(drop).inspect_err(|error| self.writes.failed(&owner.metadata.uid, revision.name, error))
    }

    async fn create(&self, owner: &RevisionOwner<'_>, number: i64) -> Result<Option<CurrentRevision>, Error> {
        let (kind, namespace) = (&Kind::CONTROLLER_REVISION, &owner.metadata.namespace);
        let data = history::data(owner.template, &self.owner_kind);
        let hash = history::hash(&data, owner.collisions);
        let name = history::revision_name(&owner.metadata.name, &hash);
        self.writes.expect(&owner.metadata.uid, &name, Expected::Created);
        let object = self.object(owner, &name, &hash, number, data);
        match self.client.create(kind, namespace, object).await {
            Ok(_) => Ok(Some(CurrentRevision { name: name.into(), hash: hash.into() })),
            Err(error) => {
                self.writes.failed(&owner.metadata.uid, &name, &error);
                if error.exists() { self.existing(owner, &name, error).await } else { Err(error) }
            }
        }
    }

    /// Returns the existing revision with the name of the new one, if it has the same template and no other owner: the
    /// cache may lag. A revision of another owner, such as an earlier one of the same name, may be deleted at any time.
    async fn existing(
        &self,
        owner: &RevisionOwner<'_>,
        name: &str,
        conflict: Error,
    ) -> Result<Option<CurrentRevision>, Error> {
        let namespace = &owner.metadata.namespace;
        let found: Option<ControllerRevision> =
            self.client.find_as(&Kind::CONTROLLER_REVISION, namespace, name).await?;
        let Some(live) = found else { return Err(conflict) };
        let is_own = live.metadata.controller().is_none_or(|other| other.uid == owner.metadata.uid);
        let is_same = is_own && live.data.digest() == Some(TemplateDigest::of(owner.template));
        Ok(is_same.then(|| self.current(name, &live.metadata.labels)))
    }

    /// Gets a revision with its template.
    ///
    /// # Errors
    /// If the revision does not exist, or cannot be read. The caller retries.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<ControllerRevision, Error> {
        let found = self.client.get(&Kind::CONTROLLER_REVISION, namespace, name).await?;
        serde::Deserialize::deserialize(&found).map_err(|source| unreadable(&self.client, source))
    }

    fn object(&self, owner: &RevisionOwner<'_>, name: &str, hash: &str, number: i64, data: Value) -> Value {
        let kind = &Kind::CONTROLLER_REVISION;
        let labels = owner.template.pointer("/metadata/labels").and_then(Value::as_object).cloned();
        let mut labels: Map<String, Value> = labels.unwrap_or_default();
        labels.insert(self.hash_label.to_owned(), hash.into());
        let metadata = owner.metadata;
        json!({
            "apiVersion": kind.api_version(),
            "kind": kind.kind,
            "metadata": {
                "name": name,
                "labels": labels,
                "annotations": metadata.annotations,
                "ownerReferences": [controller_reference(&self.owner_kind, &metadata.name, &metadata.uid)],
            },
            "revision": number,
            "data": data,
        })
    }

    /// Deletes the oldest revisions above `spec.revisionHistoryLimit`, without those whose names are in `live`.
    ///
    /// # Errors
    /// If a request fails. The caller retries.
    pub async fn truncate(
        &self,
        namespace: &str,
        revisions: &[Revision<'_>],
        live: &HashSet<&str>,
        limit: Option<i64>,
    ) -> Result<(), Error> {
        for old in history::surplus(revisions, live, limit) {
            let how = DeleteOptions { uid: Some(old.uid), ..DeleteOptions::default() };
            self.client.delete(&Kind::CONTROLLER_REVISION, namespace, old.name, &how).await?;
        }
        Ok(())
    }
}
