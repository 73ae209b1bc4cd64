//! Steps and statuses of ReplicaSets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::json;

use super::plan::plan;
use super::*;
use crate::controllers::workloads::pod_writes::{BURST, PodToDelete};
use crate::controllers::workloads::replica::Phase;

fn at(second: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

/// A ready pod on node `n`, created at second 0 and ready since second 10.
fn ready<'a>(name: &'a str, labels: &'a StringMap) -> Replica<'a> {
    Replica {
        name,
        uid: name,
        labels,
        controller: None,
        node: "n",
        phase: Phase::Running,
        is_terminating: false,
        is_ready: true,
        ready_changed: Some(at(10)),
        deletion_cost: 0,
        restarts: (0, 0),
        created: Some(at(0)),
    }
}

fn set(value: serde_json::Value) -> ReplicaSet {
    serde_json::from_value(value).unwrap()
}

#[test]
fn pods_are_created_and_deleted_up_to_the_desired_number() {
    let labels = StringMap::default();
    let pods: Vec<Replica<'_>> = ["a", "b", "c"].iter().map(|name| ready(name, &labels)).collect();
    let step = |wanted: i64| plan(wanted, &pods, &pods, at(100));
    assert_eq!((step(3), step(5), step(3 + 1000)), (Step::Nothing, Step::Create(2), Step::Create(BURST)));
    let to_delete = |names: &[&'static str]| {
        Step::Delete(names.iter().map(|name| PodToDelete { name, uid: name }).collect::<Vec<_>>())
    };
    assert_eq!(step(1), to_delete(&["a", "b"]));
    assert_eq!((step(0), step(-1)), (to_delete(&["a", "b", "c"]), to_delete(&["a", "b", "c"])));
}

#[test]
fn the_least_useful_pod_is_deleted_first() {
    let labels = StringMap::default();
    let usual = ready("usual", &labels);
    let first = Replica { name: "first", uid: "first", ..usual };
    let now = at(100_000);
    // Each pod is deleted before the usual one, for the reason in its line.
    for (reason, pod) in [
        ("is not scheduled", Replica { node: "", ..first }),
        ("is pending", Replica { phase: Phase::Pending, ..first }),
        ("has an unknown phase", Replica { phase: Phase::Unknown, ..first }),
        ("is not ready", Replica { is_ready: false, ..first }),
        ("costs less", Replica { deletion_cost: -1, ..first }),
        ("became ready recently", Replica { ready_changed: Some(at(90_000)), ..first }),
        ("has restarted", Replica { restarts: (1, 0), ..first }),
        ("has a sidecar that restarted", Replica { restarts: (0, 1), ..first }),
        ("is newer", Replica { created: Some(at(90_000)), ..first }),
    ] {
        let step = plan(1, &[usual, pod], &[usual, pod], now);
        assert_eq!(step, Step::Delete(vec![PodToDelete { name: "first", uid: "first" }]), "{reason}");
    }
    // An earlier criterion outweighs all later ones.
    let (unready, new) = (
        Replica { is_ready: false, ..first },
        Replica { created: Some(now), restarts: (9, 9), deletion_cost: -9, ..usual },
    );
    assert_eq!(
        plan(1, &[new, unready], &[], now),
        Step::Delete(vec![PodToDelete { name: "first", uid: "first" }])
    );
    // Readiness at about the same time is no criterion: the UID decides.
    let close = Replica { ready_changed: Some(at(20)), ..first };
    assert_eq!(
        plan(1, &[usual, close], &[], now),
        Step::Delete(vec![PodToDelete { name: "first", uid: "first" }])
    );
}

#[test]
fn pods_on_a_node_with_more_pods_of_the_owner_are_deleted_first() {
    let labels = StringMap::default();
    let alone = Replica { node: "m", ..ready("alone", &labels) };
    let beside = ready("beside", &labels);
    // The other pods on the node belong to another ReplicaSet of the same Deployment.
    let other = ready("other", &labels);
    let ended = Replica { phase: Phase::Terminal, node: "m", ..ready("ended", &labels) };
    let related = [alone, beside, other, ended, ended];
    let step = plan(1, &[alone, beside], &related, at(100));
    assert_eq!(step, Step::Delete(vec![PodToDelete { name: "beside", uid: "beside" }]));
}

#[test]
fn the_status_counts_pods() {
    let set = set(json!({
        "metadata": {"generation": 4},
        "spec": {"minReadySeconds": 30, "template": {"metadata": {"labels": {"app": "web", "tier": "x"}}}},
    }));
    let full: StringMap = [("app", "web"), ("tier", "x"), ("more", "y")].into_iter().collect();
    let part: StringMap = [("app", "web")].into_iter().collect();
    let fresh = Replica { ready_changed: Some(at(35)), ..ready("c", &full) };
    let pods = [ready("a", &full), Replica { is_ready: false, ..ready("b", &part) }, fresh];
    let status = status::status(&set, Pods { active: &pods, terminating: Some(2) }, None, at(45));
    assert_eq!(
        status.to_json(),
        json!({"replicas": 3, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 1,
            "observedGeneration": 4, "terminatingReplicas": 2})
    );
    assert_eq!(status::next_availability(&set, &pods, at(45)), Some(Duration::from_secs(20)));
    assert_eq!(status::next_availability(&set, &pods[..2], at(45)), None);
}

#[test]
fn the_first_failure_is_a_condition_until_a_step_succeeds() {
    let mut set = set(json!({"status": {"conditions": [{"type": "Mine", "status": "True"}]}}));
    let failure = |message: &str| Failure { reason: "FailedCreate", message: message.to_owned() };
    let pods = Pods { active: &[], terminating: None };
    set.status = status::status(&set, pods, Some(&failure("quota")), at(1));
    set.status = status::status(&set, pods, Some(&failure("other")), at(2));
    let conditions = set.status.to_json()["conditions"].clone();
    assert_eq!(
        conditions,
        json!([{"type": "Mine", "status": "True"}, {"type": "ReplicaFailure", "status": "True",
            "lastTransitionTime": "2026-01-01T00:00:01Z", "reason": "FailedCreate", "message": "quota"}])
    );
    let repaired = status::status(&set, pods, None, at(3));
    assert_eq!(repaired.to_json()["conditions"], json!([{"type": "Mine", "status": "True"}]));
}
