//! Aggregation, rate limits and expiry of events.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use jiff::SignedDuration;

use super::{BURST, EVENTS, EventCorrelator, SIMILAR};
use crate::report::{About, Note, Severity};
use crate::status::tests::notes::{at, note};

#[test]
fn event_has_the_fields_that_kubectl_reads() {
    let event = EventCorrelator::new("n1").record(&note("web", "Back-off restarting", 0)).unwrap();
    let name = event["metadata"]["name"].as_str().unwrap();
    let (object, hex) = name.split_once('.').unwrap();
    assert_eq!(object, "web");
    assert!(u64::from_str_radix(hex, 16).is_ok(), "{name}");
    assert_eq!(event["metadata"]["namespace"], "shop");
    assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{c}");
    assert_eq!(event["involvedObject"]["uid"], "uid-web");
    assert_eq!(event["source"], serde_json::json!({"component": "kubelet", "host": "n1"}));
    assert_eq!(event["firstTimestamp"], "2023-11-14T22:13:20Z");
    assert_eq!((&event["count"], &event["type"]), (&1.into(), &"Warning".into()));
}

#[test]
fn repeats_are_counted_in_one_event() {
    let mut events = EventCorrelator::new("n1");
    let first = events.record(&note("web", "x", 0)).unwrap();
    let second = events.record(&note("web", "x", 5)).unwrap();
    assert_eq!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_eq!(second["count"], 2);
    assert_eq!(second["firstTimestamp"], first["firstTimestamp"]);
    assert_ne!(second["lastTimestamp"], first["lastTimestamp"]);
    let other = events.record(&note("api", "x", 5)).unwrap();
    assert_eq!(other["count"], 1);
}

#[test]
fn many_messages_for_one_reason_become_one_event() {
    let mut events = EventCorrelator::new("n1");
    let all: Vec<_> = (0..15).map(|n| events.record(&note("web", &format!("m{n}"), n)).unwrap()).collect();
    let names: BTreeSet<&str> = all.iter().map(|event| event["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), SIMILAR);
    assert_eq!(all[SIMILAR - 2]["message"], "m8");
    assert_eq!(all[14]["message"], "(combined from similar events): m14");
    assert_eq!(all[14]["count"], 6);
    // A message that was recorded individually still is.
    assert_eq!(events.record(&note("web", "m3", 20)).unwrap()["message"], "m3");
    // After a quiet period messages are recorded individually again.
    assert_eq!(events.record(&note("web", "m77", 2000)).unwrap()["message"], "m77");
}

/// A Normal event.
fn normal(object: &str, message: &str, second: i64) -> Note {
    Note { severity: Severity::Normal, reason: "Pulled".into(), ..note(object, message, second) }
}

#[test]
fn a_flood_of_normal_events_about_one_object_is_limited() {
    let mut events = EventCorrelator::new("n1");
    let passed = (0..100).filter(|n| events.record(&normal("web", "x", *n / 10)).is_some()).count();
    assert_eq!(passed, BURST as usize);
    assert!(events.record(&normal("api", "x", 10)).is_some(), "another object is not held back");
    assert!(events.record(&normal("web", "x", 320)).is_some(), "five minutes later one more may pass");
    assert!(events.record(&normal("web", "x", 321)).is_none());
}

#[test]
fn warnings_pass_when_the_budget_of_normal_events_is_spent() {
    let mut events = EventCorrelator::new("n1");
    for n in 0..100 {
        events.record(&normal("web", "x", n / 10));
    }
    for n in 0..100 {
        assert!(events.record(&note("web", &format!("failure {n}"), 10)).is_some() || n >= BURST as i64);
    }
    let seldom = Note { reason: "FailedMount".into(), ..note("web", "no such directory", 11) };
    assert!(events.record(&seldom).is_some(), "a new Warning passes in a flood of others");
    let repeats = (0..100).filter(|_| events.record(&note("web", "failure 1", 11)).is_some()).count();
    assert!(repeats <= BURST as usize, "{repeats} repeats");
    assert!(events.record(&note("web", "failure 1", 22)).is_some(), "a failure that goes on is counted");
}

#[test]
fn an_edit_starts_a_new_budget() {
    let mut events = EventCorrelator::new("n1");
    for edit in 0..20 {
        events.edited("uid-web");
        for n in 0..5 {
            assert!(events.record(&normal("web", &format!("step {n}"), edit)).is_some(), "edit {edit}");
        }
    }
}

#[test]
fn events_expire_an_hour_after_they_were_last_seen() {
    let mut events = EventCorrelator::new("n1");
    events.record(&note("old", "x", 0));
    events.record(&note("again", "x", 0));
    events.record(&note("again", "x", 3000));
    assert!(events.expire(at(3600)).is_empty());
    let expired = events.expire(at(3601));
    assert_eq!(expired.len(), 1);
    assert!(expired[0].1.starts_with("old."), "{expired:?}");
    let left = events.next_expiry(at(3601)).unwrap();
    assert!(left.as_secs() <= 3001, "{left:?}");
    assert_eq!(events.expire(at(6601)).len(), 1);
    assert_eq!(events.next_expiry(at(6601)), None);
}

#[test]
fn event_count_is_limited() {
    let mut events = EventCorrelator::new("n1");
    let count = EVENTS + 10;
    for n in 0..count {
        events.record(&note(&format!("pod{n}"), "x", 0));
    }
    let expired = events.expire(at(0) + SignedDuration::from_secs(1));
    assert_eq!(expired.len(), 10);
    assert!(expired[0].1.starts_with("pod0."));
}

#[test]
fn node_events_are_in_the_default_namespace() {
    let note = Note { about: About::node("n1"), ..note("x", "y", 0) };
    let event = EventCorrelator::new("n1").record(&note).unwrap();
    assert_eq!(event["metadata"]["namespace"], "default");
    assert_eq!(event["involvedObject"].get("namespace"), None);
    assert_eq!(event["involvedObject"].get("fieldPath"), None);
}
