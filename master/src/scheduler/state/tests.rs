//! Tests of decisions over time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::scheduler::filter::Reason;
use crate::scheduler::fixtures::{decoded, node, pod, pod_with, required_affinity};
use crate::scheduler::volumes::{Claim, Volume};

const SECOND: Duration = Duration::from_secs(1);

fn state(nodes: &[&str], now: Instant) -> State {
    of(&Config::default(), nodes, now)
}

fn of(config: &Config, nodes: &[&str], now: Instant) -> State {
    let mut state = State::of(config);
    state.replace_nodes(nodes.iter().map(|name| node(name, "x")).collect(), now);
    InformerKind::ALL.into_iter().for_each(|informer| state.mark_synced(informer));
    state
}

fn decided(state: &mut State, now: Instant) -> String {
    match state.next(now) {
        Ok(Decision::Bind { pod, node }) => format!("{} on {node}", pod.name),
        Ok(Decision::Unschedulable {
            pod,
            words,
            nomination: Nomination::Nominated { node, victims, superseded },
            ..
        }) => {
            let names =
                |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>().join(" ");
            format!("{}: {words} {node} of {}, not {}", pod.name, names(&victims), names(&superseded))
        }
        Ok(Decision::Unschedulable { pod, words, .. }) => format!("{}: {words}", pod.name),
        Ok(Decision::AskExtenders { pod, .. } | Decision::AskPreemption { pod, .. }) => {
            format!("{} is asked about", pod.name)
        }
        Ok(Decision::BindClaims { pod, .. } | Decision::ClaimsFailed { pod, .. }) => {
            format!("{} has claims", pod.name)
        }
        Err(_) => "nothing".to_owned(),
    }
}

#[test]
fn scheduler_waits_for_all_initial_lists() {
    let (mut state, now) = (State::of(&Config::default()), Instant::now());
    state.put_pod(pod("p", json!({})), now);
    state.put_node(node("a", "x"), now);
    assert_eq!(decided(&mut state, now), "nothing");
}

#[test]
fn pending_pod_is_bound_when_a_node_appears() {
    let now = Instant::now();
    let mut state = state(&[], now);
    state.put_pod(pod("p", json!({})), now);
    assert_eq!(decided(&mut state, now), "p: no nodes available to schedule pods");
    state.put_node(node("a", "x"), now);
    assert_eq!(decided(&mut state, now), "nothing", "it pauses");
    assert_eq!(decided(&mut state, now + SECOND), "p on a");
    // An outdated update from before the binding changes nothing.
    state.put_pod(pod("p", json!({})), now);
    assert_eq!(decided(&mut state, now + SECOND), "nothing");
    state.put_pod(pod("p", json!({"nodeName": "a"})), now);
    assert_eq!(decided(&mut state, now + SECOND), "nothing");
}

#[test]
fn status_updates_of_bound_pods_requeue_no_pod() {
    let now = Instant::now();
    let mut state = state(&["a"], now);
    state.put_pod(pod("there", json!({"nodeName": "a"})), now);
    state.put_pod(pod("p", required_affinity("podAffinity", "none", "zone")), now);
    assert!(decided(&mut state, now).contains("didn't match pod affinity rules"));
    let mut updated = pod("there", json!({"nodeName": "a"}));
    updated.resource_version = "2".to_owned();
    state.put_pod(updated, now);
    assert_eq!(decided(&mut state, now + SECOND), "nothing");
    state.put_pod(pod_with("new", json!({}), json!({"app": "none"}), json!({"nodeName": "a"})), now);
    assert_eq!(decided(&mut state, now + SECOND), "p on a");
}

#[test]
fn assumed_pod_uses_resources_until_its_bind_fails() {
    let now = Instant::now();
    let mut state = state(&["a"], now);
    let large = |name: &str| pod_with(name, json!({"cpu": "3"}), json!({}), json!({}));
    state.put_pod(large("p"), now);
    state.put_pod(large("q"), now);
    assert_eq!(decided(&mut state, now), "p on a");
    assert!(decided(&mut state, now).starts_with("q: 0/1 nodes are available: 1 Insufficient cpu."));
    state.bind_failed("p", now);
    assert_eq!(decided(&mut state, now), "nothing");
    let after = [decided(&mut state, now + SECOND), decided(&mut state, now + SECOND)];
    assert!(after[0].ends_with(" on a") && after[1].contains("Insufficient cpu"), "{after:?}");
}

#[test]
fn scheduler_ignores_foreign_and_ending_pods_and_reuses_freed_resources() {
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
    over.is_terminal = true;
    state.put_pod(over, now);
    assert_eq!(decided(&mut state, now + SECOND), "q on a");
    // A pod that is missing from the list was deleted.
    state.replace_pods(Vec::new(), now);
    state.put_pod(large("s", ""), now);
    assert_eq!(decided(&mut state, now + SECOND), "s on a");
}

#[test]
fn preemptor_stays_nominated_until_its_victims_are_gone() {
    let now = Instant::now();
    let mut state = state(&["a"], now);
    let of = |name: &str, priority: i64, node: &str| {
        pod_with(name, json!({"cpu": "3"}), json!({}), json!({"nodeName": node, "priority": priority}))
    };
    state.put_pod(of("low", 1, "a"), now);
    state.put_pod(of("mid", 5, ""), now);
    let none = "0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(decided(&mut state, now), format!("mid: {none} a of low, not "));
    // A pod of higher priority arrives and takes over the nomination.
    state.put_pod(of("high", 9, ""), now);
    assert_eq!(decided(&mut state, now), format!("high: {none} a of low, not mid"));
    let no_victims = "preemption: 0/1 nodes are available: 1 Insufficient cpu.";
    assert_eq!(decided(&mut state, now + SECOND), format!("mid: {none} {no_victims}"));
    state.remove_pod("low", now + SECOND);
    assert_eq!(decided(&mut state, now + SECOND), "high on a");
    state.remove_pod("high", now + SECOND);
    assert_eq!(decided(&mut state, now + SECOND * 3), "mid on a");
}

#[test]
fn nomination_survives_a_failed_bind() {
    let now = Instant::now();
    let mut state = state(&["a"], now);
    let of = |name: &str, priority: i64| {
        pod_with(name, json!({"cpu": "3"}), json!({}), json!({"priority": priority}))
    };
    let mut first = of("first", 5);
    first.nominated_node = "a".to_owned();
    state.put_pod(first, now);
    state.put_pod(of("second", 1), now);
    assert_eq!(decided(&mut state, now), "first on a");
    state.bind_failed("first", now);
    assert!(decided(&mut state, now).starts_with("second: 0/1 nodes are available: 1 Insufficient cpu."));
    assert_eq!(decided(&mut state, now + SECOND), "first on a");
}

#[test]
fn each_profile_scores_with_its_own_strategy() {
    let now = Instant::now();
    let profile =
        |name: &str, strategy| crate::scheduler::config::Profile { name: name.to_owned(), strategy };
    let profiles = vec![
        profile("packing", ScoringStrategy::MostAllocated),
        profile("spreading", ScoringStrategy::LeastAllocated),
    ];
    let mut state = State::of(&Config { profiles, ..Config::default() });
    state.replace_nodes(["a", "b"].iter().map(|name| node(name, "x")).collect(), now);
    InformerKind::ALL.into_iter().for_each(|informer| state.mark_synced(informer));
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

/// The pod that extenders handle, and its feasible nodes.
fn extender_request(state: &mut State, now: Instant) -> (Arc<Pod>, FeasibleNodes) {
    match state.next(now) {
        Ok(Decision::AskExtenders { pod, feasible }) => (pod, feasible),
        other => panic!("{other:?}"),
    }
}

fn with_extender(now: Instant) -> State {
    with_verbs("filterVerb: f, preemptVerb: p", now)
}

/// Nodes `a` and `b`, and an extender with these verbs for pods that request a GPU.
fn with_verbs(verbs: &str, now: Instant) -> State {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    let managed = "managedResources: [{name: example.com/gpu}]";
    let text = format!("{head}extenders: [{{urlPrefix: 'http://x', {verbs}, {managed}}}]\n");
    of(&Config::read(text.as_bytes()).unwrap(), &["a", "b"], now)
}

fn gpu(name: &str, spec: serde_json::Value) -> Pod {
    pod_with(name, json!({"example.com/gpu": "1"}), json!({}), spec)
}

fn results(left: &[(&str, i64)], refused: &[&str]) -> Result<ExtenderResults, String> {
    let no = || Reason::Extender { message: "no".to_owned(), unresolvable: false };
    Ok(ExtenderResults {
        scores: left.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect(),
        refused: refused.iter().map(|name| ((*name).to_owned(), no())).collect(),
    })
}

#[test]
fn extenders_select_among_feasible_nodes() {
    let now = Instant::now();
    let mut state = with_extender(now);
    state.put_pod(gpu("p", json!({})), now);
    state.put_pod(gpu("q", json!({})), now);
    let (first, feasible) = extender_request(&mut state, now);
    let (second, others) = extender_request(&mut state, now);
    assert_eq!((feasible.nodes.len(), others.nodes.len()), (2, 2));
    // Pods without extenders continue.
    state.put_pod(pod("free", json!({})), now);
    assert!(decided(&mut state, now).starts_with("free on "));
    let likes_b = || results(&[("a", 0), ("b", 500)], &[]);
    let bound = |decision: Option<Decision>| match decision {
        Some(Decision::Bind { node, .. }) => node,
        other => panic!("{other:?}"),
    };
    assert_eq!(bound(state.extenders_answered(&first, feasible, likes_b(), now)), "b");
    // Both pods want `b`, and one of them has it.
    assert_eq!(bound(state.extenders_answered(&second, others, likes_b(), now)), "a");
    state.put_pod(gpu("gone", json!({})), now);
    state.remove_node("a", now);
    state.put_node(node("c", "x"), now);
    let (gone, feasible) = extender_request(&mut state, now);
    state.remove_pod("gone", now);
    assert!(state.extenders_answered(&gone, feasible, results(&[("c", 0)], &[]), now).is_none());
    // The remaining nodes are taken: the pod is retried at once.
    state.put_pod(gpu("late", json!({})), now);
    let (late, feasible) = extender_request(&mut state, now);
    state.put_pod(gpu("quick", json!({"nodeName": "c"})), now);
    assert!(state.extenders_answered(&late, feasible, results(&[("c", 0)], &[]), now).is_none());
    assert!(decided(&mut state, now).contains("2 Insufficient example.com/gpu"));
}

#[test]
fn unschedulable_message_counts_the_nodes_that_extenders_reject() {
    let now = Instant::now();
    let mut state = with_extender(now);
    state.put_pod(gpu("p", json!({"priority": 9})), now);
    state.put_pod(pod("low", json!({"nodeName": "a"})), now);
    let (first, feasible) = extender_request(&mut state, now);
    let refused = state.extenders_answered(&first, feasible, results(&[], &["a", "b"]), now);
    let Some(Decision::Unschedulable { words, reason, .. }) = refused else { panic!("{refused:?}") };
    assert!(words.starts_with("0/2 nodes are available: 2 no. preemption: "), "{words}");
    assert_eq!(reason, UNSCHEDULABLE);
    // Any event may help.
    state.put_pod(pod("new", json!({"nodeName": "a"})), now);
    let (first, feasible) = extender_request(&mut state, now + SECOND);
    let refused = state.extenders_answered(&first, feasible, Err("he is not there".to_owned()), now + SECOND);
    let Some(Decision::Unschedulable { words, reason, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!((words.as_str(), reason), ("he is not there", SCHEDULER_ERROR));
    for name in ["a", "b"] {
        state.put_pod(gpu(&format!("on-{name}"), json!({"nodeName": name})), now);
    }
    let room = state.next(now + SECOND * 10);
    let Ok(Decision::AskPreemption { pod, fit_error, mut offers }) = room else { panic!("{room:?}") };
    assert_eq!(offers.len(), 2);
    offers.retain(|offer| offer.node == "b");
    let made = state.preemption_answered(pod.clone(), &fit_error, Ok(offers), now);
    let Some(Decision::Unschedulable { nomination: Nomination::Nominated { node, .. }, .. }) = made else {
        panic!("{made:?}")
    };
    assert_eq!(node, "b");
    assert!(state.preemption_answered(pod, &fit_error, Ok(Vec::new()), now).is_none(), "that was not asked");
    let room = state.next(now + SECOND * 3600);
    let Ok(Decision::AskPreemption { pod, fit_error, .. }) = room else { panic!("{room:?}") };
    let changes_nothing = state.next(now + SECOND * 7200).is_err();
    assert!(changes_nothing, "the pod is not considered during the extender call");
    let over = state.preemption_answered(pod, &fit_error, Ok(Vec::new()), now);
    let Some(Decision::Unschedulable { words, nomination: Nomination::Cleared, .. }) = over else {
        panic!("{over:?}")
    };
    assert!(words.ends_with("preemption: no candidate node for preemption"), "{words}");
}

#[test]
fn scheduler_limits_pods_at_extenders() {
    let now = Instant::now();
    let mut state = with_extender(now);
    for count in 0..=MAX_AT_EXTENDERS {
        state.put_pod(gpu(&format!("p{count}"), json!({})), now);
    }
    let mut under_way: Vec<_> = (0..MAX_AT_EXTENDERS).map(|_| extender_request(&mut state, now)).collect();
    assert_eq!(decided(&mut state, now), "nothing");
    state.put_pod(pod("free", json!({})), now);
    assert!(decided(&mut state, now).starts_with("free on "));
    let (first, feasible) = under_way.remove(0);
    assert!(state.extenders_answered(&first, feasible, results(&[("a", 0)], &[]), now).is_some());
    assert_eq!(extender_request(&mut state, now).0.name, format!("p{MAX_AT_EXTENDERS}"));
}

/// The decision after the extender's results, or the message if the pod is unschedulable.
fn after(
    state: &mut State,
    pod: &Pod,
    feasible: FeasibleNodes,
    verdict_result: Result<ExtenderResults, String>,
    now: Instant,
) -> String {
    match state.extenders_answered(pod, feasible, verdict_result, now) {
        Some(Decision::Bind { node, .. }) => format!("on {node}"),
        Some(Decision::Unschedulable { words, .. }) => words,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pod_rejected_on_its_nominated_node_tries_other_nodes() {
    let now = Instant::now();
    let mut state = with_extender(now);
    for (name, left, expected) in [
        ("p", &[("b", 0)][..], "on b"),
        ("q", &[][..], "0/2 nodes are available: 1 Insufficient example.com/gpu, 1 no. preemption: "),
    ] {
        let mut nominated_node = gpu(name, json!({}));
        nominated_node.nominated_node = "a".to_owned();
        state.put_pod(nominated_node, now);
        let (pod, feasible) = extender_request(&mut state, now);
        assert_eq!(feasible.nodes, ["a"]);
        let again = state.extenders_answered(&pod, feasible, results(&[], &["a"]), now);
        let Some(Decision::AskExtenders { feasible, .. }) = again else { panic!("{again:?}") };
        assert_eq!(feasible.nodes.first().unwrap(), "a");
        let verdict_result = after(&mut state, &pod, feasible, results(left, &["a"]), now);
        assert!(verdict_result.starts_with(expected), "{verdict_result}");
    }
}

#[test]
fn extender_response_applies_only_to_the_requested_nodes() {
    let now = Instant::now();
    let mut state = with_extender(now);
    let on_a = json!({"priority": 9, "nodeSelector": {"kubernetes.io/hostname": "a"}});
    state.put_pod(pod("low", json!({"nodeName": "a"})), now);
    state.put_pod(gpu("p", on_a), now);
    let (first, feasible) = extender_request(&mut state, now);
    let mut verdict_result = results(&[], &["a", "b", "c", "a"]).unwrap();
    verdict_result
        .refused
        .insert(1, ("a".to_owned(), Reason::Extender { message: "never".to_owned(), unresolvable: true }));
    let words = after(&mut state, &first, feasible, Ok(verdict_result), now);
    let why = "0/2 nodes are available: 1 never, 1 node(s) didn't match Pod's node affinity/selector.";
    let room = "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(words, format!("{why} {room}"));
}

#[test]
fn pod_rejected_by_an_extender_without_reasons_is_retried_after_any_event() {
    let now = Instant::now();
    let mut state = with_extender(now);
    state.put_pod(gpu("p", json!({})), now);
    let (first, feasible) = extender_request(&mut state, now);
    let words = after(&mut state, &first, feasible, results(&[], &[]), now);
    assert!(words.starts_with("0/2 nodes are available. preemption: "), "{words}");
    state.put_pod(pod("new", json!({"nodeName": "a"})), now);
    assert_eq!(extender_request(&mut state, now + SECOND).0.name, "p");
}

#[test]
fn unschedulable_pods_do_not_block_others_at_the_extender_limit() {
    let now = Instant::now();
    let mut state = with_extender(now);
    for count in 0..MAX_AT_EXTENDERS {
        state.put_pod(gpu(&format!("p{count}"), json!({})), now);
    }
    let mut under_way: Vec<_> = (0..MAX_AT_EXTENDERS).map(|_| extender_request(&mut state, now)).collect();
    for name in ["bad-1", "bad-2"] {
        state.put_pod(gpu(name, json!({"nodeSelector": {"zone": "z"}})), now);
    }
    state.put_pod(gpu("good", json!({})), now);
    assert_eq!(decided(&mut state, now), "nothing");
    let (first, feasible) = under_way.remove(0);
    assert_eq!(after(&mut state, &first, feasible, results(&[("a", 0)], &[]), now), "on a");
    for name in ["bad-1", "bad-2"] {
        let verdict_result = decided(&mut state, now);
        assert!(
            verdict_result.starts_with(&format!("{name}: 0/2 nodes are available: ")),
            "{verdict_result}"
        );
    }
    assert_eq!(decided(&mut state, now), "good is asked about");
}

#[test]
fn preempt_calls_are_limited_and_their_failure_keeps_nominations() {
    let now = Instant::now();
    let mut state = with_verbs("preemptVerb: p", now);
    for name in ["a", "b"] {
        state.put_pod(gpu(&format!("on-{name}"), json!({"nodeName": name})), now);
    }
    for count in 0..=MAX_AT_EXTENDERS {
        let mut high = gpu(&format!("p{count}"), json!({"priority": 9}));
        high.nominated_node = if count == 0 { "a" } else { "" }.to_owned();
        state.put_pod(high, now);
    }
    let room = |state: &mut State| match state.next(now) {
        Ok(Decision::AskPreemption { pod, fit_error, .. }) => (pod, fit_error),
        other => panic!("{other:?}"),
    };
    let mut under_way: Vec<_> = (0..MAX_AT_EXTENDERS).map(|_| room(&mut state)).collect();
    assert_eq!(decided(&mut state, now), "nothing");
    state.put_pod(pod("free", json!({})), now);
    assert!(decided(&mut state, now).starts_with("free on "));
    let (first, fit_error) = under_way.remove(0);
    let late = state.preemption_answered(first, &fit_error, Err("late".to_owned()), now);
    let Some(Decision::Unschedulable { words, nomination: Nomination::Unchanged, .. }) = late else {
        panic!("{late:?}")
    };
    assert!(words.ends_with("preemption: late"), "{words}");
    assert_eq!(room(&mut state).0.name, format!("p{MAX_AT_EXTENDERS}"));
}

#[test]
fn concurrent_extender_bind_calls_are_limited() {
    let now = Instant::now();
    let mut state = with_verbs("bindVerb: b", now);
    for count in 0..MAX_AT_EXTENDERS + 2 {
        state.put_node(node(&format!("n{count}"), "x"), now);
        state.put_pod(gpu(&format!("p{count}"), json!({})), now);
    }
    for count in 0..MAX_AT_EXTENDERS {
        assert!(decided(&mut state, now).starts_with(&format!("p{count} on ")));
    }
    assert_eq!(decided(&mut state, now), "nothing");
    state.put_pod(pod("free", json!({})), now);
    assert!(decided(&mut state, now).starts_with("free on "));
    state.extender_bind_finished();
    assert!(decided(&mut state, now).starts_with(&format!("p{MAX_AT_EXTENDERS} on ")));
    assert_eq!(decided(&mut state, now), "nothing");
}

#[test]
fn scheduler_keeps_pod_updates_during_a_decision() {
    let now = Instant::now();
    // It is deleted while it is being bound.
    let mut state = state(&["a"], now);
    state.put_pod(pod("p", json!({})), now);
    assert_eq!(decided(&mut state, now), "p on a");
    let mut ending = pod("p", json!({}));
    Arc::make_mut(&mut ending.spec).is_terminating = true;
    state.put_pod(ending, now);
    state.bind_failed("p", now);
    assert_eq!(decided(&mut state, now + SECOND * 10), "nothing");
    // Its requests change while an extender handles it.
    let mut state = with_extender(now);
    let edited = json!({"tolerations": [{"key": "k", "operator": "Exists"}]});
    state.put_pod(gpu("p", json!({})), now);
    let (first, feasible) = extender_request(&mut state, now);
    state.put_pod(gpu("p", edited), now);
    let words = after(&mut state, &first, feasible, results(&[], &["a", "b"]), now);
    assert!(words.starts_with("0/2 nodes are available: 2 no."), "{words}");
    assert_eq!(extender_request(&mut state, now + SECOND).0.spec.tolerations.len(), 1);
}

#[test]
fn pod_that_shrinks_or_moves_frees_its_resources() {
    let now = Instant::now();
    let of = |name: &str, cpu: &str, node: &str| {
        pod_with(name, json!({"cpu": cpu}), json!({}), json!({"nodeName": node}))
    };
    let mut state = state(&["a"], now);
    state.put_pod(of("there", "3", "a"), now);
    state.put_pod(of("p", "3", ""), now);
    assert!(decided(&mut state, now).contains("Insufficient cpu"));
    state.put_pod(of("there", "1", "a"), now);
    assert_eq!(decided(&mut state, now + SECOND), "p on a");
    // Another scheduler has bound `p` to another node.
    state.put_pod(of("q", "3", ""), now);
    assert!(decided(&mut state, now).contains("Insufficient cpu"));
    state.put_pod(of("p", "3", "other"), now);
    assert_eq!(decided(&mut state, now + SECOND), "q on a");
}

#[test]
fn pod_requests_are_the_maximum_of_spec_allocated_and_actual_resources() {
    for (requested, has, given, pending, counts) in [
        ("1", "3", "2", "Deferred", 3000),
        ("2", "1", "1", "Deferred", 2000),
        ("1", "1", "3", "", 3000),
        ("4", "1", "2", "Infeasible", 2000),
    ] {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "p"},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": requested}}}]},
            "status": {
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": pending}],
                "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": given}}],
            },
        });
        let pod = Pod::of(decoded(pod));
        assert_eq!(
            (pod.spec.requests.cpu_milli, pod.spec.non_zero_requested.cpu_milli),
            (counts, counts),
            "{requested} {has} {given}"
        );
    }
}

/// A pod of higher priority with this nominated node.
fn nominated_node(node: &str, on: &str) -> Pod {
    let spec = json!({"priority": 9, "nodeName": on, "nodeSelector": {"zone": "z"}});
    Pod { nominated_node: node.to_owned(), ..pod_with("first", json!({"cpu": "3"}), json!({}), spec) }
}

/// The same pod with a scheduling gate.
fn held(node: &str) -> Pod {
    let mut pod = nominated_node(node, "");
    Arc::make_mut(&mut pod.spec).is_gated = true;
    pod
}

#[test]
fn lost_nomination_frees_the_node_for_other_pods() {
    let now = Instant::now();
    // Ways to lose a nomination: deletion, a change by the API server, binding to another node, and failed preemption.
    type End = fn(&mut State, Instant);
    let ends: [(bool, End); 5] = [
        (false, |state, now| state.remove_pod("first", now)),
        (false, |state, now| state.put_pod(held(""), now)),
        (false, |state, now| state.put_pod(held("c"), now)),
        (false, |state, now| state.put_pod(nominated_node("a", "c"), now)),
        (true, |state, now| state.put_pod(nominated_node("a", ""), now)),
    ];
    for (is_looked_at, end) in ends {
        let mut state = state(&["a"], now);
        state.put_pod(held("a"), now);
        state.put_pod(pod_with("second", json!({"cpu": "3"}), json!({}), json!({})), now);
        assert!(decided(&mut state, now).starts_with("second: 0/1 nodes are available: 1 Insufficient cpu."));
        end(&mut state, now);
        assert_eq!(decided(&mut state, now).starts_with("first: "), is_looked_at);
        assert_eq!(decided(&mut state, now + SECOND), "second on a");
    }
}

#[test]
fn node_label_change_requeues_pods_that_wait_for_a_volume() {
    let now = Instant::now();
    let mut state = state(&["a"], now);
    let claim = json!({"metadata": {"name": "c", "namespace": "default"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}});
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]});
    let volume = json!({"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}});
    state.volumes(now).claims.put(Claim::of(decoded(claim)));
    state.volumes(now).volumes.put(Volume::of(decoded(volume)));
    let uses = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]});
    state.put_pod(pod("p", uses), now);
    assert!(decided(&mut state, now).contains("node(s) had volume node affinity conflict"));
    state.put_node(node("a", "y"), now);
    assert_eq!(decided(&mut state, now + SECOND), "p on a");
}

#[test]
fn new_pod_requeues_only_pods_whose_affinity_it_matches() {
    let now = Instant::now();
    let mut state = state(&["a"], now);
    for app in ["db", "cache"] {
        state.put_pod(pod(&format!("near-{app}"), required_affinity("podAffinity", app, "zone")), now);
        assert!(decided(&mut state, now).contains("didn't match pod affinity rules"));
    }
    let come =
        |name: &str, app: &str| pod_with(name, json!({}), json!({"app": app}), json!({"nodeName": "a"}));
    state.put_pod(come("1", "other"), now);
    assert_eq!(decided(&mut state, now + SECOND), "nothing");
    state.put_pod(come("2", "cache"), now);
    assert_eq!(decided(&mut state, now + SECOND), "near-cache on a");
    assert_eq!(decided(&mut state, now + SECOND), "nothing");
}
