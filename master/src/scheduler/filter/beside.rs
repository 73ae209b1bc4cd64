//! Whether a node may have a pod beside those whom it is promised to and who go before the pod.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Prepared, Stand, Why};
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;

/// The nodes that are promised to others who go before the pod, and why those of them may not have it that may not.
pub fn crowded(cluster: &mut Cluster, pod: &Pod) -> HashMap<NodeId, Vec<Why>> {
    let mut promised = HashMap::<NodeId, Vec<Arc<Pod>>>::new();
    for (node, other) in cluster.nominees().before(pod) {
        if let Some((id, ..)) = cluster.named(node) {
            promised.entry(id).or_default().push(other.clone());
        }
    }
    if promised.is_empty() {
        return HashMap::new();
    }
    let stand = Stand::of(cluster, pod);
    let refusing = promised.into_iter();
    refusing
        .filter_map(|(id, others)| Some((id, refuses_with(cluster, pod, (id, &stand), &others)?)))
        .collect()
}

/// Why a node may not have the pod: with those whom it is promised to, or without them, whom the pod may not count upon. On no other
/// node are pods others than when they were counted.
pub fn refuses_beside(cluster: &mut Cluster, pod: &Pod, id: NodeId, stand: &Stand) -> Option<Vec<Why>> {
    let name = cluster.node(id).map(|(_, node)| node.name.as_str()).unwrap_or_default();
    let others = cluster.nominees().before(pod).filter(|(node, _)| *node == name);
    let others: Vec<Arc<Pod>> = others.map(|(_, other)| other.clone()).collect();
    if !others.is_empty()
        && let Some(whys) = refuses_with(cluster, pod, (id, stand), &others)
    {
        return Some(whys);
    }
    Prepared::on(cluster, pod, id, stand).refuses_at(cluster, id)
}

/// The same with these on it, which are taken off again.
fn refuses_with(
    cluster: &mut Cluster,
    pod: &Pod,
    (id, stand): (NodeId, &Stand),
    others: &[Arc<Pod>],
) -> Option<Vec<Why>> {
    let name = cluster.node(id).map(|(_, node)| node.name.clone()).unwrap_or_default();
    let others: Vec<&Arc<Pod>> = others.iter().filter(|other| !cluster.has(&other.uid)).collect();
    for other in &others {
        cluster.put_pod(Arc::clone(other), &name, true);
    }
    let refused = Prepared::on(cluster, pod, id, stand).refuses_at(cluster, id);
    for other in &others {
        cluster.remove_pod(&other.uid);
    }
    refused
}
