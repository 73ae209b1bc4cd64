//! Pod cache entries replace each other in the order of their inspections; and the PLEG handles an engine that hangs, fails and
//! loses containers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod engine;

use std::collections::BTreeSet;

use super::cache::PodCache;
use crate::observed::{PodUid, Sandbox, State, Timestamp};
use crate::runtime::{Identity, Inspected, Listed};

fn whose(uid: &str) -> Identity {
    Identity {
        uid: PodUid::new(uid),
        pod: "p".to_owned(),
        namespace: "default".to_owned(),
        container: "POD".to_owned(),
        attempt: 0,
        hash: "h".to_owned(),
    }
}

fn sandbox(id: &str, state: State) -> Inspected {
    let sandbox = Sandbox {
        id: id.to_owned(),
        attempt: 0,
        hash: "h".to_owned(),
        state,
        ips: vec![],
        is_bare: false,
        created_at: Timestamp::UNIX_EPOCH,
    };
    Inspected::Sandbox(whose("u"), sandbox)
}

fn running() -> State {
    State::Running { started_at: Timestamp::UNIX_EPOCH, pid: 1 }
}

fn listed(id: &str, running: bool, state: &str) -> Listed {
    Listed { id: id.to_owned(), identity: whose("u"), running, state: state.to_owned() }
}

#[test]
fn older_inspection_does_not_replace_a_newer_one() {
    let mut cache = PodCache::default();
    assert!(cache.put(5, sandbox("a", running())), "the pod is new");
    assert!(!cache.put(3, sandbox("a", State::Created)));
    assert!(cache.pod(&PodUid::new("u")).sandbox().unwrap().state.is_running());
    cache.put(6, sandbox("a", State::Created));
    assert_eq!(cache.pod(&PodUid::new("u")).sandbox().unwrap().state, State::Created);
}

#[test]
fn relist_removes_only_containers_observed_before_it() {
    let mut cache = PodCache::default();
    cache.put(5, sandbox("old", running()));
    cache.put(9, sandbox("new", running()));
    assert!(!cache.remove_unlisted(7, &BTreeSet::new()), "the pod still has the new one");
    let pod = cache.pod(&PodUid::new("u"));
    assert_eq!(pod.sandboxes.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["new"]);
    assert!(cache.remove_unlisted(10, &BTreeSet::new()), "the last of the pod went");
    assert!(cache.known().is_empty());
}

#[test]
fn relist_inspects_only_changed_containers() {
    let mut cache = PodCache::default();
    cache.put(1, sandbox("a", running()));
    assert!(!cache.needs_inspection(&listed("a", true, "running")));
    assert!(cache.needs_inspection(&listed("a", false, "exited")));
    assert!(cache.needs_inspection(&listed("b", true, "running")));
}

#[test]
fn cache_keeps_a_pod_with_uninspected_containers() {
    let mut cache = PodCache::default();
    cache.expect(1, &whose("u"), "a");
    assert!(!cache.pod(&PodUid::new("u")).uninspected.is_empty());
    assert_eq!(cache.known().len(), 1, "a pod with something unseen is there");
    cache.put(2, sandbox("a", running()));
    assert!(cache.pod(&PodUid::new("u")).uninspected.is_empty());
}

#[test]
fn subscribers_are_notified_only_of_changes() {
    let mut cache = PodCache::default();
    let mut pod = cache.subscribe(&PodUid::new("u"));
    cache.put(1, sandbox("a", running()));
    assert!(pod.has_changed().unwrap());
    pod.mark_unchanged();
    cache.put(2, sandbox("a", running()));
    assert!(!pod.has_changed().unwrap());
}

#[test]
fn inspection_started_before_a_removal_does_not_restore_the_container() {
    let mut cache = PodCache::default();
    cache.put(1, sandbox("a", running()));
    cache.remove(3, &PodUid::new("u"), "a");
    assert!(!cache.put(2, sandbox("a", running())));
    cache.expect(2, &whose("u"), "a");
    assert!(cache.known().is_empty());
}

#[test]
fn container_listed_during_its_creation_is_not_lost() {
    let mut cache = PodCache::default();
    cache.expect(1, &whose("u"), "a");
    cache.remove(2, &PodUid::new("u"), "a"); // The engine knew nothing of it yet.
    cache.put(3, sandbox("a", State::Created));
    assert!(!cache.pod(&PodUid::new("u")).sandboxes.is_empty());
    cache.remove(2, &PodUid::new("u"), "a");
    assert!(!cache.pod(&PodUid::new("u")).sandboxes.is_empty(), "it has been seen since");
}

#[test]
fn cache_entry_of_a_removed_pod_is_dropped_with_its_last_subscriber() {
    let mut cache = PodCache::default();
    let follower = cache.subscribe(&PodUid::new("u"));
    cache.put(1, sandbox("a", running()));
    cache.remove(2, &PodUid::new("u"), "a");
    cache.remove_unlisted(3, &BTreeSet::new());
    assert!(cache.has_entry(&PodUid::new("u")));
    drop(follower);
    cache.remove_unlisted(4, &BTreeSet::new());
    assert!(!cache.has_entry(&PodUid::new("u")));
}

#[test]
fn older_observation_does_not_replace_a_newer_one() {
    let exit = crate::observed::Exit {
        code: 0,
        oom_killed: false,
        error: None,
        started_at: Some(Timestamp::UNIX_EPOCH),
        finished_at: Timestamp::UNIX_EPOCH,
    };
    let mut cache = PodCache::default();
    assert!(!cache.is_newer_than(&sandbox("a", State::Created)), "nothing is known");
    cache.put(1, sandbox("a", State::Exited(exit)));
    assert!(cache.is_newer_than(&sandbox("a", running())), "it started, and has ended since");
    assert!(cache.is_newer_than(&sandbox("a", State::Created)));
    let again = Timestamp::from_second(9).unwrap();
    assert!(
        !cache.is_newer_than(&sandbox("a", State::Running { started_at: again, pid: 2 })),
        "started once more"
    );
}

#[test]
fn failed_inspection_is_repeated_without_list_changes() {
    let mut cache = PodCache::default();
    cache.put(1, sandbox("a", running()));
    cache.mark_failed(&PodUid::new("u"), "a");
    assert!(cache.needs_inspection(&listed("a", true, "running")));
    cache.put(2, sandbox("a", running()));
    assert!(!cache.needs_inspection(&listed("a", true, "running")));
}
