//! The owner graph: applies changes and returns the objects that must be reconciled. Pure.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use client::Kind;

use super::super::informers::Change;
use super::super::object::Object;
use crate::objects::OwnerReference;

/// The finalizer of an owner in foreground deletion. The owner waits until its blocking dependents are deleted.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner in orphan deletion. The owner waits until no dependent refers to it.
pub const ORPHAN: &str = "orphan";

/// A node of the graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// The kind of the object.
    pub kind: Arc<Kind>,
    /// The cached object.
    pub object: Arc<Object>,
}

/// All objects by UID, and the dependents of each owner UID. The owner may not have been observed.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, BTreeSet<String>>,
}

/// The state of an owner reference according to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CachedOwner {
    /// The owner exists and is not in foreground deletion.
    Solid,
    /// The owner waits for its dependents to be deleted.
    Waiting,
    /// The UID belongs to an object with another name, kind or namespace.
    Mismatch,
    /// The owner is not in the cache.
    Unknown,
}

/// Whether an owner waits in foreground deletion for its dependents.
pub fn is_waiting(object: &Object) -> bool {
    object.is_terminating && object.has_finalizer(FOREGROUND)
}

impl Graph {
    /// Applies a change and returns the UIDs to reconcile.
    pub fn apply(&mut self, change: &Change) -> BTreeSet<String> {
        let mut affected = BTreeSet::new();
        let before = change.before.as_deref();
        let now = change.now.as_deref();
        let (old, new) = (owners(before), owners(now));
        let uid = change.object().map(|object| object.uid.clone()).unwrap_or_default();
        if uid.is_empty() {
            return affected;
        }
        for owner in old.iter().filter(|owner| !holds(new, &owner.uid)) {
            if let Some(of) = self.dependents.get_mut(&*owner.uid) {
                of.remove(&uid);
                if of.is_empty() {
                    self.dependents.remove(&*owner.uid);
                }
            }
        }
        for owner in new {
            self.dependents.entry(owner.uid.to_string()).or_default().insert(uid.clone());
        }
        // A waiting owner may have waited for this object.
        let waiting = old.iter().filter(|owner| self.is_waiting(&owner.uid));
        affected.extend(waiting.map(|owner| owner.uid.to_string()));
        let Some(object) = &change.now else {
            self.nodes.remove(&uid);
            affected.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
            return affected;
        };
        let node = Node { kind: change.kind.clone(), object: object.clone() };
        let is_doubtful = new.iter().any(|owner| self.cached_owner(&node, owner) != CachedOwner::Solid);
        if is_doubtful
            || (object.is_terminating && (object.has_finalizer(FOREGROUND) || object.has_finalizer(ORPHAN)))
        {
            affected.insert(uid.clone());
        }
        if is_waiting(object) && before.is_none_or(|before| !is_waiting(before)) {
            affected.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        self.nodes.insert(uid, node);
        affected
    }

    pub fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// The dependents of an owner.
    pub fn dependents(&self, uid: &str) -> Vec<Node> {
        let all = self.dependents.get(uid).into_iter().flatten();
        all.filter_map(|uid| self.nodes.get(uid)).cloned().collect()
    }

    /// Returns the state of an owner reference according to the cache. An owner must be in the object's namespace,
    /// or cluster-scoped.
    pub fn cached_owner(&self, of: &Node, owner: &OwnerReference) -> CachedOwner {
        let Some(found) = self.nodes.get(&*owner.uid) else { return CachedOwner::Unknown };
        let is_named_so = found.kind.kind == *owner.kind
            && found.kind.group == owner.group()
            && found.object.name == *owner.name
            && (!found.kind.namespaced || found.object.namespace == of.object.namespace);
        match is_named_so {
            false => CachedOwner::Mismatch,
            true if is_waiting(&found.object) => CachedOwner::Waiting,
            true => CachedOwner::Solid,
        }
    }

    fn is_waiting(&self, uid: &str) -> bool {
        self.nodes.get(uid).is_some_and(|node| is_waiting(&node.object))
    }
}

fn owners(object: Option<&Object>) -> &[OwnerReference] {
    object.map_or(&[], |object| &object.owners)
}

fn holds(owners: &[OwnerReference], uid: &str) -> bool {
    owners.iter().any(|owner| *owner.uid == *uid)
}
