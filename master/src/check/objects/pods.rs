//! Checks pods: pending, failed, not ready, or stuck in termination. Pure.

mod containers;

use std::collections::HashSet;

use jiff::SignedDuration;

use super::kinds::{Pod, condition, joined, why};
use super::{PATIENCE, World, plane};
use crate::check::finding::{Finding, Severity, Subject};

/// Grace period for a control plane pod to become ready.
const PATIENCE_WITH_MASTERS: SignedDuration = SignedDuration::from_secs(60);

/// Findings for all pods.
pub fn findings(world: &World) -> Vec<Finding> {
    let nodes: HashSet<&str> = world.lists.nodes.iter().map(|node| &*node.metadata.name).collect();
    world.lists.pods.iter().flat_map(|pod| of_pod(world, &nodes, pod)).collect()
}

fn of_pod(world: &World, nodes: &HashSet<&str>, pod: &Pod) -> Vec<Finding> {
    if pod.metadata.is_terminating() {
        return ending(world, nodes, pod).into_iter().collect();
    }
    let own = containers::findings(world, pod);
    if !own.is_empty() {
        return own;
    }
    let found = match &*pod.status.phase {
        "Succeeded" => None,
        "Failed" => Some(failed(pod)),
        "Running" => unready(world, pod),
        _ => waiting(world, nodes, pod),
    };
    found.into_iter().collect()
}

/// The finding for a pending pod. It is gated, unschedulable, or does not start on its node.
fn waiting(world: &World, nodes: &HashSet<&str>, pod: &Pod) -> Option<Finding> {
    let gates: Vec<&str> = pod.spec.scheduling_gates.iter().map(|gate| &*gate.name).collect();
    let scheduled = condition(&pod.status.conditions, "PodScheduled");
    let node = &*pod.spec.node_name;
    let is_late = world.since(pod.metadata.creation_timestamp) > PATIENCE;
    let pending = |cause: String, remedy: String| {
        Some(Finding::problem(Subject::of("Pod", &pod.metadata), "is Pending", remedy).because(cause))
    };
    if node.is_empty() && &*scheduled.status == "False" && &*scheduled.reason != "SchedulingGated" {
        let remedy = "provide what the message names: a node with that capacity, label or volume, or lower the pod's requirements";
        return pending(why(scheduled), remedy.to_owned());
    }
    if !is_late {
        return None;
    }
    if !gates.is_empty() {
        let remedy = "check that the components that remove these gates run; the creator of the pod or the master's --scheduling-gates set them";
        return pending(format!("it is gated by {}", gates.join(", ")), remedy.to_owned());
    }
    if node.is_empty() {
        let remedy = "check that a scheduler runs; a Binding or spec.nodeName assigns a node manually";
        return pending("no scheduler has processed it".to_owned(), remedy.to_owned());
    }
    if !nodes.contains(node) {
        let remedy = format!("delete the pod, or let {node} join");
        return pending(format!("its node {node} does not exist"), remedy);
    }
    let reason_text = joined(&pod.status.reason, &pod.status.message);
    let cause =
        if reason_text.is_empty() { format!("{node} has not reported its status") } else { reason_text };
    pending(cause, format!("see see its events, and the log of the kubelet on {node}: {}", describe(pod)))
}

fn failed(pod: &Pod) -> Finding {
    let why = joined(&pod.status.reason, &pod.status.message);
    let remedy = format!(
        "see its log (`kubectl logs -n {} {}`), then delete it",
        pod.metadata.namespace, pod.metadata.name
    );
    Finding::warning(Subject::of("Pod", &pod.metadata), "has failed", remedy).because(why)
}

/// The finding for a running pod that is not ready after its grace period.
fn unready(world: &World, pod: &Pod) -> Option<Finding> {
    let ready = condition(&pod.status.conditions, "Ready");
    let since = world.since(ready.last_transition_time);
    let (patience, of, severity) = match plane::has(pod) {
        true => (PATIENCE_WITH_MASTERS, "belongs to the control plane and ", Severity::Problem),
        false => (PATIENCE, "", Severity::Warning),
    };
    (&*ready.status == "False" && since > patience).then(|| {
        let what = format!("{of}has not been ready for {} min", since.as_mins());
        let remedy = format!("see see its readiness probe and its events: {}", describe(pod));
        Finding::problem(Subject::of("Pod", &pod.metadata), what, remedy).because(why(ready)).graded(severity)
    })
}

/// The finding for a pod whose termination is overdue. `deletionTimestamp` includes the grace period.
fn ending(world: &World, nodes: &HashSet<&str>, pod: &Pod) -> Option<Finding> {
    if world.since(pod.metadata.deletion_timestamp) < PATIENCE {
        return None;
    }
    let node = &*pod.spec.node_name;
    let (cause, remedy) = if !pod.metadata.finalizers.is_empty() {
        (
            format!("finalizers block it: {}", pod.metadata.finalizers.join(", ")),
            "check that the controllers that remove them run, or remove them manually (`kubectl edit`)"
                .to_owned(),
        )
    } else if node.is_empty() || !nodes.contains(node) {
        let cause = if node.is_empty() {
            "it has no node".to_owned()
        } else {
            format!("its node {node} does not exist")
        };
        (
            cause,
            format!(
                "`kubectl delete pod -n {} {} --force --grace-period=0`",
                pod.metadata.namespace, pod.metadata.name
            ),
        )
    } else {
        (
            format!("{node} has not reported its termination"),
            format!(
                "check that the kubelet of {node} runs; delete the pod with --force only if that machine is permanently off"
            ),
        )
    };
    Some(Finding::problem(Subject::of("Pod", &pod.metadata), "is stuck in deletion", remedy).because(cause))
}

fn describe(pod: &Pod) -> String {
    format!("`kubectl describe pod -n {} {}`", pod.metadata.namespace, pod.metadata.name)
}

/// True if the pod is ready and not terminating.
pub(super) fn is_ready(pod: &Pod) -> bool {
    !pod.metadata.is_terminating() && condition(&pod.status.conditions, "Ready").is_true()
}
