//! Checks PodDisruptionBudgets that block every eviction, so that a drain of the node never ends. Pure.

use std::collections::{BTreeSet, HashSet};

use super::World;
use super::kinds::{Pod, condition, why};
use crate::check::finding::{Finding, Subject, counted};
use crate::objects::IntOrString;
use crate::objects::workload::PodDisruptionBudget;

/// Findings for all PodDisruptionBudgets.
pub fn findings(world: &World) -> Vec<Finding> {
    let cordoned = world.lists.nodes.iter().filter(|node| node.spec.unschedulable);
    let cordoned: HashSet<&str> = cordoned.map(|node| &*node.metadata.name).collect();
    let is_running = |pod: &&Pod| !pod.metadata.is_terminating() && &*pod.status.phase == "Running";
    let running: Vec<&Pod> = world.lists.pods.iter().filter(is_running).collect();
    let found = |budget: &PodDisruptionBudget| {
        let is_held = |pod: &&&Pod| {
            pod.metadata.namespace == budget.metadata.namespace
                && budget
                    .spec
                    .selector
                    .as_ref()
                    .is_some_and(|selector| selector.matches(&pod.metadata.labels))
        };
        let held: Vec<&Pod> = running.iter().filter(is_held).copied().collect();
        let uncontrolled = held.iter().filter(|pod| pod.metadata.controller().is_none()).count();
        let why = blocks(budget, uncontrolled)?;
        let leaving = held.iter().map(|pod| &*pod.spec.node_name).filter(|node| cordoned.contains(node));
        Some(finding(budget, &leaving.collect::<Vec<_>>(), why))
    };
    world.lists.pod_disruption_budgets.iter().filter_map(found).collect()
}

/// The reason why a budget allows no eviction.
struct Why {
    cause: String,
    remedy: &'static str,
    /// Whether the budget still blocks if all pods become ready.
    stays: bool,
}

/// The finding for a budget that allows no eviction. It is a problem if pods of a cordoned node stay blocked, otherwise
/// a warning. `leaving` has the node of each pod that should be evicted.
fn finding(budget: &PodDisruptionBudget, leaving: &[&str], Why { cause, remedy, stays }: Why) -> Finding {
    let subject = Subject::of("PodDisruptionBudget", &budget.metadata);
    let nodes: BTreeSet<&str> = leaving.iter().copied().collect();
    let Some(first) = nodes.first() else {
        return Finding::warning(subject, "allows no eviction, so that a drain never ends", remedy)
            .because(cause);
    };
    let more = match nodes.len() {
        1 => String::new(),
        many => format!(" and {}", counted(many.saturating_sub(1), "other")),
    };
    let pods = counted(leaving.len(), "pod");
    let what =
        format!("allows no eviction, and {pods} on {first}{more}, which is cordoned, cannot be evicted");
    match stays {
        true => Finding::problem(subject, what, remedy),
        false => Finding::warning(subject, what, remedy),
    }
    .because(cause)
}

/// The reason why the budget allows no eviction, or `None` if it allows one. `uncontrolled` is the number of its pods
/// without a controller.
fn blocks(budget: &PodDisruptionBudget, uncontrolled: usize) -> Option<Why> {
    let status = &budget.status;
    let (expected, healthy, wanted) = (status.expected_pods, status.current_healthy, status.desired_healthy);
    if never(budget) {
        let remedy = "allow one disruption: maxUnavailable: 1, or minAvailable below the number of pods";
        return Some(Why {
            cause: "its spec allows none for any number of pods".to_owned(),
            remedy,
            stays: true,
        });
    }
    let allowed = condition(&status.conditions, "DisruptionAllowed");
    if &*allowed.status == "False" && &*allowed.reason == "SyncFailed" {
        let remedy = "set minAvailable to a number, which does not depend on a controller; or restore the missing controller (a ReplicaSet, a \
                      StatefulSet)";
        return Some(Why { cause: why(allowed), remedy, stays: true });
    }
    if status.disruptions_allowed > 0 {
        return None;
    }
    if expected == 0 {
        let is_number = matches!(budget.spec.min_available, Some(IntOrString::Int(_)));
        let cause = format!(
            "{} without a controller (such as a ReplicaSet), and maxUnavailable and percentages only count pods with one",
            if uncontrolled == 1 {
                "1 of its pods is".to_owned()
            } else {
                format!("{uncontrolled} of its pods are")
            }
        );
        let remedy = "set minAvailable to a number below the number of pods";
        return (uncontrolled > 0 && !is_number).then_some(Why { cause, remedy, stays: true });
    }
    Some(if expected < wanted {
        let cause = format!("{wanted} pods must be healthy, and there are {expected}");
        Why { cause, remedy: "run more pods, or lower minAvailable", stays: true }
    } else if healthy < wanted {
        let cause = format!("{healthy} of its pods are healthy, and {wanted} must be");
        Why { cause, remedy: "fix the pods that are not ready", stays: false }
    } else {
        let cause = format!("{wanted} of {expected} pods must be healthy");
        let remedy = match uncontrolled {
            0 => "run one more pod, or allow one disruption (maxUnavailable: 1)",
            _ => "run one more pod, or set minAvailable below the number of pods",
        };
        Why { cause, remedy, stays: true }
    })
}

/// True if the budget allows no eviction for any number of pods.
fn never(budget: &PodDisruptionBudget) -> bool {
    let spares_none = match &budget.spec.max_unavailable {
        Some(IntOrString::Int(most)) => *most == 0,
        Some(IntOrString::String(most)) => &**most == "0%",
        None => false,
    };
    let least = &budget.spec.min_available;
    spares_none || matches!(least, Some(IntOrString::String(least)) if &**least == "100%")
}
