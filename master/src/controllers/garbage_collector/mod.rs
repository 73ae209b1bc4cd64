//! The garbage collector: deletes objects whose owners no longer exist, and completes foreground and orphan
//! deletion.
//!
//! The owner graph selects the objects to check. Only the API server decides that an owner no longer exists.

mod graph;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Json, Kind};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use self::graph::{CachedOwner, FOREGROUND, Graph, Node, ORPHAN, is_waiting};
use self::plan::{Dependents, OwnerState, Step};
use super::informers::{Change, SharedInformers};
use super::object::Object;
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use crate::objects::{List, OwnerReference};

/// The controller's name in `--controllers`.
pub const NAME: &str = "garbage-collector-controller";
/// Number of concurrent reconciliations, so that the store can write several deletions in one commit.
const WORKERS: usize = 8;
/// The namespace of events about cluster-scoped objects.
const DEFAULT_EVENT_NAMESPACE: &str = "default";

#[derive(Debug)]
pub struct GarbageCollector {
    client: Client,
    informers: SharedInformers,
    graph: Mutex<Graph>,
}

/// What the controller must do with an object of the graph.
enum Work {
    Nothing,
    /// Remove the owner reference from the object's dependents.
    Orphan(Node, Vec<Node>),
    /// The object waits for the given blocking dependents.
    Wait(Node, Vec<Node>),
    /// It is unknown whether an owner of the object exists.
    Candidate(Node),
}

impl GarbageCollector {
    /// Creates the controller. It collects objects of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers, graph: Mutex::default() }
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, uid: &str) -> Work {
        let graph = self.graph();
        let Some(node) = graph.node(uid) else { return Work::Nothing };
        let object = &node.object;
        if object.is_terminating && object.has_finalizer(ORPHAN) {
            return Work::Orphan(node.clone(), graph.dependents(uid));
        }
        if is_waiting(object) {
            let blocks = |dependent: &Node| {
                let mut owners = dependent.object.owners.iter();
                owners.any(|owner| *owner.uid == *uid && owner.block_owner_deletion)
            };
            let blocking = graph.dependents(uid).into_iter().filter(blocks).collect();
            return Work::Wait(node.clone(), blocking);
        }
        let is_solid = |owner: &OwnerReference| graph.cached_owner(node, owner) == CachedOwner::Solid;
        if object.is_terminating || object.owners.iter().all(is_solid) {
            return Work::Nothing;
        }
        Work::Candidate(node.clone())
    }

    /// Returns the live object, or `None` if it no longer exists or another object has its name.
    async fn live(&self, node: &Node) -> Result<Option<Object>, Error> {
        let object = &node.object;
        let found = Object::find(&self.client, &node.kind, &object.namespace, &object.name).await?;
        Ok(found.filter(|found| found.uid == object.uid))
    }

    /// Returns the state of an owner, from the graph if possible, otherwise from the API server.
    async fn owner_state(&self, node: &Node, owner: &OwnerReference) -> Result<OwnerState, Error> {
        let known = self.graph().cached_owner(node, owner);
        match known {
            CachedOwner::Solid => return Ok(OwnerState::Solid),
            CachedOwner::Waiting => return Ok(OwnerState::Waiting),
            CachedOwner::Mismatch => self.record_invalid_owner(node, owner).await,
            CachedOwner::Unknown => {}
        }
        let kind = self.informers.resolve_kind(&owner.api_version, &owner.kind)?;
        if kind.namespaced && !node.kind.namespaced {
            self.record_invalid_owner(node, owner).await;
            // A cluster-scoped object cannot have a namespaced owner. The reference is invalid, so it does not cause a
            // deletion.
            return Ok(OwnerState::Solid);
        }
        let found = Object::find(&self.client, &kind, &node.object.namespace, &owner.name).await?;
        Ok(match found.filter(|found| found.uid == *owner.uid) {
            None => OwnerState::Dangling,
            Some(found) if is_waiting(&found) => OwnerState::Waiting,
            Some(_) => OwnerState::Solid,
        })
    }

    /// Records an event about an invalid owner reference. A failure is ignored.
    async fn record_invalid_owner(&self, node: &Node, owner: &OwnerReference) {
        let object = &node.object;
        let namespace =
            if object.namespace.is_empty() { DEFAULT_EVENT_NAMESPACE } else { object.namespace.as_str() };
        let event = invalid_owner_event(node, owner, namespace, Timestamp::now());
        match self.client.create(&Kind::EVENT, namespace, event).await {
            Ok(_) => {
                let (object, owner) = (object.name.as_str(), &*owner.name);
                tracing::warn!(
                    namespace,
                    object,
                    owner,
                    "an owner reference names an object in another namespace; treating the owner as absent"
                );
            }
            Err(error) if error.exists() => {}
            Err(error) => tracing::debug!(%error, "cannot record an event about an invalid owner reference"),
        }
    }

    /// Checks all owners of a candidate against the API server, then keeps, updates or deletes the candidate.
    async fn process_candidate(&self, node: &Node) -> Result<Action, Error> {
        let Some(object) = self.live(node).await? else { return Ok(Action::AwaitChange) };
        if object.is_terminating {
            return Ok(Action::AwaitChange);
        }
        let mut owners = Vec::new();
        for owner in &object.owners {
            owners.push((owner.clone(), self.owner_state(node, owner).await?));
        }
        let dependents = self.graph().dependents(&object.uid);
        let dependents = match dependents.iter().any(|dependent| is_waiting(&dependent.object)) {
            true => Dependents::Waiting,
            false if dependents.is_empty() => Dependents::None,
            false => Dependents::Some,
        };
        match plan::step(&object, &owners, dependents) {
            Step::Keep => Ok(Action::AwaitChange),
            Step::Release { owners } => {
                let stays = |uid: &str| !owners.iter().any(|owner| **owner == *uid);
                self.change(node, |found| with_owners(found, stays)).await
            }
            Step::Delete { propagation, unblock } => {
                if unblock {
                    self.change(node, without_blocking).await?;
                }
                let how = DeleteOptions {
                    uid: Some(&object.uid),
                    // The precondition keeps an object that got an owner meanwhile. After `unblock`, this controller
                    // changed it itself.
                    resource_version: Some(object.resource_version.as_str()).filter(|_| !unblock),
                    propagation: Some(propagation),
                    grace_seconds: None,
                };
                self.client.delete(&node.kind, &object.namespace, &object.name, &how).await?;
                Ok(Action::AwaitChange)
            }
        }
    }

    /// Removes the owner references of dependents, and then the orphan finalizer.
    async fn orphan(&self, node: &Node, dependents: &[Node]) -> Result<Action, Error> {
        let uid = &node.object.uid;
        for dependent in dependents {
            self.change(dependent, |found| with_owners(found, |owner| owner != uid.as_str())).await?;
        }
        self.change(node, |found| without_finalizer(found, ORPHAN)).await
    }

    /// Patches the metadata of the live object. Does nothing if it no longer exists.
    async fn change(
        &self,
        node: &Node,
        decide: impl Fn(&Ownership) -> Option<Value> + Send + Sync,
    ) -> Result<Action, Error> {
        let object = &node.object;
        let found = self.client.find_as::<Owned>(&node.kind, &object.namespace, &object.name).await?;
        let Some(found) = found.map(|found| found.metadata).filter(|found| *found.uid == *object.uid) else {
            return Ok(Action::AwaitChange);
        };
        let Some(mut metadata) = decide(&found) else { return Ok(Action::AwaitChange) };
        metadata["uid"] = object.uid.as_str().into();
        metadata["resourceVersion"] = Value::from(&*found.resource_version);
        let patch = json!({"metadata": metadata});
        match self.client.patch(&node.kind, &object.namespace, &object.name, patch).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(Action::AwaitChange),
        }
    }
}

#[async_trait]
impl Controller for GarbageCollector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        // Events have no owners, and there are many.
        if change.kind.is(&Kind::EVENT) {
            return;
        }
        for uid in self.graph().apply(change) {
            queue.add(&uid);
        }
    }

    async fn reconcile(&self, uid: &str, queue: &WorkQueue) -> Result<Action, Error> {
        match self.work(uid) {
            Work::Nothing => Ok(Action::AwaitChange),
            Work::Orphan(node, dependents) => self.orphan(&node, &dependents).await,
            Work::Wait(node, blocking) if blocking.is_empty() => {
                self.change(&node, |found| without_finalizer(found, FOREGROUND)).await
            }
            Work::Wait(_, blocking) => {
                for dependent in blocking.iter().filter(|dependent| !dependent.object.is_terminating) {
                    queue.add(&dependent.object.uid);
                }
                Ok(Action::AwaitChange)
            }
            Work::Candidate(node) => self.process_candidate(&node).await,
        }
    }
}

/// The live object, whose metadata the collector changes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Owned {
    metadata: Ownership,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Ownership {
    uid: Box<str>,
    resource_version: Box<str>,
    finalizers: List<Box<str>>,
    /// Owner references with all their fields, because they are written back.
    owner_references: List<Json>,
}

/// Returns the metadata without a finalizer, or `None` if the object does not have the finalizer.
fn without_finalizer(found: &Ownership, finalizer: &str) -> Option<Value> {
    let all = found.finalizers.iter().map(|own| &**own);
    let left: Vec<&str> = all.filter(|own| *own != finalizer).collect();
    (left.len() < found.finalizers.len()).then(|| json!({"finalizers": left}))
}

/// Returns the metadata with only the owner references whose UID is wanted, or `None` if nothing changes.
fn with_owners(found: &Ownership, wanted: impl Fn(&str) -> bool) -> Option<Value> {
    let all = &found.owner_references;
    let uid = |owner: &Json| owner.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned();
    let left: Vec<&Json> = all.iter().filter(|owner| wanted(&uid(owner))).collect();
    (left.len() < all.len()).then(|| json!({"ownerReferences": left}))
}

/// Returns the metadata with owner references that do not block deletion, or `None` if nothing changes.
fn without_blocking(found: &Ownership) -> Option<Value> {
    let mut owners = found.owner_references.to_vec();
    let blocking = owners.iter_mut().filter_map(|owner| owner.get_mut("blockOwnerDeletion"));
    blocking.for_each(|blocks| *blocks = false.into());
    (owners != *found.owner_references).then(|| json!({"ownerReferences": owners}))
}

/// Returns a stock event about an invalid owner reference. Its deterministic name prevents duplicates.
fn invalid_owner_event(node: &Node, owner: &OwnerReference, namespace: &str, now: Timestamp) -> Value {
    let object = &node.object;
    let now = api::time::seconds(now);
    // FNV-1a: the same name each time.
    let hash = owner.uid.bytes().chain(object.uid.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let reference = format!(
        "[{}/{}, namespace: {}, name: {}, uid: {}]",
        owner.api_version, owner.kind, object.namespace, owner.name, owner.uid
    );
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{}.{hash:x}", object.name), "namespace": namespace},
        "involvedObject": {
            "apiVersion": node.kind.api_version(), "kind": node.kind.kind, "name": object.name,
            "namespace": object.namespace, "uid": object.uid,
        },
        "type": "Warning",
        "reason": "OwnerRefInvalidNamespace",
        "message": format!("ownerRef {reference} does not exist in namespace \"{}\"", object.namespace),
        "source": {"component": "garbage-collector-controller"},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    })
}
