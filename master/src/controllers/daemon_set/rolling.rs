//! The step of a rolling update: old pods to delete, or new pods to create beside old ones. Pure.

use std::collections::HashMap;

use super::eligibility::Eligibility;
use super::plan::{Input, Limits, min_ready, to_delete};
use super::pods::{DaemonPod, PodsByNode};
use crate::controllers::workloads::pod_writes::PodToDelete;

/// The writes of a rolling update.
#[derive(Debug, Default)]
pub struct Step<'a> {
    pub create: Vec<&'a str>,
    pub delete: Vec<PodToDelete<'a>>,
}

/// The pods on a node that are not being deleted.
enum OnNode<'a, 'p> {
    /// More than one old pod, or more than one new pod. The excess is deleted first.
    Excess,
    /// At most one pod of each kind.
    Pods { new: Option<&'p DaemonPod<'a>>, old: Option<&'p DaemonPod<'a>> },
}

impl<'a, 'p> OnNode<'a, 'p> {
    fn of(pods: &'p [DaemonPod<'a>], hash: &str) -> Self {
        let (mut new, mut old) = (None, None);
        for pod in pods.iter().filter(|pod| !pod.replica.is_terminating) {
            let kind = if pod.is_updated(hash) { &mut new } else { &mut old };
            if kind.replace(pod).is_some() {
                return Self::Excess;
            }
        }
        Self::Pods { new, old }
    }
}

/// Returns the next step of the rolling update. Nodes that should run a pod and have none count as unavailable.
pub fn step<'a>(input: Input<'a>, pods: &PodsByNode<'a>) -> Step<'a> {
    let eligible: HashMap<&str, Eligibility> =
        input.nodes.iter().map(|node| (node.name, node.eligibility)).collect();
    let wanted = input.nodes.iter().filter(|node| node.eligibility == Eligibility::Run);
    let desired = wanted.clone().count();
    let empty = wanted.filter(|node| !pods.contains_key(node.name)).count();
    let limits = Limits::of(input.set, i64::try_from(desired).unwrap_or(i64::MAX));
    let is_available = |pod: &DaemonPod<'_>| pod.is_available(min_ready(input.set), input.now);
    let nodes = pods.iter().map(|(node, pods)| (*node, OnNode::of(pods, input.hash)));
    if limits.surge == 0 {
        return replace(nodes, empty, count(limits.unavailable), &is_available);
    }
    let may_run = |node: &str| eligible.get(node).copied();
    surge(nodes, desired, count(limits.surge), &is_available, &may_run)
}

/// Deletes old pods while at most `most` nodes are unavailable. New pods follow when the old ones have gone.
fn replace<'a, 'p>(
    nodes: impl Iterator<Item = (&'a str, OnNode<'a, 'p>)>,
    empty: usize,
    most: usize,
    is_available: &dyn Fn(&DaemonPod<'_>) -> bool,
) -> Step<'a>
where
    'a: 'p,
{
    let mut unavailable = empty;
    let (mut step, mut candidates) = (Step::default(), Vec::new());
    for (_, pods) in nodes {
        match pods {
            OnNode::Pods { new: None, old: Some(old) } if is_available(old) => {
                candidates.push(to_delete(old))
            }
            // The deletion of a pod that is not available makes nothing worse.
            OnNode::Pods { new: None, old: Some(old) } => {
                step.delete.push(to_delete(old));
                unavailable += 1;
            }
            OnNode::Pods { new: Some(new), old: None } if is_available(new) => {}
            OnNode::Pods { .. } | OnNode::Excess => unavailable += 1,
        }
    }
    step.delete.extend(candidates.into_iter().take(most.saturating_sub(unavailable)));
    step
}

/// Creates new pods beside old ones on at most `most` nodes. Deletes old pods with an available successor.
fn surge<'a, 'p>(
    nodes: impl Iterator<Item = (&'a str, OnNode<'a, 'p>)>,
    desired: usize,
    most: usize,
    is_available: &dyn Fn(&DaemonPod<'_>) -> bool,
    eligibility: &dyn Fn(&str) -> Option<Eligibility>,
) -> Step<'a>
where
    'a: 'p,
{
    let (mut surging, mut available) = (0, 0);
    let (mut step, mut candidates, mut sunset) = (Step::default(), Vec::new(), Vec::new());
    for (node, pods) in nodes {
        let OnNode::Pods { new, old } = pods else {
            surging += 1;
            continue;
        };
        available += usize::from(old.or(new).is_some_and(is_available));
        match (new, old, eligibility(node)) {
            // The pod garbage collector deletes the pods of a node that does not exist.
            (_, None, _) | (None, Some(_), None) => {}
            (None, Some(old), Some(Eligibility::Run)) => {
                if is_available(old) {
                    candidates.push(node)
                } else {
                    step.create.push(node)
                }
            }
            (None, Some(old), Some(Eligibility::Continue | Eligibility::Stop)) => {
                if is_available(old) {
                    sunset.push(to_delete(old))
                } else {
                    step.delete.push(to_delete(old))
                }
            }
            (Some(new), Some(old), _) if is_available(new) => step.delete.push(to_delete(old)),
            (Some(_), Some(_), _) => surging += 1,
        }
    }
    // Old pods on nodes that get no new ones are deleted when enough pods are available elsewhere.
    step.delete.extend(sunset.into_iter().take(available.saturating_sub(desired)));
    step.create.extend(candidates.into_iter().take(most.saturating_sub(surging)));
    step
}

fn count(number: i64) -> usize {
    usize::try_from(number).unwrap_or(0)
}
