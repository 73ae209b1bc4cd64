//! Rather where large images of the pod are already, the more so the more nodes have them: one that a single node has would have
//! all pods there.

use super::MOST;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::NodeId;
use crate::scheduler::pod::Pod;

const MB: i64 = 1024 * 1024;
/// Less than that is fetched in no time; the stock scheduler's.
const LEAST: i64 = 23 * MB;
/// More than that counts as so much, for each container; the stock scheduler's.
const LARGEST: i64 = 1000 * MB;

pub(super) fn scores(cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Vec<i64>> {
    let all = i64::try_from(cluster.count()).unwrap_or(i64::MAX).max(1);
    let images: Vec<(&String, i64)> =
        pod.wants.images.iter().map(|image| (image, cluster.nodes_with(image))).collect();
    // Where no node has any, all are alike.
    if images.iter().all(|(_, holders)| *holders == 0) {
        return None;
    }
    let most = LARGEST * i64::try_from(images.len()).unwrap_or(1);
    let score = |id: &NodeId| {
        let Some((_, node)) = cluster.node(*id) else { return 0 };
        let here = images.iter().filter_map(|(image, holders)| Some((node.images.get(*image)?, holders)));
        let sum: i64 = here.map(|(size, holders)| size.saturating_mul(*holders) / all).sum();
        MOST * (sum.clamp(LEAST, most) - LEAST) / (most - LEAST)
    };
    Some(nodes.iter().map(score).collect())
}
