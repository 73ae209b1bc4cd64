//! Records replace each other in the order of their looks, whatever order they arrive in; and an observer over an
//! engine in memory that hangs, goes away and loses things.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod engine;

use std::collections::BTreeSet;

use super::records::Records;
use crate::observed::{PodUid, Sandbox, State, Timestamp};
use crate::runtime::{Identity, Listed, Seen};

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

fn sandbox(id: &str, state: State) -> Seen {
    let sandbox = Sandbox {
        id: id.to_owned(),
        attempt: 0,
        hash: "h".to_owned(),
        state,
        ips: vec![],
        is_bare: false,
        created_at: Timestamp::UNIX_EPOCH,
    };
    Seen::Sandbox(whose("u"), sandbox)
}

fn running() -> State {
    State::Running { started_at: Timestamp::UNIX_EPOCH, pid: 1 }
}

fn listed(id: &str, running: bool, state: &str) -> Listed {
    Listed { id: id.to_owned(), identity: whose("u"), running, state: state.to_owned() }
}

#[test]
fn an_older_look_does_not_replace_a_newer_one() {
    let mut records = Records::default();
    assert!(records.put(5, sandbox("a", running())), "the pod is new");
    assert!(!records.put(3, sandbox("a", State::Created)));
    assert!(records.pod(&PodUid::new("u")).sandbox().unwrap().state.is_running());
    records.put(6, sandbox("a", State::Created));
    assert_eq!(records.pod(&PodUid::new("u")).sandbox().unwrap().state, State::Created);
}

#[test]
fn a_list_takes_out_only_what_was_seen_before_it() {
    let mut records = Records::default();
    records.put(5, sandbox("old", running()));
    records.put(9, sandbox("new", running()));
    assert!(!records.sweep(7, &BTreeSet::new()), "the pod still has the new one");
    let pod = records.pod(&PodUid::new("u"));
    assert_eq!(pod.sandboxes.iter().map(|s| s.id.as_str()).collect::<Vec<_>>(), ["new"]);
    assert!(records.sweep(10, &BTreeSet::new()), "the last of the pod went");
    assert!(records.known().is_empty());
}

#[test]
fn only_differences_are_looked_at() {
    let mut records = Records::default();
    records.put(1, sandbox("a", running()));
    assert!(!records.differs(&listed("a", true, "running")));
    assert!(records.differs(&listed("a", false, "exited")));
    assert!(records.differs(&listed("b", true, "running")));
}

#[test]
fn what_is_listed_and_not_yet_seen_holds_its_pod() {
    let mut records = Records::default();
    records.expect(1, &whose("u"), "a");
    assert!(!records.pod(&PodUid::new("u")).unseen.is_empty());
    assert_eq!(records.known().len(), 1, "a pod with something unseen is there");
    records.put(2, sandbox("a", running()));
    assert!(records.pod(&PodUid::new("u")).unseen.is_empty());
}

#[test]
fn followers_are_woken_by_changes_alone() {
    let mut records = Records::default();
    let mut pod = records.subscribe(&PodUid::new("u"));
    records.put(1, sandbox("a", running()));
    assert!(pod.has_changed().unwrap());
    pod.mark_unchanged();
    records.put(2, sandbox("a", running()));
    assert!(!pod.has_changed().unwrap());
}

#[test]
fn a_look_that_began_before_a_removal_brings_nothing_back() {
    let mut records = Records::default();
    records.put(1, sandbox("a", running()));
    records.remove(3, &PodUid::new("u"), "a");
    assert!(!records.put(2, sandbox("a", running())));
    records.expect(2, &whose("u"), "a");
    assert!(records.known().is_empty());
}

#[test]
fn what_was_listed_before_it_could_be_looked_at_is_there_once_it_is_made() {
    let mut records = Records::default();
    records.expect(1, &whose("u"), "a");
    records.remove(2, &PodUid::new("u"), "a"); // The engine knew nothing of it yet.
    records.put(3, sandbox("a", State::Created));
    assert!(!records.pod(&PodUid::new("u")).sandboxes.is_empty());
    records.remove(2, &PodUid::new("u"), "a");
    assert!(!records.pod(&PodUid::new("u")).sandboxes.is_empty(), "it has been seen since");
}

#[test]
fn the_entry_of_a_pod_that_is_gone_goes_with_its_last_follower() {
    let mut records = Records::default();
    let follower = records.subscribe(&PodUid::new("u"));
    records.put(1, sandbox("a", running()));
    records.remove(2, &PodUid::new("u"), "a");
    records.sweep(3, &BTreeSet::new());
    assert!(records.has_entry(&PodUid::new("u")));
    drop(follower);
    records.sweep(4, &BTreeSet::new());
    assert!(!records.has_entry(&PodUid::new("u")));
}

#[test]
fn what_a_caller_saw_does_not_undo_what_has_happened_since() {
    let exit = crate::observed::Exit {
        code: 0,
        oom_killed: false,
        error: None,
        started_at: Some(Timestamp::UNIX_EPOCH),
        finished_at: Timestamp::UNIX_EPOCH,
    };
    let mut records = Records::default();
    assert!(!records.is_behind(&sandbox("a", State::Created)), "nothing is known");
    records.put(1, sandbox("a", State::Exited(exit)));
    assert!(records.is_behind(&sandbox("a", running())), "it started, and has ended since");
    assert!(records.is_behind(&sandbox("a", State::Created)));
    let again = Timestamp::from_second(9).unwrap();
    assert!(
        !records.is_behind(&sandbox("a", State::Running { started_at: again, pid: 2 })),
        "started once more"
    );
}

#[test]
fn a_failed_look_is_made_again_though_the_list_shows_nothing_new() {
    let mut records = Records::default();
    records.put(1, sandbox("a", running()));
    records.doubt(&PodUid::new("u"), "a");
    assert!(records.differs(&listed("a", true, "running")));
    records.put(2, sandbox("a", running()));
    assert!(!records.differs(&listed("a", true, "running")));
}
