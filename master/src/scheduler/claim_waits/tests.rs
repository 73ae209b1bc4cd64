//! Tests of claims that are bound when their first pod is scheduled.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::BIND_TIMEOUT;
use crate::scheduler::config::Config;
use crate::scheduler::fixtures::{decoded, node, pod};
use crate::scheduler::pod::Pod;
use crate::scheduler::state::{Decision, InformerKind, State};
use crate::scheduler::volumes::{Claim, ClaimTarget, Class, Volume};

const SECOND: Duration = Duration::from_secs(1);

/// Nodes `a` in zone `x` and `c` in zone `y`, and the classes `disks` without and `made` with a provisioner.
fn state(now: Instant) -> State {
    let mut state = State::of(&Config::default());
    state.replace_nodes(vec![node("a", "x"), node("c", "y")], now);
    for informer in InformerKind::ALL {
        state.mark_synced(informer);
    }
    for (name, provisioner) in [("disks", "kubernetes.io/no-provisioner"), ("made", "example.com/made")] {
        let class = json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"});
        state.volumes(now).classes.put(Class::of(decoded(class)));
    }
    state
}

/// A claim for 1Gi of the class.
fn claim(name: &str, class: &str, more: &Value) -> Claim {
    let mut claim = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    if let Some(node) = more["node"].as_str() {
        claim["metadata"]["annotations"] = json!({"volume.kubernetes.io/selected-node": node});
    }
    if let Some(volume) = more["volume"].as_str() {
        claim["spec"]["volumeName"] = volume.into();
        claim["status"]["phase"] = "Bound".into();
    }
    Claim::of(decoded(claim))
}

/// A free volume of the class `disks` that only nodes of this zone reach.
fn volume(name: &str, size: &str, zone: &str) -> Volume {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]});
    Volume::of(decoded(json!({
        "metadata": {"name": name, "resourceVersion": "7"},
        "spec": {
            "storageClassName": "disks", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        },
        "status": {"phase": "Available"},
    })))
}

fn using(name: &str, claims: &[&str]) -> Pod {
    let volumes =
        claims.iter().map(|claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}}));
    pod(name, json!({"volumes": volumes.collect::<Vec<_>>()}))
}

fn decided(state: &mut State, now: Instant) -> String {
    match state.next(now) {
        Ok(Decision::Bind { pod, node }) => format!("{} on {node}", pod.name),
        Ok(Decision::BindClaims { pod, claims }) => {
            let target = |target: &ClaimTarget| match target {
                ClaimTarget::Volume { name, .. } => name.clone(),
                ClaimTarget::Provision => "new".to_owned(),
                ClaimTarget::Started => "started".to_owned(),
            };
            let all =
                claims.iter().map(|one| format!("{}={}@{}", one.claim.1, target(&one.target), one.node));
            format!("{}: {}", pod.name, all.collect::<Vec<_>>().join(" "))
        }
        Ok(Decision::ClaimsFailed { pod, words }) => format!("{} failed: {words}", pod.name),
        Ok(Decision::Unschedulable { pod, words, .. }) => format!("{}: {words}", pod.name),
        Ok(_) => "extenders".to_owned(),
        Err(_) => "nothing".to_owned(),
    }
}

#[test]
fn a_pod_is_bound_after_its_claims_and_each_claim_has_its_own_volume() {
    let now = Instant::now();
    let mut state = state(now);
    for name in ["one", "two"] {
        state.volumes(now).claims.put(claim(name, "disks", &json!({})));
    }
    for (name, size, zone) in [("small", "1Gi", "y"), ("big", "9Gi", "y"), ("alone", "1Gi", "x")] {
        state.volumes(now).volumes.put(volume(name, size, zone));
    }
    state.put_pod(using("p", &["one", "two"]), now);
    assert_eq!(decided(&mut state, now), "p: one=small@c two=big@c");
    // Volumes that are assumed are not offered again.
    state.volumes(now).claims.put(claim("three", "disks", &json!({})));
    state.put_pod(using("q", &["three"]), now);
    assert_eq!(decided(&mut state, now), "q: three=alone@a");
    state.volumes(now).claims.put(claim("one", "disks", &json!({"volume": "small"})));
    assert_eq!(decided(&mut state, now), "nothing");
    state.volumes(now).claims.put(claim("two", "disks", &json!({"volume": "big"})));
    assert_eq!(decided(&mut state, now), "p on c");
    assert_eq!(decided(&mut state, now), "nothing");
}

#[test]
fn a_provisioner_creates_a_volume_on_the_selected_node() {
    let now = Instant::now();
    let mut state = state(now);
    state.volumes(now).claims.put(claim("data", "made", &json!({"node": "c"})));
    // A restart of the scheduler goes on with the selected node.
    state.put_pod(using("p", &["data"]), now);
    assert_eq!(decided(&mut state, now), "p: data=started@c");
    // Another pod with the claim goes to the same node.
    state.put_pod(using("q", &["data"]), now);
    assert_eq!(decided(&mut state, now), "q: data=started@c");
    state.volumes(now).claims.put(claim("data", "made", &json!({"volume": "v"})));
    state.volumes(now).volumes.put(volume("v", "1Gi", "y"));
    let mut both = [decided(&mut state, now), decided(&mut state, now)];
    both.sort();
    assert_eq!(both, ["p on c", "q on c"]);
}

#[test]
fn a_pod_is_scheduled_again_if_its_claims_cannot_be_bound() {
    let now = Instant::now();
    let mut state = state(now);
    state.volumes(now).claims.put(claim("data", "made", &json!({})));
    state.put_pod(using("p", &["data"]), now);
    let first = decided(&mut state, now);
    let node = first.strip_prefix("p: data=new@").unwrap();
    state.volumes(now).claims.put(claim("data", "made", &json!({"node": node})));
    assert_eq!(decided(&mut state, now), "nothing");
    // The provisioner removes the node from the claim.
    state.volumes(now).claims.put(claim("data", "made", &json!({})));
    assert!(decided(&mut state, now).starts_with("p failed: no volume of persistentvolumeclaim \"data\""));
    let later = now + 10 * SECOND;
    assert!(decided(&mut state, later).starts_with("p: data=new@"));
    assert_eq!(decided(&mut state, later + BIND_TIMEOUT - SECOND), "nothing");
    let timed_out = decided(&mut state, later + BIND_TIMEOUT);
    assert_eq!(timed_out, "p failed: timed out waiting for the claims to be bound");
}

#[test]
fn the_volume_of_a_pod_that_is_deleted_is_free_again() {
    let now = Instant::now();
    let mut state = state(now);
    for name in ["one", "two"] {
        state.volumes(now).claims.put(claim(name, "disks", &json!({})));
    }
    state.volumes(now).volumes.put(volume("only", "1Gi", "y"));
    state.put_pod(using("p", &["one"]), now);
    assert_eq!(decided(&mut state, now), "p: one=only@c");
    state.put_pod(using("q", &["two"]), now);
    assert!(decided(&mut state, now).contains("didn't find available persistent volumes to bind"));
    state.remove_pod("p", now);
    assert_eq!(decided(&mut state, now), "nothing", "it pauses");
    assert_eq!(decided(&mut state, now + 10 * SECOND), "q: two=only@c");
}
