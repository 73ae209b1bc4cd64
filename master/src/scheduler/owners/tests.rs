//! What a pod is spread by that says nothing of it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use super::*;
use crate::scheduler::place::Manner;
use crate::scheduler::samples::{node, pod_with, put, three};
use crate::scheduler::score::scores;

fn one(name: &str, selector: Value) -> Selecting {
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    Selecting::of(json!({"metadata": metadata, "spec": {"selector": selector}}).as_object().unwrap())
}

fn pod(name: &str, labels: Value, owner: &str) -> Pod {
    Pod { owner: owner.to_owned(), ..pod_with(name, json!({}), labels, json!({})) }
}

#[test]
fn services_and_the_set_that_made_a_pod_say_of_what_kind_it_is() {
    let mut owners = Owners::default();
    owners.put(Part::Services, one("web", json!({"app": "web"})));
    owners.put(Part::Services, one("all", json!({"matchLabels": "no"})));
    owners.put(Part::Services, one("none", json!({})));
    owners.put(Part::ReplicaSets, one("set", json!({"matchLabels": {"app": "web", "hash": "1"}})));
    owners.put(Part::Controllers, one("old", json!({"app": "old"})));
    let labels = json!({"app": "web", "hash": "1"});
    let selects = |owners: &Owners, pod: &Pod| -> Vec<String> {
        let spread = owners.spread(pod);
        let requirements = spread.first().map(|spread| spread.term.clauses[0].selector.0.clone());
        requirements.unwrap_or_default().iter().map(|of| format!("{of:?}")).collect()
    };
    assert_eq!(selects(&owners, &pod("p", json!({"app": "db"}), "")), [""; 0]);
    assert_eq!(selects(&owners, &pod("p", labels.clone(), "")), ["In(\"app\", [\"web\"])"]);
    let both = ["In(\"app\", [\"web\"])", "In(\"hash\", [\"1\"])"];
    assert_eq!(selects(&owners, &pod("p", labels.clone(), "set")), both);
    assert_eq!(selects(&owners, &pod("p", json!({"app": "old"}), "old")), ["In(\"app\", [\"old\"])"]);
    let keys: Vec<(String, i64)> = owners
        .spread(&pod("p", labels.clone(), "set"))
        .iter()
        .map(|spread| (spread.term.key.clone(), spread.max_skew))
        .collect();
    assert_eq!(
        keys,
        [("kubernetes.io/hostname".to_owned(), 3), ("topology.kubernetes.io/zone".to_owned(), 5)]
    );
    owners.remove(Part::Services, &one("web", json!({})));
    assert_eq!(selects(&owners, &pod("p", labels.clone(), "")), [""; 0]);
    owners.replace(Part::ReplicaSets, Vec::new());
    assert_eq!(selects(&owners, &pod("p", labels, "set")), [""; 0]);
}

#[test]
fn rather_where_fewer_of_its_like_are_though_a_node_has_no_zone() {
    let mut cluster = three();
    for (name, zone) in [("a", "x"), ("b", "y")] {
        let mut node = node(name, zone);
        node.labels.insert("topology.kubernetes.io/zone".to_owned(), zone.to_owned());
        cluster.put_node(node);
    }
    let mut owners = Owners::default();
    owners.put(Part::Services, one("web", json!({"app": "web"})));
    let web = |name: &str| pod(name, json!({"app": "web"}), "");
    for count in 0..3 {
        put(&mut cluster, web(&format!("web-{count}")), "a");
        put(&mut cluster, pod(&format!("db-{count}"), json!({"app": "db"}), ""), "b");
        put(&mut cluster, pod(&format!("db-c-{count}"), json!({"app": "db"}), ""), "c");
    }
    let new = web("new");
    let usual = owners.spread(&new);
    cluster.learn_terms(usual.iter().map(|spread| &spread.term));
    let spread = scores(&cluster, &new, &Manner { usual: &usual, ..Manner::default() }, &[0, 1, 2]);
    assert!(spread[0] < spread[1] && spread[1] < spread[2], "{spread:?}");
    let alike = scores(&cluster, &new, &Manner::default(), &[0, 1, 2]);
    assert!(alike[0] == alike[1] && alike[1] == alike[2], "{alike:?}");
}
