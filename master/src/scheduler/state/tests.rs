//! What is decided as things come and go.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::scheduler::samples::{near, node, pod, pod_with};

const SECOND: Duration = Duration::from_secs(1);

fn state(nodes: &[&str], now: Instant) -> State {
    let mut state = State::of(&Config::default());
    state.replace_nodes(nodes.iter().map(|name| node(name, "x")).collect(), now);
    Part::ALL.into_iter().for_each(|part| state.is_read(part));
    state
}

fn decided(state: &mut State, now: Instant) -> String {
    match state.next(now) {
        Ok(Decision::Bind { pod, node }) => format!("{} on {node}", pod.name),
        Ok(Decision::Refused { pod, words, promise: Promise::Made { node, victims, outdone } }) => {
            let names =
                |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>().join(" ");
            format!("{}: {words} {node} of {}, not {}", pod.name, names(&victims), names(&outdone))
        }
        Ok(Decision::Refused { pod, words, .. }) => format!("{}: {words}", pod.name),
        Err(_) => "nothing".to_owned(),
    }
}

#[test]
fn nothing_is_decided_before_everything_is_read() {
    let (mut state, now) = (State::default(), Instant::now());
    state.put_pod(pod("p", json!({})), now);
    state.put_node(node("a", "x"), now);
    assert_eq!(decided(&mut state, now), "nothing");
}

#[test]
fn a_pod_waits_for_a_node_and_gets_it() {
    let now = Instant::now();
    let mut state = state(&[], now);
    state.put_pod(pod("p", json!({})), now);
    assert_eq!(decided(&mut state, now), "p: no nodes available to schedule pods");
    state.put_node(node("a", "x"), now);
    assert_eq!(decided(&mut state, now), "nothing", "it pauses");
    assert_eq!(decided(&mut state, now + SECOND), "p on a");
    // What the server says from before the binding changes nothing.
    state.put_pod(pod("p", json!({})), now);
    assert_eq!(decided(&mut state, now + SECOND), "nothing");
    state.put_pod(pod("p", json!({"nodeName": "a"})), now);
    assert_eq!(decided(&mut state, now + SECOND), "nothing");
}

#[test]
fn what_a_pod_says_of_its_work_wakes_nobody() {
    let now = Instant::now();
    let mut state = state(&["a"], now);
    state.put_pod(pod("there", json!({"nodeName": "a"})), now);
    state.put_pod(pod("p", near("podAffinity", "none", "zone")), now);
    assert!(decided(&mut state, now).contains("didn't match pod affinity rules"));
    let mut told = pod("there", json!({"nodeName": "a"}));
    told.revision = "2".to_owned();
    state.put_pod(told, now);
    assert_eq!(decided(&mut state, now + SECOND), "nothing");
    state.put_pod(pod_with("new", json!({}), json!({"app": "none"}), json!({"nodeName": "a"})), now);
    assert_eq!(decided(&mut state, now + SECOND), "p on a");
}

#[test]
fn what_was_decided_counts_until_it_fails() {
    let now = Instant::now();
    let mut state = state(&["a"], now);
    let large = |name: &str| pod_with(name, json!({"cpu": "3"}), json!({}), json!({}));
    state.put_pod(large("p"), now);
    state.put_pod(large("q"), now);
    assert_eq!(decided(&mut state, now), "p on a");
    assert!(decided(&mut state, now).starts_with("q: 0/1 nodes are available: 1 Insufficient cpu."));
    state.unbound("p", now);
    assert_eq!(decided(&mut state, now), "nothing");
    let after = [decided(&mut state, now + SECOND), decided(&mut state, now + SECOND)];
    assert!(after[0].ends_with(" on a") && after[1].contains("Insufficient cpu"), "{after:?}");
}

#[test]
fn others_pods_and_those_that_end_are_left_alone_and_room_is_used_again() {
    let now = Instant::now();
    let mut state = state(&["a"], now);
    state.put_pod(pod("p", json!({"schedulerName": "mine"})), now);
    assert_eq!(decided(&mut state, now), "nothing");
    let large =
        |name: &str, node: &str| pod_with(name, json!({"cpu": "3"}), json!({}), json!({"nodeName": node}));
    state.put_pod(large("r", "a"), now);
    state.put_pod(large("q", ""), now);
    assert!(decided(&mut state, now).contains("Insufficient cpu"));
    let mut over = large("r", "a");
    over.is_over = true;
    state.put_pod(over, now);
    assert_eq!(decided(&mut state, now + SECOND), "q on a");
    // A list without it says that it is gone.
    state.replace_pods(Vec::new(), now);
    state.put_pod(large("s", ""), now);
    assert_eq!(decided(&mut state, now + SECOND), "s on a");
}

#[test]
fn who_outranks_others_is_promised_their_node_until_they_are_gone() {
    let now = Instant::now();
    let mut state = state(&["a"], now);
    let of = |name: &str, priority: i64, node: &str| {
        pod_with(name, json!({"cpu": "3"}), json!({}), json!({"nodeName": node, "priority": priority}))
    };
    state.put_pod(of("low", 1, "a"), now);
    state.put_pod(of("mid", 5, ""), now);
    let none = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(decided(&mut state, now), format!("mid: {none} a of low, not "));
    // Somebody higher comes, and the first one has to look elsewhere.
    state.put_pod(of("high", 9, ""), now);
    assert_eq!(decided(&mut state, now), format!("high: {none} a of low, not mid"));
    let nobody = "preemption: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(decided(&mut state, now + SECOND), format!("mid: {none} {nobody}"));
    state.remove_pod("low", now + SECOND);
    assert_eq!(decided(&mut state, now + SECOND), "high on a");
    state.remove_pod("high", now + SECOND);
    assert_eq!(decided(&mut state, now + SECOND * 3), "mid on a");
}

#[test]
fn every_scheduler_has_its_name_and_its_way() {
    let now = Instant::now();
    let profile =
        |name: &str, strategy| crate::scheduler::config::Profile { name: name.to_owned(), strategy };
    let profiles = vec![profile("packing", Strategy::Most), profile("spreading", Strategy::Least)];
    let mut state = State::of(&Config { profiles });
    state.replace_nodes(["a", "b"].iter().map(|name| node(name, "x")).collect(), now);
    Part::ALL.into_iter().for_each(|part| state.is_read(part));
    let of = |name: &str, scheduler: &str, node: &str| {
        let spec = json!({"schedulerName": scheduler, "nodeName": node});
        pod_with(name, json!({"cpu": "1", "memory": "2Gi"}), json!({}), spec)
    };
    state.put_pod(of("there", "other", "a"), now);
    for (name, scheduler, expected) in
        [("p", "packing", "p on a"), ("q", "spreading", "q on b"), ("r", "default-scheduler", "nothing")]
    {
        state.put_pod(of(name, scheduler, ""), now);
        assert_eq!(decided(&mut state, now), expected);
    }
}
