//! Tests of default topology spread constraints.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use super::*;
use crate::scheduler::fixtures::{decoded, node, pod_with, put, set_label, three_nodes};
use crate::scheduler::schedule_one::Scoring;
use crate::scheduler::score::scores;

fn one(name: &str, selector: Value) -> SelectorSource {
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    SelectorSource::of_labels(decoded(json!({"metadata": metadata, "spec": {"selector": selector}})))
}

fn workload(name: &str, selector: Value) -> SelectorSource {
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    SelectorSource::of_selector(decoded(json!({"metadata": metadata, "spec": {"selector": selector}})))
}

fn pod(name: &str, labels: Value, owner: &str) -> Pod {
    Pod { owner: owner.to_owned(), ..pod_with(name, json!({}), labels, json!({})) }
}

#[test]
fn default_spread_selectors_come_from_services_and_owners() {
    let mut selector_sources = SelectorSources::default();
    selector_sources.put(InformerKind::Services, one("web", json!({"app": "web"})));
    selector_sources.put(InformerKind::Services, one("all", json!({"matchLabels": "no"})));
    selector_sources.put(InformerKind::Services, one("none", json!({})));
    selector_sources
        .put(InformerKind::ReplicaSets, workload("set", json!({"matchLabels": {"app": "web", "hash": "1"}})));
    selector_sources.put(InformerKind::Controllers, one("old", json!({"app": "old"})));
    let labels = json!({"app": "web", "hash": "1"});
    let matches = |selector_sources: &SelectorSources, pod: &Pod| -> Vec<String> {
        let spread = selector_sources.spread(pod);
        let requirements = spread.first().map(|spread| spread.term.pod_selectors[0].selector.0.clone());
        requirements.unwrap_or_default().iter().map(|of| format!("{of:?}")).collect()
    };
    assert_eq!(matches(&selector_sources, &pod("p", json!({"app": "db"}), "")), [""; 0]);
    assert_eq!(matches(&selector_sources, &pod("p", labels.clone(), "")), ["In(\"app\", [\"web\"])"]);
    let both = ["In(\"app\", [\"web\"])", "In(\"hash\", [\"1\"])"];
    assert_eq!(matches(&selector_sources, &pod("p", labels.clone(), "set")), both);
    assert_eq!(
        matches(&selector_sources, &pod("p", json!({"app": "old"}), "old")),
        ["In(\"app\", [\"old\"])"]
    );
    let keys: Vec<(String, i64)> = selector_sources
        .spread(&pod("p", labels.clone(), "set"))
        .iter()
        .map(|spread| (spread.term.key.clone(), spread.max_skew))
        .collect();
    assert_eq!(
        keys,
        [("kubernetes.io/hostname".to_owned(), 3), ("topology.kubernetes.io/zone".to_owned(), 5)]
    );
    selector_sources.remove(InformerKind::Services, &one("web", json!({})));
    assert_eq!(matches(&selector_sources, &pod("p", labels.clone(), "")), [""; 0]);
    selector_sources.replace(InformerKind::ReplicaSets, Vec::new());
    assert_eq!(matches(&selector_sources, &pod("p", labels, "set")), [""; 0]);
}

#[test]
fn default_spreading_scores_nodes_without_a_zone() {
    let mut cluster = three_nodes();
    for (name, zone) in [("a", "x"), ("b", "y")] {
        let mut node = node(name, zone);
        set_label(&mut node, "topology.kubernetes.io/zone", zone);
        cluster.put_node(node);
    }
    let mut selector_sources = SelectorSources::default();
    selector_sources.put(InformerKind::Services, one("web", json!({"app": "web"})));
    let web = |name: &str| pod(name, json!({"app": "web"}), "");
    for count in 0..3 {
        put(&mut cluster, web(&format!("web-{count}")), "a");
        put(&mut cluster, pod(&format!("db-{count}"), json!({"app": "db"}), ""), "b");
        put(&mut cluster, pod(&format!("db-c-{count}"), json!({"app": "db"}), ""), "c");
    }
    let new = web("new");
    let default_constraints = selector_sources.spread(&new);
    cluster.count_terms(default_constraints.iter().map(|spread| &spread.term));
    let spread = scores(
        &cluster,
        &new,
        &Scoring { default_constraints: &default_constraints, ..Scoring::default() },
        &[0, 1, 2],
    );
    assert!(spread[0] < spread[1] && spread[1] < spread[2], "{spread:?}");
    let alike = scores(&cluster, &new, &Scoring::default(), &[0, 1, 2]);
    assert!(alike[0] == alike[1] && alike[1] == alike[2], "{alike:?}");
}
