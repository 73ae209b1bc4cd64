//! Plans of StatefulSets, by the guarantees in the documentation of Kubernetes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod claims;
mod identity;
mod scaling;
mod updates;

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::claims::{Claim, Claims};
use super::plan::{Input, Plan, RevisionNames, Write, plan};
use crate::controllers::workloads::history::POD_REVISION_LABEL;
use crate::controllers::workloads::replica::{Phase, Replica};
use crate::objects::{StatefulSet, StringMap};

fn at(second: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

/// A StatefulSet `web` of three pods, with these fields changed.
fn set(changes: &[(&str, Value)]) -> StatefulSet {
    let mut object = json!({
        "metadata": {"name": "web", "uid": "s", "generation": 2},
        "spec": {
            "replicas": 3, "serviceName": "web", "podManagementPolicy": "OrderedReady",
            "selector": {"matchLabels": {"app": "web"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
        "status": {"replicas": 0},
    });
    for (path, value) in changes {
        let (parent, field) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// The same with the pod management policy `Parallel`.
fn parallel(changes: &[(&str, Value)]) -> StatefulSet {
    let mut all = vec![("/spec/podManagementPolicy", Value::from("Parallel"))];
    all.extend_from_slice(changes);
    set(&all)
}

/// The change to this number of replicas.
fn replicas(count: i64) -> (&'static str, Value) {
    ("/spec/replicas", count.into())
}

/// A pod of a test: its ordinal, its revision, and its state in one letter.
struct TestPod {
    name: String,
    labels: StringMap,
    state: char,
}

/// Reads pods such as `0 new r`, separated by commas. States: `r` ready for 100 s, `s` ready for 1 s, `u` running and
/// not ready, `p` pending, `f` failed, `t` terminating and still ready.
fn pods(text: &str) -> Vec<TestPod> {
    let words = text.split(',').map(|pod| pod.split_whitespace().collect::<Vec<_>>());
    let pod = |words: Vec<&str>| {
        let [ordinal, revision, state] = *words else { return None };
        let name = format!("web-{ordinal}");
        let labels = [
            ("app", "web"),
            ("statefulset.kubernetes.io/pod-name", &name),
            ("apps.kubernetes.io/pod-index", ordinal),
            (POD_REVISION_LABEL, revision),
        ];
        Some(TestPod { labels: labels.into_iter().collect(), name, state: state.chars().next().unwrap() })
    };
    words.filter_map(pod).collect()
}

fn replica(pod: &TestPod) -> Replica<'_> {
    Replica {
        name: &pod.name,
        uid: &pod.name,
        labels: &pod.labels,
        controller: None,
        node: "n",
        phase: match pod.state {
            'p' => Phase::Pending,
            'f' => Phase::Terminal,
            _ => Phase::Running,
        },
        is_terminating: pod.state == 't',
        is_ready: matches!(pod.state, 'r' | 's' | 't'),
        ready_changed: Some(at(if pod.state == 's' { 99 } else { 0 })),
        deletion_cost: 0,
        restarts: (0, 0),
        created: Some(at(0)),
    }
}

/// Plans with the current revision `old` and the update revision `new`. Passes the plan to `check`.
fn with_plan<T>(set: &StatefulSet, pods: &str, claims: &Claims<'_>, check: impl FnOnce(&Plan<'_>) -> T) -> T {
    let pods = self::pods(pods);
    let replicas: Vec<Replica<'_>> = pods.iter().map(replica).collect();
    let revisions = RevisionNames { current: "old", update: "new" };
    check(&plan(&Input { set, pods: &replicas, claims, revisions, now: at(100) }))
}

/// Returns the writes as text, with phases separated by `;`.
fn steps_with(set: &StatefulSet, pods: &str, claims: &Claims<'_>) -> String {
    with_plan(set, pods, claims, |plan| {
        let phases = plan.phases.iter().map(|phase| {
            let writes: Vec<String> = phase.iter().map(text).collect();
            writes.join(", ")
        });
        phases.collect::<Vec<String>>().join("; ")
    })
}

fn steps(set: &StatefulSet, pods: &str) -> String {
    steps_with(set, pods, &HashMap::new())
}

fn text(write: &Write<'_>) -> String {
    let names = |claims: &[super::plan::NewClaim]| -> String {
        claims.iter().map(|claim| format!(" +{}", claim.name)).collect()
    };
    match write {
        Write::Create(new) => {
            let revision = if new.is_current { "old" } else { "new" };
            let blocked =
                new.terminating_claim.as_ref().map(|claim| format!(" waits for {claim}")).unwrap_or_default();
            format!("create {} {revision}{}{blocked}", new.ordinal, names(&new.claims))
        }
        Write::CreateClaims { pod, claims } => format!("claims of {pod}{}", names(claims)),
        Write::Relabel { name, .. } => format!("label {name}"),
        Write::OwnClaim { claim, user } if user.is_condemned => format!("own {claim} condemned"),
        Write::OwnClaim { claim, .. } => format!("own {claim}"),
        Write::Delete { name, .. } => format!("delete {}", name.trim_start_matches("web-")),
    }
}
