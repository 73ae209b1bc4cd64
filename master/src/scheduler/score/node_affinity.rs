//! Rather on nodes that the pod prefers.

use super::stretch;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;

pub(super) fn scores(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let preferred = &pod.wants.preferred_nodes;
    if preferred.is_empty() {
        return None;
    }
    let weigh = |id: &NodeId| -> i64 {
        let Some((_, node)) = cluster.node(*id) else { return 0 };
        let held = preferred.iter().filter(|(_, term)| term.holds(&node.name, &node.labels));
        held.map(|(weight, _)| weight).sum()
    };
    Some(stretch(nodes.iter().map(weigh).collect(), false))
}
