//! Who owns whom: a value that changes are applied to, and that says whom to look at. Pure.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::super::client::Kind;
use super::super::object::{Object, Owner};
use super::super::world::Change;

/// The finalizer of an owner that waits until its dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner that waits until its dependents no longer name it.
pub const ORPHAN: &str = "orphan";

/// An object in the graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its kind.
    pub kind: Arc<Kind>,
    /// The object.
    pub object: Arc<Object>,
}

/// All objects by identity, and who names whom as an owner, seen or not.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: HashMap<String, Node>,
    dependents: HashMap<String, BTreeSet<String>>,
}

/// What the graph knows of an owner that an object names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is there.
    Solid,
    /// It waits for its dependents to go.
    Waiting,
    /// An object of that identity is there, with other names: in another namespace, for instance.
    Elsewhere,
    /// It has not been seen.
    Unseen,
}

/// True for an owner that waits for its dependents to go.
pub fn is_waiting(object: &Object) -> bool {
    object.is_ending && object.awaits(FOREGROUND)
}

impl Graph {
    /// Takes a change in; the identities of those who are to be looked at.
    pub fn apply(&mut self, change: &Change) -> BTreeSet<String> {
        let mut look = BTreeSet::new();
        let before = change.before.as_deref();
        let now = change.now.as_deref();
        let owners = |object: Option<&Object>| object.map_or(&[][..], |object| &object.owners).to_vec();
        let (old, new) = (owners(before), owners(now));
        let uid = change.object().map(|object| object.uid.clone()).unwrap_or_default();
        if uid.is_empty() {
            return look;
        }
        for owner in old.iter().filter(|owner| !holds(&new, &owner.uid)) {
            if let Some(of) = self.dependents.get_mut(&owner.uid) {
                of.remove(&uid);
                if of.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
        for owner in &new {
            self.dependents.entry(owner.uid.clone()).or_default().insert(uid.clone());
        }
        // An owner that waits may have waited for this.
        look.extend(old.iter().map(|owner| &owner.uid).filter(|owner| self.is_waiting(owner)).cloned());
        let Some(object) = &change.now else {
            self.nodes.remove(&uid);
            look.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
            return look;
        };
        let node = Node { kind: change.kind.clone(), object: object.clone() };
        let is_doubtful = new.iter().any(|owner| self.known(&node, owner) != Known::Solid);
        if is_doubtful || (object.is_ending && (object.awaits(FOREGROUND) || object.awaits(ORPHAN))) {
            look.insert(uid.clone());
        }
        if is_waiting(object) && before.is_none_or(|before| !is_waiting(before)) {
            look.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        self.nodes.insert(uid, node);
        look
    }

    /// One object.
    pub fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Who names that one as an owner.
    pub fn dependents(&self, uid: &str) -> Vec<Node> {
        let all = self.dependents.get(uid).into_iter().flatten();
        all.filter_map(|uid| self.nodes.get(uid)).cloned().collect()
    }

    /// What is known of an owner that an object names. It counts only in the object's own namespace, or in none.
    pub fn known(&self, of: &Node, owner: &Owner) -> Known {
        let Some(found) = self.nodes.get(&owner.uid) else { return Known::Unseen };
        let is_named_so = found.kind.kind == owner.kind
            && found.kind.group == owner.group()
            && found.object.name == owner.name
            && (!found.kind.namespaced || found.object.namespace == of.object.namespace);
        match is_named_so {
            false => Known::Elsewhere,
            true if is_waiting(&found.object) => Known::Waiting,
            true => Known::Solid,
        }
    }

    fn is_waiting(&self, uid: &str) -> bool {
        self.nodes.get(uid).is_some_and(|node| is_waiting(&node.object))
    }
}

fn holds(owners: &[Owner], uid: &str) -> bool {
    owners.iter().any(|owner| owner.uid == uid)
}
