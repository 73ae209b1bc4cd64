//! Preemption dry run on one node.
//!
//! It removes all pods of lower priority, and then restores as many as possible: first the pods with a PDB
//! violation, and in each group the most important pods first. Mirror pods are no victims, because their nodes
//! would create them again.

use std::sync::Arc;

use super::budgets::Budgets;
use crate::scheduler::cluster::{Cluster, PlacedPod};
use crate::scheduler::filter::{Reason, TopologyPairCounts, filter_with_nominated};
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;

/// A node and the victims that make it feasible.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub node: NodeId,
    /// Pods to delete, the most important one first. There is at least one.
    pub victims: Vec<Arc<Pod>>,
    /// Number of PDB violations.
    pub violations: usize,
}

/// Why preemption does not help on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotPreemptable {
    /// The node has no pods of lower priority.
    NoLowerPriority,
    /// The node rejects the pod even without pods of lower priority.
    StillUnschedulable(Vec<Reason>),
}

/// Selects the victims on a node. The cluster is restored before the function returns.
pub fn victims_on(
    cluster: &mut Cluster,
    pod: &Pod,
    (node, pair_counts): (NodeId, &TopologyPairCounts),
    budgets: &Budgets,
) -> Result<Candidate, NotPreemptable> {
    let all = cluster.node(node).map(|(node_info, _)| node_info.pods.as_slice()).unwrap_or_default();
    let lower_priority =
        all.iter().filter(|other| !other.is_mirror && other.spec.priority < pod.spec.priority);
    let mut lower_priority: Vec<Arc<Pod>> = lower_priority.cloned().collect();
    if lower_priority.is_empty() {
        return Err(NotPreemptable::NoLowerPriority);
    }
    lower_priority.sort_by_key(|pod| pod.importance());
    let mut removed: Vec<PlacedPod> =
        lower_priority.iter().filter_map(|pod| cluster.take_pod(&pod.uid)).collect();
    if let Some(reasons) = filter_with_nominated(cluster, pod, node, pair_counts) {
        removed.into_iter().for_each(|placed| cluster.restore_pod(placed));
        return Err(NotPreemptable::StillUnschedulable(reasons));
    }
    let violates: Vec<bool> = budgets.violations_of(&lower_priority);
    let (mut victims, mut violations) = (Vec::new(), 0);
    for violating in [true, false] {
        for (other, _) in lower_priority.iter().zip(&violates).filter(|(_, violates)| **violates == violating)
        {
            let Some(at) = removed.iter().position(|placed| placed.is(&other.uid)) else { continue };
            cluster.restore_pod(removed.swap_remove(at));
            if filter_with_nominated(cluster, pod, node, pair_counts).is_some() {
                removed.extend(cluster.take_pod(&other.uid));
                victims.push(other.clone());
                violations += usize::from(violating);
            }
        }
    }
    removed.into_iter().for_each(|placed| cluster.restore_pod(placed));
    victims.sort_by_key(|pod| pod.importance());
    if victims.is_empty() {
        return Err(NotPreemptable::StillUnschedulable(Vec::new()));
    }
    Ok(Candidate { node, victims, violations })
}
