//! The owners that a change of an object concerns.

use std::collections::HashSet;

use client::Kind;

use super::own_writes::OwnWrites;
use crate::controllers::informers::{Change, SharedInformers};
use crate::controllers::object::Object;
use crate::controllers::work_queue::WorkQueue;
use crate::objects::{LabelSelector, OwnerReference};

/// Whether an owner reference names an object of a kind.
pub fn is_of_kind(owner: &OwnerReference, kind: &Kind) -> bool {
    *owner.kind == *kind.kind && owner.group() == kind.group
}

/// Enqueues the owners of a kind that manage the object before or after the change. Records that the object was shown.
pub fn enqueue_owners(change: &Change, kind: &Kind, writes: &OwnWrites, queue: &WorkQueue) {
    let objects = change.before.iter().chain(&change.now);
    let owners = objects.filter_map(|object| Some((object, object.controller()?)));
    let owners: HashSet<(&str, &str, &str, &str)> = owners
        .filter(|(_, owner)| is_of_kind(owner, kind))
        .map(|(object, owner)| (&*object.namespace, &*object.name, &*owner.name, &*owner.uid))
        .collect();
    for (namespace, name, owner, uid) in owners {
        writes.observe(uid, name);
        queue.add(&format!("{namespace}/{owner}"));
    }
}

/// Enqueues the owners of a kind that may adopt the object: it has no owner, and their selectors match.
pub fn enqueue_adopters(
    change: &Change,
    kind: &Kind,
    informers: &SharedInformers,
    queue: &WorkQueue,
    selector: fn(&Object) -> Option<&LabelSelector>,
) {
    let is_orphan = |object: &Object| object.controller().is_none() && !object.is_terminating;
    let Some(orphan) = change.now.as_ref().filter(|now| is_orphan(now)) else { return };
    for owner in informers.list(kind, &orphan.namespace) {
        if selector(&owner).is_some_and(|selector| selector.matches(&orphan.labels)) {
            queue.add(&owner.key());
        }
    }
}

/// Whether a change of a pod concerns no workload: a heartbeat, or a field that no controller reads.
pub fn is_irrelevant(change: &Change) -> bool {
    let (Some(before), Some(now)) = (&change.before, &change.now) else { return false };
    before.is_terminating == now.is_terminating
        && before.fields == now.fields
        && before.labels == now.labels
        && before.owners == now.owners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_recognized_by_kind_and_group() {
        let is_set = |api_version: &str, kind: &str| {
            let (api_version, kind) = (api_version.into(), kind.into());
            let owner = OwnerReference { api_version, kind, ..OwnerReference::default() };
            is_of_kind(&owner, &Kind::STATEFUL_SET)
        };
        assert!(is_set("apps/v1", "StatefulSet"));
        assert!(!is_set("example.com/v1", "StatefulSet") && !is_set("apps/v1", "ReplicaSet"));
    }
}
