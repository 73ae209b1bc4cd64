//! Conversion of reports to objects.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::watch_cache::Scope;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, PodStatus};
use serde_json::{Map, Value, json};

pub mod notes {
    //! Builders of event notes for tests.

    use jiff::Timestamp;

    use crate::report::{About, Note, Severity};

    /// A timestamp, in seconds after the start of the test clock.
    pub fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    /// A Warning about a container of that pod.
    pub fn note(object: &str, message: &str, second: i64) -> Note {
        let about = About {
            kind: "Pod",
            namespace: "shop".to_owned(),
            name: object.to_owned(),
            uid: format!("uid-{object}"),
            field_path: "spec.containers{c}".to_owned(),
        };
        let (severity, reason) = (Severity::Warning, "BackOff".into());
        Note { about, severity, reason, message: message.to_owned(), at: at(second) }
    }
}

use super::{StatusManager, resources};
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

fn shown(status_manager: &StatusManager, resource: &str) -> Vec<Map<String, Value>> {
    status_manager.store().list(resource, &Scope::All).objects.iter().map(|object| object.decode()).collect()
}

#[test]
fn api_object_contains_pod_and_status() {
    let status_manager = StatusManager::new("n1");
    status_manager.apply(report("web-n1", "Running", None), now());
    let pods = shown(&status_manager, resources::PODS);
    assert_eq!(pods.len(), 1);
    let pod = &pods[0];
    assert_eq!((&pod["apiVersion"], &pod["kind"]), (&"v1".into(), &"Pod".into()));
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(pod["metadata"]["labels"]["app"], "web");
    assert_eq!(pod["metadata"].get("deletionTimestamp"), None);
}

#[test]
fn repeated_report_changes_nothing() {
    let status_manager = StatusManager::new("n1");
    status_manager.apply(report("web-n1", "Pending", None), now());
    let revision = status_manager.store().revision();
    status_manager.apply(report("web-n1", "Pending", None), now());
    assert_eq!(status_manager.store().revision(), revision);
    status_manager.apply(report("web-n1", "Running", None), now());
    assert!(status_manager.store().revision() > revision);
}

#[test]
fn terminating_pod_has_a_deletion_timestamp() {
    let status_manager = StatusManager::new("n1");
    status_manager.apply(report("web-n1", "Running", Some((now(), 30))), now());
    let pod = &shown(&status_manager, resources::PODS)[0];
    assert_eq!(pod["metadata"]["deletionTimestamp"], "2026-01-01T00:10:30Z");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
}

#[test]
fn removed_pod_is_not_listed() {
    let status_manager = StatusManager::new("n1");
    status_manager.apply(report("web-n1", "Running", None), now());
    let gone = BTreeMap::from([(PodUid::new("u1"), Report::Gone)]);
    status_manager.apply(Mail { reports: gone.clone(), ..Mail::default() }, now());
    assert!(shown(&status_manager, resources::PODS).is_empty());
    status_manager.apply(Mail { reports: gone, ..Mail::default() }, now());
}

#[test]
fn node_name_conflict_is_listed_with_source_problems() {
    let status_manager = StatusManager::new("n1");
    let shown_problems = || {
        let node = shown(&status_manager, resources::NODES).remove(0);
        node["metadata"]["annotations"]["coracle.dev/problems"].as_str().map(str::to_owned)
    };
    status_manager.apply(Mail { problems: Some(vec!["a.yaml".to_owned()]), ..Mail::default() }, now());
    status_manager.apply(Mail { name_conflict: Some(Some("other".to_owned())), ..Mail::default() }, now());
    assert_eq!(shown_problems().as_deref(), Some(r#"["a.yaml","other"]"#));
    // A new report of manifest problems does not clear the name conflict.
    status_manager.apply(Mail { problems: Some(Vec::new()), ..Mail::default() }, now());
    assert_eq!(shown_problems().as_deref(), Some(r#"["other"]"#));
    status_manager.apply(Mail { name_conflict: Some(None), ..Mail::default() }, now());
    assert_eq!(shown_problems(), None);
}

#[test]
fn renamed_pod_is_listed_once() {
    let status_manager = StatusManager::new("n1");
    status_manager.apply(report("web-n1", "Running", None), now());
    status_manager.apply(report("shop-n1", "Running", None), now());
    let pods = shown(&status_manager, resources::PODS);
    assert_eq!(pods.iter().map(|pod| &pod["metadata"]["name"]).collect::<Vec<_>>(), ["shop-n1"]);
}

#[test]
fn events_are_listed_and_expire() {
    let status_manager = StatusManager::new("n1");
    let about = About::container(&pod("web-n1"), "c");
    let note = Note {
        about,
        severity: Severity::Normal,
        reason: "Started".into(),
        message: "x".to_owned(),
        at: now(),
    };
    status_manager.apply(Mail { notes: [note].into(), ..Mail::default() }, now());
    assert_eq!(
        shown(&status_manager, resources::EVENTS)[0]["involvedObject"]["fieldPath"],
        "spec.containers{c}"
    );
    status_manager.apply(Mail::default(), "2026-01-01T01:10:01Z".parse().unwrap());
    assert!(shown(&status_manager, resources::EVENTS).is_empty());
}

#[test]
fn the_node_shows_the_problems_of_its_sources() {
    let status_manager = StatusManager::new("n1");
    let node = |status_manager: &StatusManager| shown(status_manager, resources::NODES).remove(0);
    assert_eq!(node(&status_manager)["metadata"]["name"], "n1");
    let created = node(&status_manager)["metadata"]["creationTimestamp"].clone();
    let report = NodeReport {
        capacity: BTreeMap::from([("cpu".to_owned(), "2".to_owned())]),
        taints: vec![("k".to_owned(), "v".to_owned(), "NoSchedule".to_owned())],
        ..NodeReport::default()
    };
    status_manager.apply(Mail { node: Some(Box::new(report)), ..Mail::default() }, now());
    status_manager.apply(Mail { problems: Some(vec!["a: b".to_owned()]), ..Mail::default() }, now());
    let object = node(&status_manager);
    assert_eq!(object["status"]["capacity"]["cpu"], "2");
    assert_eq!(object["spec"]["taints"][0]["effect"], "NoSchedule");
    assert_eq!(object["metadata"]["annotations"]["coracle.dev/problems"], r#"["a: b"]"#);
    assert_eq!(object["metadata"]["creationTimestamp"], created);
    status_manager.apply(Mail { problems: Some(Vec::new()), ..Mail::default() }, now());
    assert_eq!(node(&status_manager)["metadata"].get("annotations"), None);
}

#[test]
fn only_given_config_maps_are_listed() {
    let status_manager = StatusManager::new("n1");
    let map = |name: &str| ConfigMap {
        metadata: serde_json::from_value(json!({"name": name, "namespace": "shop"})).unwrap(),
        ..ConfigMap::default()
    };
    status_manager.set(resources::CONFIG_MAPS, [map("a"), map("b")].iter(), now());
    status_manager.set(
        resources::CONFIG_MAPS,
        [map("b"), map("c")].iter(),
        "2026-02-01T00:00:00Z".parse().unwrap(),
    );
    let maps = shown(&status_manager, resources::CONFIG_MAPS);
    assert_eq!(maps.iter().map(|map| &map["metadata"]["name"]).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(maps[0]["kind"], "ConfigMap");
    let created: Vec<_> = maps.iter().map(|map| &map["metadata"]["creationTimestamp"]).collect();
    assert_eq!(created, ["2026-01-01T00:10:00Z", "2026-02-01T00:00:00Z"]);
}

#[test]
fn a_pending_edit_has_a_column_before_the_age() {
    let row = resources::row_of(resources::PODS).unwrap();
    let heads: Vec<String> = row.columns.heads().iter().map(|head| head.name.to_string()).collect();
    assert_eq!(heads[..6], ["Name", "Ready", "Status", "Restarts", "Edit", "Age"]);
    let cell = |status: &str| {
        let condition =
            json!({"type": "coracle.dev/EditPending", "status": status, "reason": "InvalidManifest"});
        let pod = json!({"metadata": {"name": "a"}, "status": {"conditions": [condition]}});
        row.columns.cells(pod.as_object().unwrap(), now())[4].clone()
    };
    assert_eq!((cell("True"), cell("False")), ("InvalidManifest".into(), "<none>".into()));
}
