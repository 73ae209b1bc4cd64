//! Tests of scheduling results and messages.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::scheduler::fixtures::{find, node, node_with, pod, pod_with, put, set_label, three_nodes};
use crate::scheduler::preempt::Budgets;

fn placed(cluster: &mut Cluster, pod: &Pod, rotation: &mut Rotation) -> ScheduleResult {
    cluster.count_terms_of(pod);
    schedule_pod(cluster, pod, &Scoring::default(), rotation)
}

fn words(cluster: &mut Cluster, pod: &Pod) -> String {
    match placed(cluster, pod, &mut Rotation::default()) {
        ScheduleResult::Node(node) => panic!("on {node}"),
        ScheduleResult::Unschedulable(fit_error) => {
            let room = find(cluster, pod, &fit_error, &Budgets::default(), &mut Rotation::default());
            fit_error.message(room.message())
        }
    }
}

#[test]
fn unschedulable_pod_gets_the_stock_message() {
    let mut cluster = three_nodes();
    let requesting = |cpu: &str| pod_with("p", json!({"cpu": cpu}), json!({}), json!({}));
    put(&mut cluster, pod_with("1", json!({"cpu": "2"}), json!({}), json!({})), "a");
    cluster.put_node(node_with("b", "x", json!({"taints": [{"key": "k", "effect": "NoSchedule"}]})));
    cluster.put_node(node_with("c", "y", json!({"unschedulable": true})));
    assert_eq!(
        words(&mut cluster, &requesting("3")),
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {k: }, 1 node(s) were unschedulable. \
         preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for \
         scheduling."
    );
    assert_eq!(
        words(&mut three_nodes(), &requesting("5")),
        "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 Preemption is not helpful for \
         scheduling."
    );
    assert_eq!(words(&mut Cluster::default(), &requesting("1")), "no nodes available to schedule pods");
}

#[test]
fn fit_error_groups_the_nodes_outside_match_fields() {
    let mut cluster = three_nodes();
    let of = |requests: serde_json::Value, terms: serde_json::Value| {
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        pod_with("p", requests, json!({}), json!({"affinity": affinity}))
    };
    let names = |names: &[&str]| json!({"key": "metadata.name", "operator": "In", "values": names});
    let one = |name: &str| json!([{"matchFields": [names(&["a", name]), names(&[name])]}]);
    let fit_message = words(&mut cluster, &of(json!({"cpu": "5"}), one("b")));
    let reason = "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    assert!(
        fit_message.starts_with(&format!("0/3 nodes are available: {reason} preemption: ")),
        "{fit_message}"
    );
    let mut rotation = Rotation::default();
    assert_eq!(
        placed(&mut cluster, &of(json!({}), one("b")), &mut rotation),
        ScheduleResult::Node("b".to_owned())
    );
    // A missing node, contradicting terms, and terms that do not all name a node.
    for (terms, expected) in [
        (one("z"), "3 node(s) didn't satisfy plugin(s) [NodeAffinity]"),
        (
            json!([{"matchFields": [names(&["a"]), names(&["b"])]}]),
            "3 node(s) didn't match Pod's node affinity/selector",
        ),
        (
            json!([{"matchFields": [names(&["z"])]}, {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["z"]}]}]),
            "3 node(s) didn't match Pod's node affinity/selector",
        ),
    ] {
        let fit_message = words(&mut cluster, &of(json!({}), terms));
        assert!(fit_message.starts_with(&format!("0/3 nodes are available: {expected}.")), "{fit_message}");
    }
}

#[test]
fn equal_pods_are_spread_over_all_nodes() {
    let mut cluster = three_nodes();
    let mut rotation = Rotation::default();
    for count in 0..9 {
        let pod = pod_with(&format!("p{count}"), json!({"cpu": "500m"}), json!({}), json!({}));
        let ScheduleResult::Node(node) = placed(&mut cluster, &pod, &mut rotation) else { panic!("nowhere") };
        cluster.put_pod(Arc::new(pod), &node, true);
    }
    let counts: Vec<i64> = cluster.nodes().map(|(_, node_info, _)| node_info.pod_count).collect();
    assert_eq!(counts, [3, 3, 3]);
}

#[test]
fn large_clusters_are_sampled_and_every_node_is_sampled_in_turn() {
    assert_eq!(
        [0, 3, 99, 100, 250, 1000, 5000, 10_000].map(feasible_nodes_wanted),
        [1, 3, 99, 100, 120, 420, 500, 500]
    );
    let mut cluster = Cluster::default();
    (0..300).for_each(|count| assert!(cluster.put_node(node(&format!("n{count}"), "x")).is_some()));
    let (mut rotation, mut seen) = (Rotation::default(), BTreeSet::new());
    for count in 0..300 {
        let pod = pod(&format!("p{count}"), json!({}));
        let ScheduleResult::Node(node) = placed(&mut cluster, &pod, &mut rotation) else { panic!("nowhere") };
        cluster.put_pod(Arc::new(pod), &node, true);
        seen.insert(node);
    }
    assert!(seen.len() > 250, "{}", seen.len());
}

#[test]
fn scores_are_normalized_over_the_nodes_that_extenders_accept() {
    let mut cluster = three_nodes();
    let soft = |weight: i64, name: &str| {
        let is = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]);
        json!({"weight": weight, "preference": {"matchExpressions": is}})
    };
    let preferred = json!([soft(100, "a"), soft(10, "b")]);
    let spec =
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}});
    let (pod, mut rotation, scoring) = (pod("p", spec), Rotation::default(), Scoring::default());
    let feasible = find_feasible_nodes(&mut cluster, &pod, &mut rotation);
    // The best score is 2 times 100, and `b` gets all of it once `a` is rejected.
    let scores = [("b", 0), ("c", 150)].map(|(name, score)| (name.to_owned(), score));
    let results = ExtenderResults { scores: scores.into(), refused: Vec::new() };
    let chosen = select_after_extenders(&mut cluster, &pod, feasible, (&results, &scoring), &mut rotation);
    assert_eq!(chosen, Selection::Done(ScheduleResult::Node("b".to_owned())));
}

#[test]
fn sampled_nodes_are_from_all_zones() {
    let mut cluster = Cluster::default();
    for count in 0..300 {
        let mut node = node(&format!("n{count:03}"), "x");
        let zone = if count < 200 { "x" } else { "y" };
        set_label(&mut node, "topology.kubernetes.io/zone", zone);
        cluster.put_node(node);
    }
    let mut rotation = Rotation::default();
    let found = find_feasible_nodes(&mut cluster, &pod("p", json!({})), &mut rotation).nodes;
    let in_y = found.iter().filter(|name| name.as_str() >= "n200").count();
    assert_eq!((found.len(), in_y), (144, 72));
    // The search continues where it ended, and the order follows removed nodes.
    cluster.remove_node("n299");
    let rest = find_feasible_nodes(&mut cluster, &pod("p", json!({})), &mut rotation).nodes;
    assert_eq!((rest.first().unwrap().as_str(), rest.contains(&"n299".to_owned())), ("n072", false));
}

proptest! {
    #[test]
    fn scheduler_never_overcommits_a_node_and_binds_fitting_pods(
        steps in proptest::collection::vec((0_i64..5000, 0_i64..9000, any::<bool>(), 0_u8..8), 1..60),
    ) {
        let (mut cluster, mut rotation) = (three_nodes(), Rotation::default());
        for (count, (cpu, memory, is_web, goes)) in steps.into_iter().enumerate() {
            if goes == 0 {
                let first = cluster.pods().min().map(str::to_owned);
                first.iter().for_each(|uid| drop(cluster.remove_pod(uid)));
                continue;
            }
            let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
            let app = if is_web { "web" } else { "db" };
            let pod = pod_with(&format!("p{count:02}"), requests, json!({"app": app}), json!({}));
            let pod_requests = pod.spec.requests.clone();
            let fits = cluster.nodes().any(|(_, node_info, node)| {
                node_info.pod_count < node.allowed_pods
                    && node_info.requested.cpu_milli + pod_requests.cpu_milli <= node.allocatable.cpu_milli
                    && node_info.requested.memory + pod_requests.memory <= node.allocatable.memory
            });
            match placed(&mut cluster, &pod, &mut rotation) {
                ScheduleResult::Node(node) => {
                    prop_assert!(fits);
                    cluster.put_pod(Arc::new(pod), &node, true);
                }
                ScheduleResult::Unschedulable(_) => prop_assert!(!fits),
            }
            for (_, node_info, node) in cluster.nodes() {
                prop_assert!(node_info.pod_count <= node.allowed_pods);
                prop_assert!(node_info.requested.cpu_milli <= node.allocatable.cpu_milli);
                prop_assert!(node_info.requested.memory <= node.allocatable.memory);
            }
        }
        let all: Vec<String> = cluster.pods().map(str::to_owned).collect();
        all.iter().for_each(|uid| drop(cluster.remove_pod(uid)));
        for (_, node_info, _) in cluster.nodes() {
            prop_assert_eq!((node_info.pod_count, node_info.requested.cpu_milli, node_info.non_zero_requested.memory), (0, 0, 0));
        }
    }
}
