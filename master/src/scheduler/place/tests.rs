//! Where pods go, and what is said when they go nowhere.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::scheduler::preempt::Budgets;
use crate::scheduler::samples::{find, node, node_with, pod, pod_with, put, three};

fn placed(cluster: &mut Cluster, pod: &Pod, turn: &mut Turn) -> Placement {
    cluster.learn(pod);
    place(cluster, pod, &Manner::default(), turn)
}

fn words(cluster: &mut Cluster, pod: &Pod) -> String {
    match placed(cluster, pod, &mut Turn::default()) {
        Placement::On(node) => panic!("on {node}"),
        Placement::Nowhere(refusal) => {
            let room = find(cluster, pod, &refusal, &Budgets::default(), &mut Turn::default());
            refusal.words(room.words())
        }
    }
}

#[test]
fn a_pod_that_goes_nowhere_is_told_why_in_the_stock_words() {
    let mut cluster = three();
    let asks = |cpu: &str| pod_with("p", json!({"cpu": cpu}), json!({}), json!({}));
    put(&mut cluster, pod_with("1", json!({"cpu": "2"}), json!({}), json!({})), "a");
    cluster.put_node(node_with("b", "x", json!({"taints": [{"key": "k", "effect": "NoSchedule"}]})));
    cluster.put_node(node_with("c", "y", json!({"unschedulable": true})));
    assert_eq!(
        words(&mut cluster, &asks("3")),
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {k: }, 1 node(s) were unschedulable. \
         preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, 2 Preemption is not helpful for \
         scheduling."
    );
    assert_eq!(
        words(&mut three(), &asks("5")),
        "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 Preemption is not helpful for \
         scheduling."
    );
    assert_eq!(words(&mut Cluster::default(), &asks("1")), "no nodes available to schedule pods");
}

#[test]
fn a_pod_that_names_its_nodes_is_told_of_the_others_together() {
    let mut cluster = three();
    let of = |requests: serde_json::Value, terms: serde_json::Value| {
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        pod_with("p", requests, json!({}), json!({"affinity": affinity}))
    };
    let names = |names: &[&str]| json!({"key": "metadata.name", "operator": "In", "values": names});
    let one = |name: &str| json!([{"matchFields": [names(&["a", name]), names(&[name])]}]);
    let said = words(&mut cluster, &of(json!({"cpu": "5"}), one("b")));
    let why = "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].";
    assert!(said.starts_with(&format!("0/3 nodes are available: {why} preemption: ")), "{said}");
    let mut turn = Turn::default();
    assert_eq!(placed(&mut cluster, &of(json!({}), one("b")), &mut turn), Placement::On("b".to_owned()));
    // One that is not there, one that is nobody's, and where one of several may be any.
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
        let said = words(&mut cluster, &of(json!({}), terms));
        assert!(said.starts_with(&format!("0/3 nodes are available: {expected}.")), "{said}");
    }
}

#[test]
fn pods_that_are_alike_go_to_all_nodes() {
    let mut cluster = three();
    let mut turn = Turn::default();
    for count in 0..9 {
        let pod = pod_with(&format!("p{count}"), json!({"cpu": "500m"}), json!({}), json!({}));
        let Placement::On(node) = placed(&mut cluster, &pod, &mut turn) else { panic!("nowhere") };
        cluster.put_pod(Arc::new(pod), &node, true);
    }
    let counts: Vec<i64> = cluster.nodes().map(|(_, slot, _)| slot.pods).collect();
    assert_eq!(counts, [3, 3, 3]);
}

#[test]
fn of_many_nodes_some_are_looked_at_and_all_get_their_turn() {
    assert_eq!([0, 3, 99, 100, 250, 1000, 5000, 10_000].map(enough), [1, 3, 99, 100, 120, 420, 500, 500]);
    let mut cluster = Cluster::default();
    (0..300).for_each(|count| assert!(cluster.put_node(node(&format!("n{count}"), "x")).is_some()));
    let (mut turn, mut seen) = (Turn::default(), BTreeSet::new());
    for count in 0..300 {
        let pod = pod(&format!("p{count}"), json!({}));
        let Placement::On(node) = placed(&mut cluster, &pod, &mut turn) else { panic!("nowhere") };
        cluster.put_pod(Arc::new(pod), &node, true);
        seen.insert(node);
    }
    assert!(seen.len() > 250, "{}", seen.len());
}

#[test]
fn what_extenders_leave_is_scored_among_itself() {
    let mut cluster = three();
    let rather = |weight: i64, name: &str| {
        let is = json!([{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]);
        json!({"weight": weight, "preference": {"matchExpressions": is}})
    };
    let preferred = json!([rather(100, "a"), rather(10, "b")]);
    let spec =
        json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}});
    let (pod, mut turn, manner) = (pod("p", spec), Turn::default(), Manner::default());
    let choices = choices(&mut cluster, &pod, &mut turn);
    // Of 2 times 100 that the best of a view has, `b` has all once `a` is out.
    let scores = [("b", 0), ("c", 150)].map(|(name, score)| (name.to_owned(), score));
    let opinion = Opinion { scores: scores.into(), refused: Vec::new() };
    let chosen = choose(&mut cluster, &pod, choices, (&opinion, &manner), &mut turn);
    assert_eq!(chosen, Chosen::Placed(Placement::On("b".to_owned())));
}

#[test]
fn of_many_nodes_those_that_are_looked_at_are_of_all_zones() {
    let mut cluster = Cluster::default();
    for count in 0..300 {
        let mut node = node(&format!("n{count:03}"), "x");
        let zone = if count < 200 { "x" } else { "y" };
        node.labels.insert("topology.kubernetes.io/zone".to_owned(), zone.to_owned());
        cluster.put_node(node);
    }
    let mut turn = Turn::default();
    let found = choices(&mut cluster, &pod("p", json!({})), &mut turn).nodes;
    let in_y = found.iter().filter(|name| name.as_str() >= "n200").count();
    assert_eq!((found.len(), in_y), (144, 72));
    // Those that came last are looked at next, and one that moves is where it is then.
    cluster.remove_node("n299");
    let rest = choices(&mut cluster, &pod("p", json!({})), &mut turn).nodes;
    assert_eq!((rest.first().unwrap().as_str(), rest.contains(&"n299".to_owned())), ("n072", false));
}

proptest! {
    #[test]
    fn no_node_gives_more_than_it_has_and_what_fits_is_placed(
        steps in proptest::collection::vec((0_i64..5000, 0_i64..9000, any::<bool>(), 0_u8..8), 1..60),
    ) {
        let (mut cluster, mut turn) = (three(), Turn::default());
        for (count, (cpu, memory, is_web, goes)) in steps.into_iter().enumerate() {
            if goes == 0 {
                let first = cluster.pods().min().map(str::to_owned);
                first.iter().for_each(|uid| drop(cluster.remove_pod(uid)));
                continue;
            }
            let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
            let app = if is_web { "web" } else { "db" };
            let pod = pod_with(&format!("p{count:02}"), requests, json!({"app": app}), json!({}));
            let asked = pod.wants.requests.clone();
            let fits = cluster.nodes().any(|(_, slot, node)| {
                slot.pods < node.most_pods
                    && slot.used.cpu_milli + asked.cpu_milli <= node.allocatable.cpu_milli
                    && slot.used.memory + asked.memory <= node.allocatable.memory
            });
            match placed(&mut cluster, &pod, &mut turn) {
                Placement::On(node) => {
                    prop_assert!(fits);
                    cluster.put_pod(Arc::new(pod), &node, true);
                }
                Placement::Nowhere(_) => prop_assert!(!fits),
            }
            for (_, slot, node) in cluster.nodes() {
                prop_assert!(slot.pods <= node.most_pods);
                prop_assert!(slot.used.cpu_milli <= node.allocatable.cpu_milli);
                prop_assert!(slot.used.memory <= node.allocatable.memory);
            }
        }
        let all: Vec<String> = cluster.pods().map(str::to_owned).collect();
        all.iter().for_each(|uid| drop(cluster.remove_pod(uid)));
        for (_, slot, _) in cluster.nodes() {
            prop_assert_eq!((slot.pods, slot.used.cpu_milli, slot.scored.memory), (0, 0, 0));
        }
    }
}
