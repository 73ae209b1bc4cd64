//! Reports in, objects out.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::store::Scope;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus};
use serde_json::{Map, Value, json};

pub mod notes;

use super::{Board, resources};
use crate::observed::PodUid;
use crate::report::{About, Mail, NodeReport, Note, Report, Severity};

fn now() -> Timestamp {
    "2026-01-01T00:10:00Z".parse().unwrap()
}

fn pod(name: &str) -> Arc<Pod> {
    let pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": "u1", "labels": {"app": "web"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn status(phase: &str) -> Arc<PodStatus> {
    Arc::new(serde_json::from_value(json!({"phase": phase, "startTime": "2026-01-01T00:00:00Z"})).unwrap())
}

fn report(name: &str, phase: &str, deletion: Option<(Timestamp, i64)>) -> Mail {
    let report = Report::Status { pod: pod(name), status: status(phase), deletion };
    Mail { reports: BTreeMap::from([(PodUid::new("u1"), report)]), ..Mail::default() }
}

fn shown(board: &Board, resource: &str) -> Vec<Map<String, Value>> {
    board.store().list(resource, &Scope::All).objects.iter().map(|object| object.decode()).collect()
}

#[test]
fn a_pod_and_its_status_are_one_object() {
    let board = Board::new("n1");
    board.post(report("web-n1", "Running", None), now());
    let pods = shown(&board, resources::PODS);
    assert_eq!(pods.len(), 1);
    let pod = &pods[0];
    assert_eq!((&pod["apiVersion"], &pod["kind"]), (&"v1".into(), &"Pod".into()));
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(pod["metadata"]["labels"]["app"], "web");
    assert_eq!(pod["metadata"].get("deletionTimestamp"), None);
}

#[test]
fn the_same_report_again_changes_nothing() {
    let board = Board::new("n1");
    board.post(report("web-n1", "Pending", None), now());
    let revision = board.store().revision();
    board.post(report("web-n1", "Pending", None), now());
    assert_eq!(board.store().revision(), revision);
    board.post(report("web-n1", "Running", None), now());
    assert!(board.store().revision() > revision);
}

#[test]
fn a_pod_that_ends_says_until_when() {
    let board = Board::new("n1");
    board.post(report("web-n1", "Running", Some((now(), 30))), now());
    let pod = &shown(&board, resources::PODS)[0];
    assert_eq!(pod["metadata"]["deletionTimestamp"], "2026-01-01T00:10:30Z");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[test]
fn a_pod_that_is_gone_is_not_shown() {
    let board = Board::new("n1");
    board.post(report("web-n1", "Running", None), now());
    let gone = BTreeMap::from([(PodUid::new("u1"), Report::Gone)]);
    board.post(Mail { reports: gone.clone(), ..Mail::default() }, now());
    assert!(shown(&board, resources::PODS).is_empty());
    board.post(Mail { reports: gone, ..Mail::default() }, now());
}

#[test]
fn a_pod_that_changes_its_name_is_shown_once() {
    let board = Board::new("n1");
    board.post(report("web-n1", "Running", None), now());
    board.post(report("shop-n1", "Running", None), now());
    let pods = shown(&board, resources::PODS);
    assert_eq!(pods.iter().map(|pod| &pod["metadata"]["name"]).collect::<Vec<_>>(), ["shop-n1"]);
}

#[test]
fn events_come_and_go() {
    let board = Board::new("n1");
    let about = About::container(&pod("web-n1"), "c");
    let note = Note {
        about,
        severity: Severity::Normal,
        reason: "Started".into(),
        message: "x".to_owned(),
        at: now(),
    };
    board.post(Mail { notes: [note].into(), ..Mail::default() }, now());
    assert_eq!(shown(&board, resources::EVENTS)[0]["involvedObject"]["fieldPath"], "spec.containers{c}");
    board.post(Mail::default(), "2026-01-01T01:10:01Z".parse().unwrap());
    assert!(shown(&board, resources::EVENTS).is_empty());
}

#[test]
fn the_node_bears_what_its_sources_refuse() {
    let board = Board::new("n1");
    let node = |board: &Board| shown(board, resources::NODES).remove(0);
    assert_eq!(node(&board)["metadata"]["name"], "n1");
    let created = node(&board)["metadata"]["creationTimestamp"].clone();
    let report = NodeReport {
        capacity: BTreeMap::from([("cpu".to_owned(), "2".to_owned())]),
        taints: vec![("k".to_owned(), "v".to_owned(), "NoSchedule".to_owned())],
        ..NodeReport::default()
    };
    board.post(Mail { node: Some(Box::new(report)), ..Mail::default() }, now());
    board.post(Mail { problems: Some(vec!["a: b".to_owned()]), ..Mail::default() }, now());
    let object = node(&board);
    assert_eq!(object["status"]["capacity"]["cpu"], "2");
    assert_eq!(object["spec"]["taints"][0]["effect"], "NoSchedule");
    assert_eq!(object["metadata"]["annotations"]["coracle.dev/problems"], r#"["a: b"]"#);
    assert_eq!(object["metadata"]["creationTimestamp"], created);
    board.post(Mail { problems: Some(Vec::new()), ..Mail::default() }, now());
    assert_eq!(node(&board)["metadata"].get("annotations"), None);
}

#[test]
fn config_maps_are_those_given_and_no_others() {
    let board = Board::new("n1");
    let map = |name: &str| ConfigMap {
        metadata: serde_json::from_value(json!({"name": name, "namespace": "shop"})).unwrap(),
        ..ConfigMap::default()
    };
    board.set(resources::CONFIG_MAPS, [map("a"), map("b")].iter(), now());
    board.set(resources::CONFIG_MAPS, [map("b"), map("c")].iter(), "2026-02-01T00:00:00Z".parse().unwrap());
    let maps = shown(&board, resources::CONFIG_MAPS);
    assert_eq!(maps.iter().map(|map| &map["metadata"]["name"]).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(maps[0]["kind"], "ConfigMap");
    let created: Vec<_> = maps.iter().map(|map| &map["metadata"]["creationTimestamp"]).collect();
    assert_eq!(created, ["2026-01-01T00:10:00Z", "2026-02-01T00:00:00Z"]);
}
