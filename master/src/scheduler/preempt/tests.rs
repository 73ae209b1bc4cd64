//! Tests of preemption.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::scheduler::fixtures::{decoded, find, node_with, pod_with, put, required_affinity, three_nodes};
use crate::scheduler::schedule_one::{ScheduleResult, Scoring, schedule_pod};

/// A pod with this priority and CPU request.
fn of(name: &str, priority: i64, cpu: &str, mut spec: Value) -> Pod {
    spec["priority"] = priority.into();
    pod_with(name, json!({"cpu": cpu}), json!({"app": name.split('-').next()}), spec)
}

fn plain(name: &str, priority: i64, cpu: &str) -> Pod {
    of(name, priority, cpu, json!({}))
}

/// A pod that started at this hour.
fn since(name: &str, priority: i64, cpu: &str, hour: u8) -> Pod {
    Pod { start_time: format!("2026-01-01T{hour:02}:00:00Z").parse().ok(), ..plain(name, priority, cpu) }
}

fn budget(app: &str, allowed: i64) -> Budget {
    let budget = json!({
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    });
    Budget::of(decoded(budget))
}

fn room(cluster: &mut Cluster, pod: &Pod, budgets: &[Budget]) -> Option<PreemptionResult> {
    let mut all = Budgets::default();
    all.replace(budgets.to_vec());
    cluster.count_terms_of(pod);
    let mut rotation = Rotation::default();
    match schedule_pod(cluster, pod, &Scoring::default(), &mut rotation) {
        ScheduleResult::Node(_) => None,
        ScheduleResult::Unschedulable(fit_error) => Some(find(cluster, pod, &fit_error, &all, &mut rotation)),
    }
}

/// The node and its victims, or the message.
fn preemption_message(cluster: &mut Cluster, pod: &Pod, budgets: &[Budget]) -> String {
    match room(cluster, pod, budgets) {
        None => "it fits".to_owned(),
        Some(PreemptionResult::Victims(Candidate { node, victims, violations })) => {
            let name = &cluster.node(node).unwrap().1.name;
            let mut text = victims.iter().fold(format!("{name}:"), |mut text, victim| {
                write!(text, " {}", victim.name).unwrap();
                text
            });
            if violations > 0 {
                write!(text, ", {violations} broken").unwrap();
            }
            text
        }
        Some(other) => other.message().unwrap().to_owned(),
    }
}

/// A cluster of three nodes with 4 cores each, and these pods.
fn with(pods: &[(&str, &Pod)]) -> Cluster {
    let mut cluster = three_nodes();
    pods.iter().for_each(|(node, pod)| put(&mut cluster, (*pod).clone(), node));
    cluster
}

#[test]
fn preemption_selects_the_fewest_victims_of_lowest_priority() {
    let high = plain("high", 100, "3");
    let cases: &[(&[(&str, Pod)], &str)] = &[
        // Pods that still fit are reprieved, the most important first.
        (
            &[
                ("a", plain("1", 1, "2")),
                ("a", plain("2", 2, "1")),
                ("a", plain("3", 3, "1")),
                ("b", plain("4", 200, "4")),
                ("c", plain("5", 100, "4")),
            ],
            "a: 2 1",
        ),
        // The lowest highest priority.
        (
            &[
                ("a", plain("1", 3, "4")),
                ("b", plain("2", 1, "2")),
                ("b", plain("3", 2, "2")),
                ("c", plain("4", 3, "4")),
            ],
            "b: 3 2",
        ),
        // The lowest sum of priorities, which also means the fewest victims of equal priority.
        (
            &[
                ("a", plain("1", 3, "4")),
                ("b", plain("2", 3, "2")),
                ("b", plain("3", 2, "2")),
                ("c", plain("4", 9, "4")),
            ],
            "a: 1",
        ),
        // The latest start time.
        (&[("a", since("1", 3, "4", 1)), ("b", since("2", 3, "4", 5)), ("c", since("3", 3, "4", 2))], "b: 2"),
    ];
    for (pods, expected) in cases {
        let pods: Vec<(&str, &Pod)> = pods.iter().map(|(node, pod)| (*node, pod)).collect();
        assert_eq!(preemption_message(&mut with(&pods), &high, &[]), *expected, "{pods:?}");
    }
}

#[test]
fn preemption_avoids_budget_violations_if_possible() {
    let (high, web, db) = (plain("high", 100, "3"), plain("web", 1, "4"), plain("db", 50, "4"));
    let full = plain("full", 100, "4");
    let mut cluster = with(&[("a", &web), ("b", &db), ("c", &full)]);
    assert_eq!(preemption_message(&mut cluster, &high, &[]), "a: web");
    assert_eq!(preemption_message(&mut cluster, &high, &[budget("web", 1)]), "a: web");
    assert_eq!(preemption_message(&mut cluster, &high, &[budget("web", 0)]), "b: db");
    assert_eq!(
        preemption_message(&mut cluster, &high, &[budget("web", 0), budget("db", 0)]),
        "a: web, 1 broken"
    );
    // On one node, pods without a PDB violation are evicted first, whatever their priority.
    let (one, two) = (plain("web-1", 1, "2"), plain("db-1", 50, "2"));
    let mut cluster =
        with(&[("a", &one), ("a", &two), ("b", &full), ("c", &Pod { uid: "c".into(), ..full.clone() })]);
    let half = plain("half", 100, "2");
    assert_eq!(preemption_message(&mut cluster, &half, &[]), "a: web-1");
    assert_eq!(preemption_message(&mut cluster, &half, &[budget("web", 0)]), "a: db-1");
}

#[test]
fn preemption_skips_nodes_where_it_does_not_help() {
    let none = "0/3 nodes are available:";
    let never = of("never", 100, "3", json!({"preemptionPolicy": "Never"}));
    let low = |name: &str| plain(name, 1, "4");
    let mut cluster = with(&[("a", &low("1")), ("b", &low("2")), ("c", &low("3"))]);
    assert_eq!(preemption_message(&mut cluster, &never, &[]), "not eligible due to preemptionPolicy=Never.");
    let same = format!("{none} 3 No preemption victims found for incoming pod.");
    assert_eq!(preemption_message(&mut cluster, &plain("same", 1, "3"), &[]), same);
    let elsewhere = of("elsewhere", 100, "3", json!({"nodeSelector": {"zone": "z"}}));
    let not_helpful = format!("{none} 3 Preemption is not helpful for scheduling.");
    assert_eq!(preemption_message(&mut cluster, &elsewhere, &[]), not_helpful);
    for name in ["a", "b"] {
        let taint = json!({"taints": [{"key": "k", "effect": "NoSchedule"}]});
        cluster.put_node(node_with(name, "x", taint));
    }
    assert_eq!(preemption_message(&mut cluster, &plain("high", 100, "3"), &[]), "c: 3");
    // A pod of higher priority uses most of it.
    let mut cluster = with(&[
        ("a", &plain("1", 200, "3")),
        ("a", &plain("2", 1, "1")),
        ("b", &plain("3", 200, "4")),
        ("c", &plain("4", 200, "4")),
    ]);
    let still = format!("{none} 1 Insufficient cpu, 2 No preemption victims found for incoming pod.");
    assert_eq!(preemption_message(&mut cluster, &plain("high", 100, "3"), &[]), still);
}

#[test]
fn preemption_selects_no_mirror_pods() {
    let mirror = |name: &str, cpu: &str| {
        let annotations = json!({"kubernetes.io/config.mirror": "x"});
        let pod = json!({"metadata": {"name": name, "annotations": annotations}});
        Pod { is_mirror: Pod::of(decoded(pod)).is_mirror, ..plain(name, 1, cpu) }
    };
    let mut cluster = with(&[("a", &mirror("1", "4")), ("b", &mirror("2", "4")), ("c", &mirror("3", "2"))]);
    assert_eq!(cluster.lowest_priority(), None);
    let no_victims = "0/3 nodes are available: 3 No preemption victims found for incoming pod.";
    assert_eq!(preemption_message(&mut cluster, &plain("high", 100, "3"), &[]), no_victims);
    put(&mut cluster, plain("low", 1, "2"), "c");
    assert_eq!(preemption_message(&mut cluster, &plain("half", 100, "2"), &[]), "c: low");
    let still =
        "0/3 nodes are available: 1 Insufficient cpu, 2 No preemption victims found for incoming pod.";
    assert_eq!(preemption_message(&mut cluster, &plain("high", 100, "3"), &[]), still);
}

#[test]
fn preemption_selects_pods_with_conflicting_anti_affinity() {
    let required_anti_affinity = required_affinity("podAntiAffinity", "web", "zone");
    let (web, other, kept) = (plain("web", 1, "1"), plain("other", 1, "1"), plain("web-kept", 200, "1"));
    let mut cluster = with(&[("a", &web), ("a", &other), ("c", &kept)]);
    // In zone x the conflicting pod is on another node, which preemption on `b` cannot resolve.
    assert_eq!(
        preemption_message(&mut cluster, &of("high", 100, "1", required_anti_affinity), &[]),
        "a: web"
    );
    let repels = of("repels", 1, "1", required_affinity("podAntiAffinity", "high", "kubernetes.io/hostname"));
    let full = |name: &str| plain(name, 200, "4");
    let mut cluster = with(&[("a", &repels), ("b", &full("1")), ("c", &full("2"))]);
    assert_eq!(preemption_message(&mut cluster, &plain("high", 100, "1"), &[]), "a: repels");
}

#[test]
fn nominated_node_is_reserved_for_its_preemptor() {
    let (low, full) = (plain("low", 1, "4"), plain("full", 200, "4"));
    let mut cluster = with(&[("a", &low), ("b", &full), ("c", &Pod { uid: "c".into(), ..full.clone() })]);
    let high = Arc::new(plain("high", 100, "3"));
    assert_eq!(preemption_message(&mut cluster, &high, &[]), "a: low");
    cluster.nominated_pods_mut().nominate(high.clone(), "a");
    // For pods of the same priority the nomination counts.
    let none = "0/3 nodes are available: 1 Insufficient cpu, 2 No preemption victims found for incoming pod.";
    assert_eq!(preemption_message(&mut cluster, &plain("as-high", 100, "3"), &[]), none);
    assert_eq!(preemption_message(&mut cluster, &plain("higher", 101, "3"), &[]), "a: low");
    assert_eq!(cluster.nominated_pods().less_important_on(&plain("higher", 101, "3"), "a").len(), 1);
    // While a victim is terminating, no further pod is preempted.
    let going = Pod { is_preempted: true, ..of("low", 1, "4", json!({})) };
    let mut ending = going.clone();
    Arc::make_mut(&mut ending.spec).is_terminating = true;
    put(&mut cluster, ending, "a");
    assert_eq!(
        preemption_message(&mut cluster, &high, &[]),
        "not eligible due to a terminating pod on the nominated node."
    );
    cluster.remove_pod("low");
    assert_ne!(preemption_message(&mut cluster, &plain("later", 1, "2"), &[]), "it fits");
    assert_eq!(preemption_message(&mut cluster, &plain("small", 1, "1"), &[]), "it fits");
    assert_eq!(preemption_message(&mut cluster, &high, &[]), "it fits");
    cluster.nominated_pods_mut().remove("high");
    assert_eq!(preemption_message(&mut cluster, &plain("later", 1, "2"), &[]), "it fits");
}

#[test]
fn nomination_of_the_server_replaces_the_local_one() {
    let mut nominated_pods = crate::scheduler::nominated_pods::NominatedPods::default();
    let nominated = |node: &str| Arc::new(Pod { nominated_node: node.to_owned(), ..plain("p", 1, "1") });
    nominated_pods.nominate(nominated(""), "a");
    nominated_pods.update(&nominated(""));
    assert_eq!(nominated_pods.node_for("p"), Some("a"), "the server does not know yet");
    nominated_pods.update(&nominated("a"));
    nominated_pods.update(&nominated("b"));
    assert_eq!(nominated_pods.node_for("p"), Some("b"));
    nominated_pods.update(&nominated(""));
    assert_eq!(nominated_pods.node_for("p"), None);
}

proptest! {
    #[test]
    fn victims_are_minimal_and_of_lower_priority(
        pods in proptest::collection::vec((0_usize..3, 0_i64..6, 1_i64..5), 0..14),
        (priority, cpu) in (0_i64..6, 1_i64..5),
    ) {
        let mut cluster = three_nodes();
        for (number, (node, priority, cpu)) in pods.iter().enumerate() {
            let pod = plain(&format!("p{number}"), *priority, &cpu.to_string());
            let name = ["a", "b", "c"][*node];
            let has_room = cluster.node_named(name).is_some_and(|(_, node_info, _)| node_info.requested.cpu_milli + cpu * 1000 <= 4000);
            if has_room {
                put(&mut cluster, pod, name);
            }
        }
        let pod = plain("new", priority, &cpu.to_string());
        let counts = |cluster: &Cluster| -> Vec<(i64, i64, usize)> {
            cluster.nodes().map(|(_, node_info, _)| (node_info.requested.cpu_milli, node_info.pod_count, node_info.pods.len())).collect()
        };
        let before = counts(&cluster);
        let found = room(&mut cluster, &pod, &[]);
        prop_assert_eq!(counts(&cluster), before);
        if let Some(PreemptionResult::Victims(Candidate { node, victims, .. })) = found {
            prop_assert!(victims.iter().all(|victim| victim.spec.priority < priority));
            let used = cluster.node(node).unwrap().0.requested.cpu_milli;
            let sizes: Vec<i64> = victims.iter().map(|victim| victim.spec.requests.cpu_milli).collect();
            let freed: i64 = sizes.iter().sum();
            prop_assert!(used - freed + cpu * 1000 <= 4000);
            for size in sizes {
                prop_assert!(used - freed + size + cpu * 1000 > 4000, "one of them need not have gone");
            }
        }
    }
}
