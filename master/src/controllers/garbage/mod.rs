//! What nobody owns any more goes: objects follow their owners, before, after, or not at all.
//!
//! The graph tells whom to look at; that an owner is gone, only the server tells.

mod graph;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::graph::{FOREGROUND, Graph, Known, Node, ORPHAN, is_waiting};
use self::plan::{Dependents, State, Step};
use super::agenda::Next;
use super::client::{Client, Delete, Error, Json, Kind};
use super::object::{Object, Owner, at, text};
use super::queue::{Controller, Queue};
use super::world::{Change, World};

/// Its name in `--controllers`.
pub const NAME: &str = "garbage-collector-controller";
/// Objects that are looked at at once: enough for the store to write several in one commit.
const WORKERS: usize = 8;
/// Where events about objects in no namespace go.
const EVENTS_OF_CLUSTER: &str = "default";

/// The controller.
#[derive(Debug)]
pub struct Collector {
    client: Client,
    world: World,
    graph: Mutex<Graph>,
}

/// What is to be done first about an object in the graph.
enum First {
    Nothing,
    /// Its dependents forget it.
    Orphan(Node, Vec<Node>),
    /// It waits for these.
    Wait(Node, Vec<Node>),
    /// Not all of its owners are known to be there.
    Doubt(Node),
}

impl Collector {
    /// Collects in that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world, graph: Mutex::default() }
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self, uid: &str) -> First {
        let graph = self.graph();
        let Some(node) = graph.node(uid) else { return First::Nothing };
        let object = &node.object;
        if object.is_ending && object.awaits(ORPHAN) {
            return First::Orphan(node.clone(), graph.dependents(uid));
        }
        if is_waiting(object) {
            let blocks = |dependent: &Node| {
                dependent.object.owners.iter().any(|owner| owner.uid == uid && owner.blocks)
            };
            let blocking = graph.dependents(uid).into_iter().filter(blocks).collect();
            return First::Wait(node.clone(), blocking);
        }
        let is_solid = |owner: &Owner| graph.known(node, owner) == Known::Solid;
        if object.is_ending || object.owners.iter().all(is_solid) {
            return First::Nothing;
        }
        First::Doubt(node.clone())
    }

    /// The object as the server has it; `None` when it is gone, or another one has its name.
    async fn live(&self, node: &Node) -> Result<Option<Object>, Error> {
        let object = &node.object;
        let found = self.client.find(&node.kind, &object.namespace, &object.name).await?;
        let found = found.map(|found| Object::of(&node.kind.qualified(), &found));
        Ok(found.filter(|found| found.uid == object.uid))
    }

    /// What became of an owner: what the graph has seen, else what the server says.
    async fn state(&self, node: &Node, owner: &Owner) -> Result<State, Error> {
        let known = self.graph().known(node, owner);
        match known {
            Known::Solid => return Ok(State::Solid),
            Known::Waiting => return Ok(State::Waiting),
            Known::Elsewhere => self.refuse(node, owner).await,
            Known::Unseen => {}
        }
        let kind = self.world.kind(&owner.api_version, &owner.kind)?;
        if kind.namespaced && !node.kind.namespaced {
            self.refuse(node, owner).await;
            // Nothing that lies in no namespace can be owned by what lies in one: it says nothing, so it takes nothing.
            return Ok(State::Solid);
        }
        let found = self.client.find(&kind, &node.object.namespace, &owner.name).await?;
        let found = found.map(|found| Object::of(&kind.qualified(), &found));
        Ok(match found.filter(|found| found.uid == owner.uid) {
            None => State::Absent,
            Some(found) if is_waiting(&found) => State::Waiting,
            Some(_) => State::Solid,
        })
    }

    /// Tells people of an owner that cannot be one. That nobody can be told keeps nobody from going on.
    async fn refuse(&self, node: &Node, owner: &Owner) {
        let object = &node.object;
        let namespace =
            if object.namespace.is_empty() { EVENTS_OF_CLUSTER } else { object.namespace.as_str() };
        let event = invalid_owner(node, owner, namespace, Timestamp::now());
        match self.client.create(&Kind::EVENT, namespace, event).await {
            Ok(_) => {
                let (object, owner) = (object.name.as_str(), owner.name.as_str());
                tracing::warn!(
                    namespace,
                    object,
                    owner,
                    "an owner is in another namespace; it counts as absent"
                );
            }
            Err(error) if error.exists() => {}
            Err(error) => tracing::debug!(%error, "cannot tell of an owner that cannot be one"),
        }
    }

    /// Decides about an object whose owners are in doubt, and does it.
    async fn settle(&self, node: &Node) -> Result<Next, Error> {
        let Some(object) = self.live(node).await? else { return Ok(Next::Change) };
        if object.is_ending {
            return Ok(Next::Change);
        }
        let mut owners = Vec::new();
        for owner in &object.owners {
            owners.push((owner.clone(), self.state(node, owner).await?));
        }
        let dependents = self.graph().dependents(&object.uid);
        let dependents = match dependents.iter().any(|dependent| is_waiting(&dependent.object)) {
            true => Dependents::Waiting,
            false if dependents.is_empty() => Dependents::None,
            false => Dependents::Some,
        };
        match plan::step(&object, &owners, dependents) {
            Step::Keep => Ok(Next::Change),
            Step::Release { owners } => {
                self.change(node, |found| release(found, |owner| !owners.contains(&owner))).await
            }
            Step::Delete { propagation, unblock } => {
                if unblock {
                    self.change(node, unblocked).await?;
                }
                let how = Delete {
                    uid: Some(&object.uid),
                    // An owner that came meanwhile counts, unless we wrote last.
                    revision: Some(object.revision.as_str()).filter(|_| !unblock),
                    propagation: Some(propagation),
                    grace_seconds: None,
                };
                self.client.delete(&node.kind, &object.namespace, &object.name, &how).await?;
                Ok(Next::Change)
            }
        }
    }

    /// Dependents forget an owner that goes alone; then it goes.
    async fn orphan(&self, node: &Node, dependents: &[Node]) -> Result<Next, Error> {
        let uid = &node.object.uid;
        for dependent in dependents {
            self.change(dependent, |found| release(found, |owner| owner != *uid)).await?;
        }
        self.change(node, |found| unfinalized(found, ORPHAN)).await
    }

    /// Changes the metadata of an object as the server has it; nothing to do when it is gone.
    async fn change(
        &self,
        node: &Node,
        decide: impl Fn(&Json) -> Option<Value> + Send + Sync,
    ) -> Result<Next, Error> {
        let object = &node.object;
        let Some(found) = self.client.find(&node.kind, &object.namespace, &object.name).await? else {
            return Ok(Next::Change);
        };
        let Some(mut metadata) = decide(&found).filter(|_| text(at(&found, "/metadata/uid")) == object.uid)
        else {
            return Ok(Next::Change);
        };
        metadata["uid"] = object.uid.as_str().into();
        metadata["resourceVersion"] = text(at(&found, "/metadata/resourceVersion")).into();
        let patch = json!({"metadata": metadata});
        match self.client.patch(&node.kind, &object.namespace, &object.name, patch).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(Next::Change),
        }
    }
}

#[async_trait]
impl Controller for Collector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        // Nobody owns events, and there are many.
        if change.kind.is(&Kind::EVENT) {
            return;
        }
        for uid in self.graph().apply(change) {
            queue.add(&uid);
        }
    }

    async fn look(&self, uid: &str, queue: &Queue) -> Result<Next, Error> {
        match self.first(uid) {
            First::Nothing => Ok(Next::Change),
            First::Orphan(node, dependents) => self.orphan(&node, &dependents).await,
            First::Wait(node, blocking) if blocking.is_empty() => {
                self.change(&node, |found| unfinalized(found, FOREGROUND)).await
            }
            First::Wait(_, blocking) => {
                for dependent in blocking.iter().filter(|dependent| !dependent.object.is_ending) {
                    queue.add(&dependent.object.uid);
                }
                Ok(Next::Change)
            }
            First::Doubt(node) => self.settle(&node).await,
        }
    }
}

/// The metadata without that finalizer; `None` when it has none of that name.
fn unfinalized(found: &Json, finalizer: &str) -> Option<Value> {
    let all = at(found, "/metadata/finalizers").and_then(Value::as_array)?;
    let left: Vec<&Value> = all.iter().filter(|own| *own != finalizer).collect();
    (left.len() < all.len()).then(|| json!({"finalizers": left}))
}

/// The metadata with those owners alone whose identity is wanted; `None` when that changes nothing.
fn release(found: &Json, wanted: impl Fn(String) -> bool) -> Option<Value> {
    let all = at(found, "/metadata/ownerReferences").and_then(Value::as_array)?;
    let left: Vec<&Value> = all.iter().filter(|owner| wanted(text(owner.get("uid")))).collect();
    (left.len() < all.len()).then(|| json!({"ownerReferences": left}))
}

/// The metadata with owners that do not wait for the object; `None` when none does.
fn unblocked(found: &Json) -> Option<Value> {
    let all = at(found, "/metadata/ownerReferences").and_then(Value::as_array)?;
    let mut owners = all.clone();
    for owner in owners.iter_mut().filter(|owner| owner["blockOwnerDeletion"] == true) {
        owner["blockOwnerDeletion"] = false.into();
    }
    (owners != *all).then(|| json!({"ownerReferences": owners}))
}

/// An event about an owner that cannot be one, in the stock words; its name makes it one event however often it is told.
fn invalid_owner(node: &Node, owner: &Owner, namespace: &str, now: Timestamp) -> Value {
    let object = &node.object;
    let now = api::time::seconds(now);
    // FNV-1a: a name that is the same the next time.
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
