//! Filters a node with the pods that are nominated to it and have at least the priority of the pod.

use std::collections::HashMap;
use std::sync::Arc;

use super::{PreFilterState, Reason, TopologyPairCounts};
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;

/// Returns the nodes on which more important nominated pods leave no room for the pod, with the reasons.
pub fn nominated_conflicts(cluster: &mut Cluster, pod: &Pod) -> HashMap<NodeId, Vec<Reason>> {
    let mut nominated = HashMap::<NodeId, Vec<Arc<Pod>>>::new();
    for (node, other) in cluster.nominated_pods().at_least_as_important(pod) {
        if let Some((id, ..)) = cluster.node_named(node) {
            nominated.entry(id).or_default().push(other.clone());
        }
    }
    if nominated.is_empty() {
        return HashMap::new();
    }
    let pair_counts = TopologyPairCounts::of(cluster, pod);
    let conflicts = nominated.into_iter();
    conflicts
        .filter_map(|(id, others)| Some((id, filter_with_added(cluster, pod, (id, &pair_counts), &others)?)))
        .collect()
}

/// Filters a node twice: with the more important pods that are nominated to it, and without them. The pod must fit
/// both times, because the nominated pods may never run there. Only the pods of this node may differ from
/// `pair_counts`.
pub fn filter_with_nominated(
    cluster: &mut Cluster,
    pod: &Pod,
    id: NodeId,
    pair_counts: &TopologyPairCounts,
) -> Option<Vec<Reason>> {
    let name = cluster.node(id).map(|(_, node)| node.name.as_str()).unwrap_or_default();
    let others = cluster.nominated_pods().at_least_as_important(pod).filter(|(node, _)| *node == name);
    let others: Vec<Arc<Pod>> = others.map(|(_, other)| other.clone()).collect();
    if !others.is_empty()
        && let Some(reasons) = filter_with_added(cluster, pod, (id, pair_counts), &others)
    {
        return Some(reasons);
    }
    PreFilterState::on(cluster, pod, id, pair_counts).filter_at(cluster, id)
}

/// Filters the node with `others` added, and removes them again.
fn filter_with_added(
    cluster: &mut Cluster,
    pod: &Pod,
    (id, pair_counts): (NodeId, &TopologyPairCounts),
    others: &[Arc<Pod>],
) -> Option<Vec<Reason>> {
    let name = cluster.node(id).map(|(_, node)| node.name.clone()).unwrap_or_default();
    let others: Vec<&Arc<Pod>> = others.iter().filter(|other| !cluster.has(&other.uid)).collect();
    for other in &others {
        cluster.put_pod(Arc::clone(other), &name, true);
    }
    let reasons = PreFilterState::on(cluster, pod, id, pair_counts).filter_at(cluster, id);
    for other in &others {
        cluster.remove_pod(&other.uid);
    }
    reasons
}
