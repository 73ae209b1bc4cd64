//! Plans of Deployments.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod progress;
mod rollouts;
mod scaling;

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::plan::{Change, Input, Plan, Write, plan};
use super::*;
use crate::objects::ReplicaSet;

fn at(second: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

/// The template of revision `image`.
fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// A Deployment of 10 pods with image `new`, surge 3 and 2 unavailable pods, with these fields changed.
fn deployment(changes: &[(&str, Value)]) -> Deployment {
    let mut object = json!({
        "metadata": {"name": "web", "uid": "d", "generation": 2,
            "annotations": {"deployment.kubernetes.io/revision": "2"}},
        "spec": {
            "replicas": 10, "selector": {"matchLabels": {"app": "web"}}, "template": template("new"),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}},
            "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
        },
        "status": {},
    });
    for (path, value) in changes {
        let (parent, field) = path.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// A ReplicaSet `web-IMAGE` with the size of the Deployment in its annotations.
fn sized(image: &str, revision: i64, replicas: i64, available: i64, desired: i64, max: i64) -> ReplicaSet {
    let object = json!({
        "metadata": {
            "name": format!("web-{image}"), "uid": image, "resourceVersion": "7", "generation": 1,
            "creationTimestamp": at(revision).to_string(),
            "annotations": {"deployment.kubernetes.io/revision": revision.to_string(),
                "deployment.kubernetes.io/desired-replicas": desired.to_string(),
                "deployment.kubernetes.io/max-replicas": max.to_string()},
        },
        "spec": {"replicas": replicas, "template": template(image)},
        "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available,
            "observedGeneration": 1, "terminatingReplicas": 0},
    });
    serde_json::from_value(object).unwrap()
}

/// A ReplicaSet of a Deployment with 10 pods and surge 3.
fn set(image: &str, revision: i64, replicas: i64, available: i64) -> ReplicaSet {
    sized(image, revision, replicas, available, 10, 13)
}

fn planned(deployment: &Deployment, sets: &[&ReplicaSet], with_pods: &[&str]) -> Plan {
    let with_pods: HashSet<&str> = with_pods.iter().copied().collect();
    plan(Input { deployment, sets, with_pods: &with_pods, now: at(1000) })
}

/// The writes in short: `+new=3` creates, `old=8` scales, `-old` deletes, `old` only changes annotations.
fn short(plan: &Plan) -> Vec<String> {
    let name = |name: &str| name.trim_start_matches("web-").to_owned();
    let of = |write: &Write| match write {
        Write::Create(new) => format!("+{}", new.replicas),
        Write::Change(Change { name: set, scale: Some((_, to)), .. }) => format!("{}={to}", name(set)),
        Write::Change(change) => name(&change.name),
        Write::Delete { name: set, .. } => format!("-{}", name(set)),
    };
    plan.writes.iter().map(of).collect()
}

/// The status and reason of a condition.
fn condition(plan: &Plan, kind: &str) -> (String, String) {
    let condition = plan.status.condition(kind).unwrap_or_else(|| panic!("no {kind}: {:?}", plan.status));
    (condition.status.to_string(), condition.reason.to_string())
}
