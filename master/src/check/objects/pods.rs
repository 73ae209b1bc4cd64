//! Pods: what waits and for whom, what crashes, what has failed and what does not go. Pure.

mod containers;

use std::collections::HashSet;

use jiff::SignedDuration;
use serde_json::Value;

use super::field::{condition, joined, list, part, text};
use super::{PATIENCE, World, plane};
use crate::check::finding::{Finding, Severity, Subject};
use crate::controllers::Object;

/// How long a pod of the control plane may take to be ready: a cluster waits for it.
const PATIENCE_WITH_MASTERS: SignedDuration = SignedDuration::from_secs(60);

/// What is wrong with pods.
pub fn findings(world: &World) -> Vec<Finding> {
    let nodes: HashSet<&str> = world.of("nodes").iter().map(|node| node.name.as_str()).collect();
    world.of("pods").iter().flat_map(|pod| of_pod(world, &nodes, pod)).collect()
}

fn of_pod(world: &World, nodes: &HashSet<&str>, pod: &Object) -> Vec<Finding> {
    if pod.is_ending {
        return ending(world, nodes, pod).into_iter().collect();
    }
    let own = containers::findings(world, pod);
    if !own.is_empty() {
        return own;
    }
    let found = match text(pod, "/status/phase") {
        "Succeeded" => None,
        "Failed" => Some(failed(pod)),
        "Running" => unready(world, pod),
        _ => waiting(world, nodes, pod),
    };
    found.into_iter().collect()
}

/// One that waits: for whoever takes a gate off, for a node, or on its node.
fn waiting(world: &World, nodes: &HashSet<&str>, pod: &Object) -> Option<Finding> {
    let gates: Vec<&str> = list(pod, "/spec/schedulingGates").iter().map(|gate| part(gate, "name")).collect();
    let scheduled = condition(pod, "PodScheduled");
    let node = text(pod, "/spec/nodeName");
    let is_late = world.since(&pod.created) > PATIENCE;
    let pending = |cause: String, remedy: String| {
        Some(Finding::problem(Subject::of("Pod", pod), "is Pending", remedy).because(cause))
    };
    if node.is_empty() && scheduled.status == "False" && scheduled.reason != "SchedulingGated" {
        let remedy = "give it what the message asks for: a node with that room, label or volume, or a pod that asks for less";
        return pending(scheduled.why(), remedy.to_owned());
    }
    if !is_late {
        return None;
    }
    if !gates.is_empty() {
        let remedy = "look whether what takes these gates off runs; they are set by whoever made the pod or by the master's --scheduling-gates";
        return pending(format!("it is gated by {}", gates.join(", ")), remedy.to_owned());
    }
    if node.is_empty() {
        let remedy = "look whether a scheduler runs; a Binding or spec.nodeName gives the pod a node by hand";
        return pending("no scheduler has looked at it".to_owned(), remedy.to_owned());
    }
    if !nodes.contains(node) {
        let remedy = format!("delete the pod, or let {node} join");
        return pending(format!("its node {node} is not there"), remedy);
    }
    let says = joined(text(pod, "/status/reason"), text(pod, "/status/message"));
    let cause = if says.is_empty() { format!("nothing was heard of it from {node}") } else { says };
    pending(cause, format!("its events, and the log of the kubelet on {node}: {}", describe(pod)))
}

fn failed(pod: &Object) -> Finding {
    let why = joined(text(pod, "/status/reason"), text(pod, "/status/message"));
    let remedy = format!(
        "see what it said (`kubectl logs -n {} {}`), and delete it when that is known",
        pod.namespace, pod.name
    );
    Finding::warning(Subject::of("Pod", pod), "has failed", remedy).because(why)
}

/// One that runs and is not ready for longer than a start takes.
fn unready(world: &World, pod: &Object) -> Option<Finding> {
    let ready = condition(pod, "Ready");
    let since = world.since(ready.since);
    let (patience, of, severity) = match plane::has(pod) {
        true => (PATIENCE_WITH_MASTERS, "is of the control plane and ", Severity::Problem),
        false => (PATIENCE, "", Severity::Warning),
    };
    (ready.status == "False" && since > patience).then(|| {
        let what = format!("{of}has not been ready for {} min", since.as_mins());
        let remedy = format!("its readiness probe and its events: {}", describe(pod));
        Finding::problem(Subject::of("Pod", pod), what, remedy).because(ready.why()).graded(severity)
    })
}

/// One that should be gone; the time of a deletion is when its grace ends.
fn ending(world: &World, nodes: &HashSet<&str>, pod: &Object) -> Option<Finding> {
    if world.since(text(pod, "/metadata/deletionTimestamp")) < PATIENCE {
        return None;
    }
    let node = text(pod, "/spec/nodeName");
    let (cause, remedy) = if !pod.finalizers.is_empty() {
        (
            format!("finalizers hold it: {}", pod.finalizers.join(", ")),
            "look whether what takes them off runs; without it, take them off yourself (`kubectl edit`)"
                .to_owned(),
        )
    } else if node.is_empty() || !nodes.contains(node) {
        let cause = if node.is_empty() {
            "it has no node".to_owned()
        } else {
            format!("its node {node} is not there")
        };
        (cause, format!("`kubectl delete pod -n {} {} --force --grace-period=0`", pod.namespace, pod.name))
    } else {
        (
            format!("{node} has not said that it ended"),
            format!(
                "look whether the kubelet of {node} runs; only if that machine is off for good, delete the pod with --force"
            ),
        )
    };
    Some(Finding::problem(Subject::of("Pod", pod), "is to be gone and is not", remedy).because(cause))
}

fn describe(pod: &Object) -> String {
    format!("`kubectl describe pod -n {} {}`", pod.namespace, pod.name)
}

/// Whether it takes requests.
pub(super) fn is_ready(pod: &Object) -> bool {
    !pod.is_ending && condition(pod, "Ready").holds()
}

/// The labels of a pod.
pub(super) fn labels(pod: &Object) -> Option<&serde_json::Map<String, Value>> {
    pod.kept("/metadata/labels").and_then(Value::as_object)
}
