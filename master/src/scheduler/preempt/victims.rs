//! Who would go from one node: all of lower priority at first, then each is spared with whom the pod still fits, the most
//! important first and before all those whose budget would be broken. Mirror pods stay, as their nodes would make them again.

use std::sync::Arc;

use super::budgets::Budgets;
use crate::scheduler::cluster::{Cluster, Placed};
use crate::scheduler::filter::{Stand, Why, refuses_beside};
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;

/// A node that could be had, and who would go for it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// Who goes, the most important first; at least one.
    pub victims: Vec<Arc<Pod>>,
    /// How many of them go in spite of their budgets.
    pub violations: usize,
}

/// Why a node cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hopeless {
    /// Nobody is of a lower priority.
    Nobody,
    /// It refuses the pod without them as well.
    Still(Vec<Why>),
}

/// Who would go from that node, where pods stand so that count for the pod; the cluster is afterwards as it was.
pub fn victims_on(
    cluster: &mut Cluster,
    pod: &Pod,
    (node, stand): (NodeId, &Stand),
    budgets: &Budgets,
) -> Result<Candidate, Hopeless> {
    let all = cluster.node(node).map(|(slot, _)| slot.who.as_slice()).unwrap_or_default();
    let lower = all.iter().filter(|other| !other.is_mirror && other.wants.priority < pod.wants.priority);
    let mut lower: Vec<Arc<Pod>> = lower.cloned().collect();
    if lower.is_empty() {
        return Err(Hopeless::Nobody);
    }
    lower.sort_by_key(|pod| pod.importance());
    let mut lifted: Vec<Placed> = lower.iter().filter_map(|pod| cluster.lift(&pod.uid)).collect();
    if let Some(whys) = refuses_beside(cluster, pod, node, stand) {
        lifted.into_iter().for_each(|placed| cluster.lay(placed));
        return Err(Hopeless::Still(whys));
    }
    let breaks: Vec<bool> = budgets.break_with(&lower);
    let (mut victims, mut violations) = (Vec::new(), 0);
    for breaking in [true, false] {
        for (other, _) in lower.iter().zip(&breaks).filter(|(_, breaks)| **breaks == breaking) {
            let Some(at) = lifted.iter().position(|placed| placed.is(&other.uid)) else { continue };
            cluster.lay(lifted.swap_remove(at));
            if refuses_beside(cluster, pod, node, stand).is_some() {
                lifted.extend(cluster.lift(&other.uid));
                victims.push(other.clone());
                violations += usize::from(breaking);
            }
        }
    }
    lifted.into_iter().for_each(|placed| cluster.lay(placed));
    victims.sort_by_key(|pod| pod.importance());
    if victims.is_empty() {
        return Err(Hopeless::Still(Vec::new()));
    }
    Ok(Candidate { node, victims, violations })
}
