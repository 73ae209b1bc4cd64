//! Tests of the controller: the calculation, the limits, the decisions, and a simulation.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod behavior;
mod calculation;
mod decisions;
mod simulation;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::objects::Pod;
use crate::objects::autoscaling::PodMetrics;

/// The time at which the pods of [`pod`] are synchronized: they have been ready for hours.
fn noon() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// A ready pod with one container that requests this amount of CPU.
fn pod(name: &str, request: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": request}}}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T09:00:00Z", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T09:00:10Z"},
        ]},
    })
}

/// A pod that is not ready, and has not been since its start.
fn unready(name: &str, request: &str) -> Value {
    let mut pod = pod(name, request);
    pod["status"]["conditions"][0]["status"] = "False".into();
    pod
}

/// The metrics of a pod with a container `main`.
fn metrics(name: &str, cpu: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"}}, "timestamp": "2026-01-01T11:59:50Z",
        "window": "15.013s", "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": "10Mi"}}],
    })
}

fn pods(all: &[Value]) -> Vec<Pod> {
    all.iter().map(|pod| serde_json::from_value(pod.clone()).unwrap()).collect()
}

fn pod_metrics(all: &[Value]) -> Vec<PodMetrics> {
    all.iter().map(|metrics| serde_json::from_value(metrics.clone()).unwrap()).collect()
}
