//! Field labels of all kinds and the objects they select, as in Kubernetes 1.36.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::kinds;
use crate::resource::{Resource, Source};
use crate::selector::FieldSelector;
use crate::watch_cache::{Draft, Object, Scope, WatchCache};

/// `AddFieldLabelConversionFunc` of each kind. Other kinds have name and namespace, even if cluster-scoped.
const STOCK: &[(&str, &str)] = &[
    (
        "v1 Pod",
        "metadata.name metadata.namespace spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName \
         spec.hostNetwork status.phase status.podIP status.podIPs status.nominatedNodeName spec.host \
         spec.schedulingGates[0].name",
    ),
    ("v1 Node", "metadata.name spec.unschedulable"),
    ("v1 ReplicationController", "metadata.name metadata.namespace status.replicas"),
    (
        "v1 Event",
        "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid \
         involvedObject.apiVersion involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent \
         source type metadata.namespace metadata.name",
    ),
    (
        "events.k8s.io/v1 Event",
        "regarding.kind regarding.namespace regarding.name regarding.uid regarding.apiVersion \
         regarding.resourceVersion regarding.fieldPath reason reportingController type metadata.namespace metadata.name",
    ),
    ("v1 Namespace", "status.phase metadata.name"),
    ("v1 Secret", "type metadata.namespace metadata.name"),
    ("v1 Service", "metadata.namespace metadata.name spec.clusterIP spec.type"),
    ("batch/v1 Job", "metadata.name metadata.namespace status.successful"),
    ("certificates.k8s.io/v1 CertificateSigningRequest", "metadata.name spec.signerName"),
    ("resource.k8s.io/v1 ResourceSlice", "metadata.name spec.nodeName spec.driver"),
];

fn sorted(labels: &str) -> Vec<&str> {
    let mut labels: Vec<&str> = labels.split_whitespace().collect();
    labels.sort_unstable();
    labels
}

#[test]
fn every_kind_has_the_stock_field_labels() {
    let known: BTreeMap<&str, &str> = STOCK.iter().copied().collect();
    let every = STOCK.iter().flat_map(|(_, labels)| labels.split_whitespace());
    let every: Vec<&str> = every.chain(["spec.replicas", "status.succeeded", "metadata.uid"]).collect();
    let mut found = 0;
    for row in kinds::all() {
        let name = format!("{} {}", row.api_version().replace("v1beta3", "v1"), row.kind);
        let expected = known.get(name.as_str()).copied().unwrap_or("metadata.name metadata.namespace");
        found += usize::from(known.contains_key(name.as_str()));
        let is_supported = |label: &&str| {
            let selector = FieldSelector::parse(&format!("{label}=x"));
            row.select(&mut selector.unwrap()).is_ok()
        };
        let mut supported: Vec<&str> = every.iter().copied().filter(is_supported).collect();
        supported.sort_unstable();
        supported.dedup();
        assert_eq!(supported, sorted(expected), "{name}");
    }
    // v1beta3 pods have the labels of v1.
    assert_eq!(found, STOCK.len() + 1);
}

#[test]
fn every_alias_names_a_label_that_is_indexed() {
    let rows = crate::Catalog::new(kinds::all()).rows();
    for row in rows.all() {
        for field in row.fields.iter() {
            let indexed = rows.fields(row.stored()).unwrap();
            let target = indexed.iter().find(|other| other.label == field.stored_label());
            let is_alias = |source| matches!(source, Source::Alias(_));
            assert!(target.is_some_and(|target| !is_alias(target.source)), "{row:?} {}", field.label);
        }
    }
}

/// The object, indexed as its kind requires.
fn stored(row: &Resource, object: &Value) -> (WatchCache, Object) {
    let rows = crate::Catalog::new(kinds::all()).rows();
    let store = WatchCache::new(1);
    let draft = Draft::new(object.as_object().unwrap(), rows.fields(row.stored()).unwrap());
    let object = store.put(row.stored(), &draft).object().clone();
    (store, object)
}

#[test]
fn values_are_typed_and_the_indexed_watch_agrees_with_the_list() {
    let plain = json!({"metadata": {"name": "a"}});
    let pod = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n", "hostNetwork": true},
        "status": {"podIPs": [{"ip": "10.0.0.1"}], "podIP": "10.0.0.1", "phase": "Running"}});
    let kubelet = json!({"metadata": {"name": "a"}, "source": {"component": "kubelet"}});
    let newer = json!({"metadata": {"name": "a"}, "reportingComponent": "sched", "source": {}});
    let both = json!({"metadata": {"name": "a"}, "reportingComponent": "r", "source": {"component": "s"}});
    for (group, version, plural, object, matching, other) in [
        ("", "v1", "nodes", &plain, "spec.unschedulable=false", "spec.unschedulable!=false"),
        ("", "v1", "nodes", &plain, "spec.unschedulable!=true", "spec.unschedulable="),
        (
            "",
            "v1",
            "nodes",
            &json!({"spec": {"unschedulable": true}}),
            "spec.unschedulable=true",
            "spec.unschedulable=false",
        ),
        ("", "v1", "pods", &plain, "spec.hostNetwork=false", "spec.hostNetwork=true"),
        ("", "v1", "pods", &pod, "spec.hostNetwork=true", "spec.hostNetwork=false"),
        ("", "v1", "pods", &pod, "spec.host=n,status.podIP=10.0.0.1", "spec.host=m"),
        ("", "v1beta3", "pods", &pod, "spec.host=n,status.podIPs=", "status.podIPs=10.0.0.1"),
        ("", "v1", "pods", &plain, "status.podIP=,spec.nodeName=", "status.podIP!="),
        ("", "v1", "events", &kubelet, "source=kubelet", "source="),
        ("", "v1", "events", &newer, "source=sched,reportingComponent=sched", "source!=sched"),
        ("", "v1", "events", &both, "source=s,reportingComponent=r", "source=r"),
        ("events.k8s.io", "v1", "events", &both, "reportingController=r", "reportingController=s"),
        ("", "v1", "replicationcontrollers", &plain, "status.replicas=0", "status.replicas="),
        (
            "",
            "v1",
            "replicationcontrollers",
            &json!({"status": {"replicas": 2}}),
            "status.replicas=2",
            "status.replicas=0",
        ),
        ("batch", "v1", "jobs", &plain, "status.successful=0", "status.successful=1"),
        (
            "batch",
            "v1",
            "jobs",
            &json!({"status": {"succeeded": 1}}),
            "status.successful=1",
            "status.successful=0",
        ),
        (
            "",
            "v1",
            "services",
            &json!({"spec": {"clusterIP": "None", "type": "ClusterIP"}}),
            "spec.clusterIP=None,spec.type=ClusterIP",
            "spec.clusterIP=",
        ),
        ("", "v1", "secrets", &json!({"type": "Opaque"}), "type=Opaque", "type="),
        (
            "",
            "v1",
            "namespaces",
            &json!({"status": {"phase": "Active"}}),
            "status.phase=Active",
            "status.phase=",
        ),
    ] {
        let rows = crate::Catalog::new(kinds::all()).rows();
        let row = rows.find(group, version, plural).unwrap();
        let (store, object) = stored(row, object);
        for (selector, expected) in [(matching, true), (other, false)] {
            let mut fields = FieldSelector::parse(selector).unwrap();
            row.select(&mut fields).unwrap();
            assert_eq!(fields.matches(&object), expected, "{plural} {selector}");
            let Some(field_value) = fields.field_value() else { continue };
            let mut watcher = store.watch_field(row.stored(), Scope::All, field_value, 1).unwrap();
            let is_seen = !watcher.ready().unwrap().is_empty();
            assert_eq!(is_seen, expected, "the indexed watch of {plural} with {selector}");
        }
    }
}
