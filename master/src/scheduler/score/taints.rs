//! Rather where fewer taints would have pods elsewhere.

use super::stretch;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;
use crate::scheduler::taints::are_borne;

pub(super) fn scores(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let tolerations = &pod.wants.tolerations;
    let mut is_any = false;
    let count = |id: &NodeId| -> i64 {
        let Some((_, node)) = cluster.node(*id) else { return 0 };
        let soft = node.taints.iter().filter(|taint| taint.effect == "PreferNoSchedule");
        soft.map(|taint| i64::from(!are_borne(tolerations, taint))).sum()
    };
    let counts: Vec<i64> = nodes.iter().map(count).inspect(|count| is_any |= *count > 0).collect();
    // Without such taints all are alike.
    is_any.then(|| stretch(counts, true))
}
