//! The garbage collector: deletes objects whose owners are gone, and completes foreground and orphan deletion.
//!
//! The owner graph selects the objects to check. Only the API server decides that an owner is gone.

mod graph;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Json, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::graph::{CachedOwner, FOREGROUND, Graph, Node, ORPHAN, is_waiting};
use self::plan::{Dependents, OwnerState, Step};
use super::informers::{Change, SharedInformers};
use super::object::{Object, Owner, at, text};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};

/// The controller's name in `--controllers`.
pub const NAME: &str = "garbage-collector-controller";
/// Concurrent reconciliations: enough for the store to write several deletions in one commit.
const WORKERS: usize = 8;
/// The namespace of events about cluster-scoped objects.
const DEFAULT_EVENT_NAMESPACE: &str = "default";

#[derive(Debug)]
pub struct GarbageCollector {
    client: Client,
    informers: SharedInformers,
    graph: Mutex<Graph>,
}

/// What an object in the graph needs.
enum Work {
    Nothing,
    /// Remove the owner reference from its dependents.
    Orphan(Node, Vec<Node>),
    /// The object waits for these blocking dependents.
    Wait(Node, Vec<Node>),
    /// Some owner is not known to exist.
    Candidate(Node),
}

impl GarbageCollector {
    /// Collects objects of these informers.
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
                dependent.object.owners.iter().any(|owner| owner.uid == uid && owner.blocks_deletion)
            };
            let blocking = graph.dependents(uid).into_iter().filter(blocks).collect();
            return Work::Wait(node.clone(), blocking);
        }
        let is_solid = |owner: &Owner| graph.cached_owner(node, owner) == CachedOwner::Solid;
        if object.is_terminating || object.owners.iter().all(is_solid) {
            return Work::Nothing;
        }
        Work::Candidate(node.clone())
    }

    /// The live object; `None` if it is gone or another object has its name.
    async fn live(&self, node: &Node) -> Result<Option<Object>, Error> {
        let object = &node.object;
        let found = self.client.find(&node.kind, &object.namespace, &object.name).await?;
        let found = found.map(|found| Object::of(&node.kind.qualified(), &found));
        Ok(found.filter(|found| found.uid == object.uid))
    }

    /// The state of an owner: from the graph, otherwise from the API server.
    async fn owner_state(&self, node: &Node, owner: &Owner) -> Result<OwnerState, Error> {
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
        let found = self.client.find(&kind, &node.object.namespace, &owner.name).await?;
        let found = found.map(|found| Object::of(&kind.qualified(), &found));
        Ok(match found.filter(|found| found.uid == owner.uid) {
            None => OwnerState::Dangling,
            Some(found) if is_waiting(&found) => OwnerState::Waiting,
            Some(_) => OwnerState::Solid,
        })
    }

    /// Records an event about an invalid owner reference. A failure is ignored.
    async fn record_invalid_owner(&self, node: &Node, owner: &Owner) {
        let object = &node.object;
        let namespace =
            if object.namespace.is_empty() { DEFAULT_EVENT_NAMESPACE } else { object.namespace.as_str() };
        let event = invalid_owner_event(node, owner, namespace, Timestamp::now());
        match self.client.create(&Kind::EVENT, namespace, event).await {
            Ok(_) => {
                let (object, owner) = (object.name.as_str(), owner.name.as_str());
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
                self.change(node, |found| with_owners(found, |owner| !owners.contains(&owner))).await
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

    /// Removes the owner references of dependents, then the orphan finalizer.
    async fn orphan(&self, node: &Node, dependents: &[Node]) -> Result<Action, Error> {
        let uid = &node.object.uid;
        for dependent in dependents {
            self.change(dependent, |found| with_owners(found, |owner| owner != *uid)).await?;
        }
        self.change(node, |found| without_finalizer(found, ORPHAN)).await
    }

    /// Patches the metadata of the live object; does nothing if it is gone.
    async fn change(
        &self,
        node: &Node,
        decide: impl Fn(&Json) -> Option<Value> + Send + Sync,
    ) -> Result<Action, Error> {
        let object = &node.object;
        let Some(found) = self.client.find(&node.kind, &object.namespace, &object.name).await? else {
            return Ok(Action::AwaitChange);
        };
        let Some(mut metadata) = decide(&found).filter(|_| text(at(&found, "/metadata/uid")) == object.uid)
        else {
            return Ok(Action::AwaitChange);
        };
        metadata["uid"] = object.uid.as_str().into();
        metadata["resourceVersion"] = text(at(&found, "/metadata/resourceVersion")).into();
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

/// Metadata without a finalizer; `None` if it has none of that name.
fn without_finalizer(found: &Json, finalizer: &str) -> Option<Value> {
    let all = at(found, "/metadata/finalizers").and_then(Value::as_array)?;
    let left: Vec<&Value> = all.iter().filter(|own| *own != finalizer).collect();
    (left.len() < all.len()).then(|| json!({"finalizers": left}))
}

/// Metadata with only the wanted owner references; `None` if nothing changes.
fn with_owners(found: &Json, wanted: impl Fn(String) -> bool) -> Option<Value> {
    let all = at(found, "/metadata/ownerReferences").and_then(Value::as_array)?;
    let left: Vec<&Value> = all.iter().filter(|owner| wanted(text(owner.get("uid")))).collect();
    (left.len() < all.len()).then(|| json!({"ownerReferences": left}))
}

/// Metadata whose owner references do not block deletion; `None` if nothing changes.
fn without_blocking(found: &Json) -> Option<Value> {
    let all = at(found, "/metadata/ownerReferences").and_then(Value::as_array)?;
    let mut owners = all.clone();
    for owner in owners.iter_mut().filter(|owner| owner["blockOwnerDeletion"] == true) {
        owner["blockOwnerDeletion"] = false.into();
    }
    (owners != *all).then(|| json!({"ownerReferences": owners}))
}

/// A stock event about an invalid owner reference. Its deterministic name prevents duplicates.
fn invalid_owner_event(node: &Node, owner: &Owner, namespace: &str, now: Timestamp) -> Value {
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
