//! Tests of the plan, the pods and the status of a DaemonSet.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::json;

use super::plan::{Backoff, Limits, plan};
use super::*;
use crate::controllers::workloads::replica::{Phase, Replica};
use crate::objects::StringMap;

const NOW: i64 = 1000;

fn at(second: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

fn labels(hash: &str) -> StringMap {
    [("app", "agent"), (POD_REVISION_LABEL, hash)].into_iter().collect()
}

/// Labels of pods of the old and of the new revision.
struct Revisions {
    old: StringMap,
    new: StringMap,
}

impl Revisions {
    fn get() -> Self {
        Self { old: labels("old"), new: labels("new") }
    }

    /// A bound pod of the old revision, which is ready since second 0.
    fn old<'a>(&'a self, node: &'a str, name: &'a str) -> DaemonPod<'a> {
        let replica = Replica {
            name,
            uid: name,
            labels: &self.old,
            controller: None,
            node,
            phase: Phase::Running,
            is_terminating: false,
            is_ready: true,
            ready_changed: Some(at(0)),
            deletion_cost: 0,
            restarts: (0, 0),
            created: Some(at(0)),
        };
        DaemonPod { replica, node, has_failed: false }
    }

    fn updated<'a>(&'a self, node: &'a str, name: &'a str) -> DaemonPod<'a> {
        let old = self.old(node, name);
        DaemonPod { replica: Replica { labels: &self.new, ..old.replica }, ..old }
    }
}

fn with<'a>(pod: DaemonPod<'a>, change: impl Fn(&mut Replica<'a>)) -> DaemonPod<'a> {
    let mut replica = pod.replica;
    change(&mut replica);
    DaemonPod { replica, ..pod }
}

fn unready(pod: DaemonPod<'_>) -> DaemonPod<'_> {
    with(pod, |replica| replica.is_ready = false)
}

fn terminating(pod: DaemonPod<'_>) -> DaemonPod<'_> {
    with(pod, |replica| replica.is_terminating = true)
}

fn unbound(pod: DaemonPod<'_>) -> DaemonPod<'_> {
    with(unready(pod), |replica| (replica.node, replica.phase) = ("", Phase::Pending))
}

fn failed(pod: DaemonPod<'_>) -> DaemonPod<'_> {
    DaemonPod { has_failed: true, ..with(unready(pod), |replica| replica.phase = Phase::Terminal) }
}

fn set(strategy: &Value) -> DaemonSet {
    let spec = json!({"updateStrategy": strategy, "minReadySeconds": 10});
    serde_json::from_value(json!({"metadata": {"generation": 7}, "spec": spec})).unwrap()
}

fn rolling(surge: &Value, unavailable: &Value) -> DaemonSet {
    set(
        &json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}),
    )
}

/// Nodes that should run a pod.
fn run<'a>(names: &[&'a str]) -> Vec<DaemonNode<'a>> {
    names.iter().map(|name| DaemonNode { name, eligibility: Eligibility::Run }).collect()
}

fn input<'a>(
    set: &'a DaemonSet,
    nodes: &'a [DaemonNode<'a>],
    pods: &'a [DaemonPod<'a>],
    backoff: Backoff<'a>,
) -> Input<'a> {
    Input { set, nodes, pods, hash: "new", backoff, now: at(NOW) }
}

/// Nodes for which the plan creates pods, and names of pods that it deletes.
fn planned<'a>(
    set: &'a DaemonSet,
    nodes: &'a [DaemonNode<'a>],
    pods: &'a [DaemonPod<'a>],
) -> (Vec<&'a str>, Vec<&'a str>) {
    let plan = plan(input(set, nodes, pods, &|_| None));
    (plan.create, plan.delete.iter().map(|pod| pod.name).collect())
}

#[test]
fn each_node_that_should_run_a_pod_gets_one() {
    let (of, set) = (Revisions::get(), set(&json!({"type": "OnDelete"})));
    let nodes = run(&["a", "b", "c"]);
    assert_eq!(planned(&set, &nodes, &[]), (vec!["a", "b", "c"], vec![]));
    let pods = [of.updated("a", "1"), unbound(of.updated("b", "2"))];
    assert_eq!(planned(&set, &nodes, &pods), (vec!["c"], vec![]));
    // A pod that is being deleted is replaced when it has gone, or when it has ended.
    assert_eq!(planned(&set, &run(&["a"]), &[terminating(of.updated("a", "1"))]), (vec![], vec![]));
    assert_eq!(
        planned(&set, &run(&["a"]), &[terminating(failed(of.updated("a", "1")))]),
        (vec!["a"], vec![])
    );
}

#[test]
fn a_node_that_must_not_run_a_pod_loses_it() {
    let (of, set) = (Revisions::get(), set(&json!({"type": "OnDelete"})));
    let on = |eligibility| [DaemonNode { name: "a", eligibility }];
    let pods = [of.updated("a", "1")];
    assert_eq!(planned(&set, &on(Eligibility::Stop), &pods), (vec![], vec!["1"]));
    assert_eq!(planned(&set, &on(Eligibility::Continue), &pods), (vec![], vec![]));
    assert_eq!(planned(&set, &on(Eligibility::Continue), &[]), (vec![], vec![]));
    assert_eq!(planned(&set, &on(Eligibility::Stop), &[terminating(of.updated("a", "1"))]), (vec![], vec![]));
    // On a node that does not exist, only pods that are not bound are deleted. The pod GC deletes the others.
    let pods = [of.updated("gone", "1"), unbound(of.updated("gone", "2"))];
    assert_eq!(planned(&set, &[], &pods), (vec![], vec!["2"]));
}

#[test]
fn of_several_pods_on_a_node_the_oldest_bound_one_stays() {
    let (of, set) = (Revisions::get(), set(&json!({"type": "OnDelete"})));
    let created = |pod, second| with(pod, |replica| replica.created = Some(at(second)));
    let pods = [
        created(of.updated("a", "new"), 9),
        created(of.updated("a", "old"), 5),
        created(of.updated("a", "same"), 5),
        created(unbound(of.updated("a", "unbound")), 1),
        terminating(of.updated("a", "going")),
    ];
    assert_eq!(planned(&set, &run(&["a"]), &pods), (vec![], vec!["same", "new", "unbound"]));
}

#[test]
fn pods_that_have_ended_are_deleted_and_failed_ones_after_a_pause() {
    let (of, set) = (Revisions::get(), set(&json!({"type": "OnDelete"})));
    let nodes = run(&["a", "b"]);
    let succeeded = DaemonPod { has_failed: false, ..failed(of.updated("b", "2")) };
    let pods = [failed(of.updated("a", "1")), succeeded];
    let plan_with = |backoff: Backoff<'_>| {
        let plan = plan(input(&set, &nodes, &pods, backoff));
        let ended: Vec<(&str, &str, bool)> =
            plan.ended.iter().map(|ended| (ended.pod, ended.node, ended.has_failed)).collect();
        (format!("{ended:?}"), plan.delete.len(), plan.wait)
    };
    assert_eq!(plan_with(&|_| None), (r#"[("1", "a", true), ("2", "b", false)]"#.to_owned(), 2, None));
    let pause = Some(Duration::from_secs(4));
    assert_eq!(plan_with(&|_| pause), (r#"[("2", "b", false)]"#.to_owned(), 1, pause));
    // With surge, no other pod is created during the pause.
    let surge = rolling(&json!(1), &json!(0));
    let backoff = |_: &str| pause;
    let waiting = plan(input(&surge, &nodes, &pods[..1], &backoff));
    assert_eq!((waiting.create, waiting.delete.len()), (vec!["b"], 0));
}

#[test]
fn limits_are_numbers_or_percentages_rounded_up() {
    for (surge, unavailable, desired, expected) in [
        (json!(0), json!(1), 3, (0, 1)),
        (json!(0), json!("30%"), 10, (0, 3)),
        (json!(0), json!("10%"), 3, (0, 1)),
        (json!("34%"), json!(0), 3, (2, 0)),
        (json!(null), json!(null), 3, (0, 1)),
        (json!(0), json!("0%"), 0, (0, 0)),
    ] {
        let limits = Limits::of(&rolling(&surge, &unavailable), desired);
        assert_eq!((limits.surge, limits.unavailable), expected, "{surge} {unavailable} {desired}");
    }
    let limits = Limits::of(&set(&json!({"type": "OnDelete"})), 3);
    assert_eq!((limits.surge, limits.unavailable), (0, 0));
}

#[test]
fn a_rolling_update_deletes_old_pods_up_to_max_unavailable() {
    let (of, nodes) = (Revisions::get(), run(&["a", "b", "c", "d"]));
    let deleted = |unavailable: i64, pods: &[DaemonPod<'_>]| {
        let (set, mut all) = (rolling(&json!(0), &json!(unavailable)), Vec::new());
        all.extend(plan(input(&set, &nodes, pods, &|_| None)).delete.iter().map(|pod| pod.name.to_owned()));
        all
    };
    let old = [of.old("a", "1"), of.old("b", "2"), of.old("c", "3"), of.old("d", "4")];
    assert_eq!((deleted(1, &old), deleted(2, &old)), (vec!["1".to_owned()], vec!["1".into(), "2".into()]));
    // A new pod that is not available yet, or a pod that is being deleted, uses the limit up.
    let fresh = with(of.updated("a", "1"), |replica| replica.ready_changed = Some(at(NOW - 9)));
    for busy in [unready(of.updated("a", "1")), fresh, terminating(of.old("a", "1"))] {
        assert_eq!(deleted(1, &[busy, old[1], old[2], old[3]]), [""; 0], "{busy:?}");
        assert_eq!(deleted(2, &[busy, old[1], old[2], old[3]]), ["2"], "{busy:?}");
    }
    // An old pod that is not available is replaced at once, and counts.
    assert_eq!(deleted(1, &[old[0], unready(old[1]), old[2], unready(old[3])]), ["2", "4"]);
    let new = [of.updated("a", "1"), of.updated("b", "2"), of.updated("c", "3"), of.updated("d", "4")];
    assert_eq!(deleted(1, &new), [""; 0]);
    // Pods of another revision stay with the strategy OnDelete.
    assert_eq!(planned(&set(&json!({"type": "OnDelete"})), &nodes, &old), (vec![], vec![]));
}

#[test]
fn a_rolling_update_with_surge_creates_new_pods_before_it_deletes_old_ones() {
    let (of, nodes) = (Revisions::get(), run(&["a", "b", "c"]));
    let (one, two) = (rolling(&json!(1), &json!(0)), rolling(&json!(2), &json!(0)));
    let old = [of.old("a", "1"), of.old("b", "2"), of.old("c", "3")];
    assert_eq!(planned(&one, &nodes, &old), (vec!["a"], vec![]));
    assert_eq!(planned(&two, &nodes, &old), (vec!["a", "b"], vec![]));
    let beside = |new: DaemonPod<'static>| [old[0], old[1], old[2], new];
    static NEW: std::sync::LazyLock<Revisions> = std::sync::LazyLock::new(Revisions::get);
    let pending = beside(unbound(NEW.updated("a", "4")));
    assert_eq!(planned(&one, &nodes, &pending), (vec![], vec![]));
    assert_eq!(planned(&two, &nodes, &pending), (vec!["b"], vec![]));
    assert_eq!(planned(&one, &nodes, &beside(NEW.updated("a", "4"))), (vec![], vec!["1"]));
    // An old pod that is not ready is replaced at once, above the limit.
    let broken = [old[0], unready(old[1]), unready(old[2])];
    assert_eq!(planned(&one, &nodes, &broken), (vec!["b", "c", "a"], vec![]));
    // It goes when its successor exists.
    let replaced = [unready(old[1]), unready(of.updated("b", "4"))];
    assert_eq!(planned(&one, &run(&["b"]), &replaced), (vec![], vec!["2"]));
    // A pod that is being deleted does not prevent its successor.
    assert_eq!(planned(&one, &run(&["a"]), &[terminating(old[0])]), (vec!["a"], vec![]));
}

#[test]
fn a_surge_ends_old_pods_on_tainted_nodes_when_enough_others_are_available() {
    let (of, set) = (Revisions::get(), rolling(&json!(1), &json!(0)));
    let nodes = [
        DaemonNode { name: "a", eligibility: Eligibility::Continue },
        DaemonNode { name: "b", eligibility: Eligibility::Run },
    ];
    let old = of.old("a", "1");
    assert_eq!(planned(&set, &nodes, &[old, unready(of.updated("b", "2"))]), (vec![], vec![]));
    assert_eq!(planned(&set, &nodes, &[old, of.updated("b", "2")]), (vec![], vec!["1"]));
    assert_eq!(planned(&set, &nodes, &[unready(old), unready(of.updated("b", "2"))]), (vec![], vec!["1"]));
}

#[test]
fn the_status_counts_nodes() {
    let (of, set) = (Revisions::get(), rolling(&json!(0), &json!(1)));
    let mut nodes = run(&["a", "b", "c", "d"]);
    nodes.push(DaemonNode { name: "e", eligibility: Eligibility::Stop });
    nodes.push(DaemonNode { name: "f", eligibility: Eligibility::Continue });
    let fresh = with(of.updated("b", "2"), |replica| replica.ready_changed = Some(at(NOW - 4)));
    let pods =
        [of.old("a", "1"), fresh, unready(of.updated("c", "3")), of.updated("e", "4"), of.updated("f", "5")];
    let input = input(&set, &nodes, &pods, &|_| None);
    let expected = DaemonSetStatus {
        current_number_scheduled: 3,
        number_misscheduled: 2,
        desired_number_scheduled: 4,
        number_ready: 2,
        observed_generation: 7,
        updated_number_scheduled: 2,
        number_available: 1,
        number_unavailable: 3,
        collision_count: None,
    };
    assert_eq!(status::status(input), expected);
    assert_eq!(status::next_availability(input), Some(Duration::from_secs(6)));
    let mut json = serde_json::Map::from_iter([
        ("conditions".to_owned(), json!([{"type": "Own"}])),
        ("numberAvailable".to_owned(), json!(9)),
    ]);
    DaemonSetStatus::default().write_to(&mut json);
    let expected = json!({
        "conditions": [{"type": "Own"}], "currentNumberScheduled": 0, "numberMisscheduled": 0,
        "desiredNumberScheduled": 0, "numberReady": 0,
    });
    assert_eq!(Value::Object(json), expected);
}

#[test]
fn a_new_pod_is_for_its_node_and_has_the_default_tolerations() {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "Exists"}]});
    let limited = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
    let own = json!({"key": "own", "operator": "Exists"});
    let template = json!({"metadata": {"labels": {"app": "agent"}}, "spec": {
        "hostNetwork": true, "tolerations": [limited, own],
        "affinity": {"podAntiAffinity": {}, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
    }});
    let new = NewPods { template: template.as_object(), hash: "new", generation: Some("3") };
    let pod = new.on("n");
    let expected = json!({"app": "agent", "controller-revision-hash": "new", "pod-template-generation": "3"});
    assert_eq!(pod["metadata"]["labels"], expected);
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["n"]});
    let required = json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    let affinity = &pod["spec"]["affinity"];
    assert_eq!(affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"], required);
    assert_eq!(affinity["podAntiAffinity"], json!({}));
    let tolerations: BTreeMap<&str, &Value> = pod["spec"]["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["key"].as_str().unwrap(), one))
        .collect();
    assert_eq!((tolerations.len(), tolerations["own"]), (8, &own));
    assert_eq!(tolerations["node.kubernetes.io/not-ready"]["tolerationSeconds"], Value::Null);
    assert_eq!(tolerations["node.kubernetes.io/network-unavailable"]["effect"], "NoSchedule");
    // A template without labels, affinity and tolerations. An annotation that is no number is left out.
    let template = json!({"spec": {"containers": []}});
    let pod = NewPods { template: template.as_object(), hash: "new", generation: Some("x") }.on("n");
    assert_eq!(pod["metadata"]["labels"], json!({"controller-revision-hash": "new"}));
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 6);
}
