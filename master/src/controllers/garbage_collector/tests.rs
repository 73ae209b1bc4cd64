//! The dependency graph, and the actions that follow from it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use client::Propagation::{Background, Foreground, Orphan};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn owner(uid: &str, block_owner_deletion: bool) -> OwnerReference {
    OwnerReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: uid.into(),
        uid: uid.into(),
        block_owner_deletion,
        controller: false,
    }
}

fn pod(uid: &str, owners: &[&str]) -> Object {
    Object {
        namespace: "n".into(),
        name: uid.into(),
        uid: uid.into(),
        owners: owners.iter().map(|uid| owner(uid, true)).collect(),
        ..Object::default()
    }
}

fn ending(object: Object, finalizer: &str) -> Object {
    Object { is_terminating: true, finalizers: vec![finalizer.into()].into(), ..object }
}

/// A graph and its objects.
#[derive(Default)]
struct Bed {
    graph: Graph,
    seen: std::collections::BTreeMap<String, Arc<Object>>,
}

impl Bed {
    fn put(&mut self, object: Object) -> Vec<String> {
        let now = Arc::new(object);
        let before = self.seen.insert(now.uid.clone(), now.clone());
        self.apply(before, Some(now))
    }

    fn remove(&mut self, uid: &str) -> Vec<String> {
        let before = self.seen.remove(uid);
        self.apply(before, None)
    }

    fn apply(&mut self, before: Option<Arc<Object>>, now: Option<Arc<Object>>) -> Vec<String> {
        let change = Change { kind: Arc::new(Kind::POD), before, now };
        self.graph.apply(&change).into_iter().collect()
    }
}

#[test]
fn an_object_whose_owner_is_unknown_or_gone_is_reconciled() {
    let mut bed = Bed::default();
    assert_eq!(bed.put(pod("child", &["owner"])), ["child"], "its owner has not been seen");
    assert_eq!(bed.put(pod("owner", &[])), [""; 0]);
    assert_eq!(bed.put(pod("child", &["owner"])), [""; 0], "its owner is there");
    assert_eq!(bed.remove("owner"), ["child"]);
    assert_eq!(bed.remove("child"), [""; 0]);
    assert_eq!(bed.remove("child"), [""; 0]);
}

#[test]
fn a_waiting_owner_and_its_dependents_reconcile_each_other() {
    let mut bed = Bed::default();
    bed.put(pod("owner", &[]));
    bed.put(pod("a", &["owner"]));
    bed.put(pod("b", &["owner"]));
    assert_eq!(bed.put(ending(pod("owner", &[]), FOREGROUND)), ["a", "b", "owner"]);
    assert_eq!(bed.put(pod("c", &["owner"])), ["c"], "one that comes late goes too");
    assert_eq!(bed.remove("a"), ["owner"]);
    assert_eq!(bed.put(pod("b", &[])), ["owner"], "it has let go");
    assert_eq!(bed.put(ending(pod("x", &[]), ORPHAN)), ["x"]);
}

#[test]
fn an_owner_reference_must_match_name_kind_and_namespace() {
    let mut bed = Bed::default();
    bed.put(pod("owner", &[]));
    let node = |namespace: &str, kind: Kind| Node {
        kind: Arc::new(kind),
        object: Arc::new(Object { namespace: namespace.into(), ..pod("child", &["owner"]) }),
    };
    let other = |change: fn(&mut OwnerReference)| {
        let mut owner = owner("owner", false);
        change(&mut owner);
        owner
    };
    for (of, owner, expected) in [
        (node("n", Kind::POD), other(|_| {}), CachedOwner::Solid),
        (node("m", Kind::POD), other(|_| {}), CachedOwner::Mismatch),
        (node("", Kind::NAMESPACE), other(|_| {}), CachedOwner::Mismatch),
        (node("n", Kind::POD), other(|owner| owner.name = "else".into()), CachedOwner::Mismatch),
        (node("n", Kind::POD), other(|owner| owner.kind = "Job".into()), CachedOwner::Mismatch),
        (node("n", Kind::POD), other(|owner| owner.api_version = "apps/v1".into()), CachedOwner::Mismatch),
        (node("n", Kind::POD), other(|owner| owner.uid = "2".into()), CachedOwner::Unknown),
    ] {
        assert_eq!(bed.graph.cached_owner(&of, &owner), expected, "{of:?} {owner:?}");
    }
}

#[test]
fn the_states_of_owners_and_dependents_decide_the_step() {
    use OwnerState::{Dangling, Solid, Waiting};
    let delete = |propagation| Step::Delete { propagation, unblock: false };
    let release_owners =
        |owners: &[&str]| Step::Release { owners: owners.iter().map(|owner| (*owner).into()).collect() };
    let finalizer = |name: &str| Object { finalizers: vec![name.into()].into(), ..Object::default() };
    for (object, states, dependents, expected) in [
        (Object::default(), &[][..], Dependents::None, Step::Keep),
        (Object::default(), &[Solid][..], Dependents::None, Step::Keep),
        (Object::default(), &[Solid, Dangling][..], Dependents::None, release_owners(&["1"])),
        (Object::default(), &[Waiting, Solid, Dangling][..], Dependents::Some, release_owners(&["0", "2"])),
        (Object::default(), &[Dangling][..], Dependents::Some, delete(Background)),
        (Object::default(), &[Dangling, Dangling][..], Dependents::None, delete(Background)),
        (finalizer(ORPHAN), &[Dangling][..], Dependents::Some, delete(Orphan)),
        (finalizer(FOREGROUND), &[Dangling][..], Dependents::Some, delete(Foreground)),
        (Object::default(), &[Waiting][..], Dependents::None, delete(Background)),
        (Object::default(), &[Waiting, Dangling][..], Dependents::Some, delete(Foreground)),
        (
            Object::default(),
            &[Waiting][..],
            Dependents::Waiting,
            Step::Delete { propagation: Foreground, unblock: true },
        ),
    ] {
        let owners: Vec<(OwnerReference, OwnerState)> =
            states.iter().enumerate().map(|(at, state)| (owner(&at.to_string(), true), *state)).collect();
        assert_eq!(plan::step(&object, &owners, dependents), expected, "{states:?} {dependents:?}");
    }
}

#[test]
fn metadata_is_patched_only_if_it_changes() {
    let found = &serde_json::from_value(json!({
        "finalizers": ["orphan", "mine"],
        "ownerReferences": [{"uid": "1", "blockOwnerDeletion": true}, {"uid": "2"}],
    }))
    .unwrap();
    assert_eq!(without_finalizer(found, ORPHAN), Some(json!({"finalizers": ["mine"]})));
    assert_eq!(without_finalizer(found, FOREGROUND), None);
    assert_eq!(with_owners(found, |uid| uid != "1"), Some(json!({"ownerReferences": [{"uid": "2"}]})));
    assert_eq!(with_owners(found, |uid| uid != "9"), None);
    let all = json!([{"uid": "1", "blockOwnerDeletion": false}, {"uid": "2"}]);
    assert_eq!(without_blocking(found), Some(json!({"ownerReferences": all})));
}

proptest! {
    /// In whatever order changes arrive, the dependents of an owner are the objects that refer to it.
    #[test]
    fn dependents_are_the_objects_that_refer_to_the_owner(history in prop::collection::vec((0..5_u8, prop::collection::vec(0..5_u8, 0..3), any::<bool>()), 0..40)) {
        let mut bed = Bed::default();
        for (uid, owners, is_gone) in history {
            let owners: Vec<String> = owners.iter().map(u8::to_string).collect();
            let owners: Vec<&str> = owners.iter().map(String::as_str).collect();
            if is_gone { bed.remove(&uid.to_string()); } else { bed.put(pod(&uid.to_string(), &owners)); }
            for owner in 0..5_u8 {
                let owner = owner.to_string();
                let names = |object: &&Arc<Object>| object.owners.iter().any(|own| *own.uid == *owner);
                let mut expected: Vec<String> = bed.seen.values().filter(names).map(|o| o.uid.clone()).collect();
                let mut found: Vec<String> = bed.graph.dependents(&owner).iter().map(|node| node.object.uid.clone()).collect();
                expected.sort();
                found.sort();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
