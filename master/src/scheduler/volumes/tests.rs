//! Tests of claims: the message of every node, `-` if the pod fits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::fixtures::{decoded, find, node, node_with, pod, set_label, three_nodes};
use crate::scheduler::preempt::{Budgets, PreemptionResult};
use crate::scheduler::schedule_one::{Rotation, ScheduleResult, Scoring, schedule_pod};

/// A claim with these fields of `spec` in this phase.
fn claim(name: &str, spec: Value, phase: &str) -> Claim {
    Claim::of(decoded(json!({
        "metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": phase},
    })))
}

fn bound(name: &str, volume: &str, mode: &str) -> Claim {
    claim(name, json!({"volumeName": volume, "accessModes": [mode]}), "Bound")
}

/// A volume that only nodes of this zone reach.
fn volume(name: &str, zone: &str) -> Volume {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
    Volume::of(decoded(json!({
        "metadata": {"name": name}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}},
    })))
}

fn cluster() -> Cluster {
    let mut cluster = three_nodes();
    let all = cluster.volumes_mut();
    all.claims.put(bound("x", "in-x", "ReadWriteOnce"));
    all.claims.put(bound("y", "in-y", "ReadWriteOnce"));
    all.claims.put(bound("anywhere", "free", "ReadWriteOnce"));
    all.claims.put(bound("alone", "free", "ReadWriteOncePod"));
    all.claims.put(bound("gone", "none", "ReadWriteOnce"));
    all.claims.put(claim("lost", json!({"volumeName": "none"}), "Lost"));
    all.claims.put(claim("now", json!({"storageClassName": "now"}), "Pending"));
    all.claims.put(claim("later", json!({"storageClassName": "later"}), "Pending"));
    let ending = json!({"metadata": {"name": "ending", "namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    all.claims.put(Claim::of(decoded(ending)));
    all.volumes.put(volume("in-x", "x"));
    all.volumes.put(volume("in-y", "y"));
    all.volumes.put(Volume::of(decoded(json!({"metadata": {"name": "free"}}))));
    let class = json!({"metadata": {"name": "later"}, "volumeBindingMode": "WaitForFirstConsumer"});
    all.classes.put(Class::of(decoded(class)));
    cluster
}

fn using(name: &str, claims: &[&str]) -> Pod {
    let volumes =
        claims.iter().map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    pod(name, json!({"priority": 1, "volumes": volumes.collect::<Vec<_>>()}))
}

/// The node, or why the pod is unschedulable.
fn failure_message(cluster: &mut Cluster, pod: &Pod) -> String {
    let mut rotation = Rotation::default();
    match schedule_pod(cluster, pod, &Scoring::default(), &mut rotation) {
        ScheduleResult::Node(node) => format!("on {node}"),
        ScheduleResult::Unschedulable(fit_error) => fit_error.message(None),
    }
}

#[test]
fn volume_binding_selects_the_node_of_the_volume() {
    let none = |why: &str| format!("0/3 nodes are available: {why}.");
    for (claims, expected) in [
        (&["y"][..], "on c".to_owned()),
        (&["y", "anywhere"], "on c".to_owned()),
        (&["x", "y"], none("3 node(s) had volume node affinity conflict")),
        (&["gone"], none("3 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")),
        (&["later"], none("3 node(s) didn't find available persistent volumes to bind")),
        (&["now"], none("pod has unbound immediate PersistentVolumeClaims")),
        (&["later", "now"], none("pod has unbound immediate PersistentVolumeClaims")),
        (&["other"], none("persistentvolumeclaim \"other\" not found")),
        (&["lost"], none("persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"none\"")),
        (&["ending"], none("persistentvolumeclaim \"ending\" is being deleted")),
    ] {
        assert_eq!(failure_message(&mut cluster(), &using("p", claims)), expected, "{claims:?}");
    }
    let scratch = pod("p", json!({"volumes": [{"name": "scratch", "ephemeral": {}}]}));
    let waits = "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-scratch\"";
    assert_eq!(failure_message(&mut cluster(), &scratch), none(waits));
}

#[test]
fn volume_zone_labels_restrict_the_nodes() {
    const ZONE: &str = "topology.kubernetes.io/zone";
    let mut cluster = cluster();
    for (name, zone) in [("a", Some("x")), ("b", Some("y")), ("c", None)] {
        let mut node = node(name, "x");
        if let Some(zone) = zone {
            set_label(&mut node, ZONE, zone);
        }
        cluster.put_node(node);
    }
    let taken = |cluster: &mut Cluster, names: &[&str]| {
        let taint = json!({"unschedulable": true});
        for name in names {
            let mut node = node_with(name, "x", taint.clone());
            node.labels = cluster.node_named(name).unwrap().2.labels.clone();
            cluster.put_node(node);
        }
    };
    let labelled = |key: &str, zone: &str| {
        Volume::of(decoded(json!({"metadata": {"name": "free", "labels": {key: zone}}})))
    };
    let uses = using("p", &["anywhere"]);
    let all = cluster.volumes_mut();
    all.volumes.put(labelled(ZONE, "z"));
    assert_eq!(failure_message(&mut cluster, &uses), "on c");
    taken(&mut cluster, &["c"]);
    let none =
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had no available volume zone.";
    assert_eq!(failure_message(&mut cluster, &uses), none);
    for key in [ZONE, "failure-domain.beta.kubernetes.io/zone"] {
        cluster.volumes_mut().volumes.put(labelled(key, "z__y"));
        assert_eq!(failure_message(&mut cluster, &uses), "on b");
    }
}

#[test]
fn read_write_once_pod_claim_is_used_by_one_pod() {
    let mut cluster = cluster();
    cluster.put_pod(Arc::new(using("first", &["alone"])), "a", false);
    let taken =
        "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
    let second = using("second", &["alone"]);
    assert_eq!(failure_message(&mut cluster, &second), format!("0/3 nodes are available: 3 {taken}."));
    // A pod of higher priority preempts it and gets the claim.
    let mut high = using("high", &["alone"]);
    Arc::make_mut(&mut high.spec).priority = 9;
    let ScheduleResult::Unschedulable(fit_error) =
        schedule_pod(&mut cluster, &high, &Scoring::default(), &mut Rotation::default())
    else {
        panic!("it fits")
    };
    let found = find(&mut cluster, &high, &fit_error, &Budgets::default(), &mut Rotation::default());
    assert!(matches!(found, PreemptionResult::Victims(found) if found.victims[0].name == "first"));
    cluster.remove_pod("first");
    assert!(failure_message(&mut cluster, &second).starts_with("on "));
}
