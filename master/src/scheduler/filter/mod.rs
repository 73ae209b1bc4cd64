//! Filter plugins: they decide which nodes fit a pod, and run in the order of the stock scheduler.

mod inter_pod_affinity;
mod nominated;
mod pod_topology_spread;
mod reason;
#[cfg(test)]
mod tests;
mod volume_binding;

pub use self::nominated::{filter_with_nominated, nominated_conflicts};
pub use self::pod_topology_spread::{TopologyPairCounts, is_node_counted};
pub use self::reason::{Plugin, Reason};
use super::cluster::Cluster;
use super::node::{Node, NodeId, NodeInfo};
use super::pod::Pod;
use crate::objects::Taint;
use inter_pod_affinity::InterPodAffinity;
use pod_topology_spread::PodTopologySpread;
use volume_binding::VolumeBinding;

/// What the filter plugins compute once per pod (PreFilter).
#[derive(Debug)]
pub struct PreFilterState<'a> {
    pod: &'a Pod,
    volume_binding: VolumeBinding<'a>,
    inter_pod_affinity: InterPodAffinity<'a>,
    pod_topology_spread: PodTopologySpread<'a>,
    /// Resources that only extenders check.
    ignored_resources: &'a [String],
}

impl<'a> PreFilterState<'a> {
    /// Computes the state for a pod. The cache must count the terms of the pod.
    pub fn of(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        Self::with(cluster, pod, PodTopologySpread::of(cluster, pod))
    }

    /// Computes the state for one node whose pods differ from those in `pair_counts`. Does not iterate over all
    /// nodes.
    fn on(cluster: &'a Cluster, pod: &'a Pod, id: NodeId, pair_counts: &TopologyPairCounts) -> Self {
        Self::with(cluster, pod, PodTopologySpread::on(cluster, pod, id, pair_counts))
    }

    fn with(cluster: &'a Cluster, pod: &'a Pod, pod_topology_spread: PodTopologySpread<'a>) -> Self {
        Self {
            pod,
            volume_binding: VolumeBinding::of(cluster, pod),
            inter_pod_affinity: InterPodAffinity::of(cluster, pod),
            pod_topology_spread,
            ignored_resources: cluster.ignored_resources(),
        }
    }

    /// Runs the filters on a node. Returns all reasons of the first plugin that rejects it, or `None` if the pod fits.
    pub fn filter(&self, node_info: &NodeInfo, node: &Node) -> Option<Vec<Reason>> {
        let pod = self.pod;
        let one = |reason: Option<Reason>| reason.map(|reason| vec![reason]);
        one(node_unschedulable(pod, node))
            .or_else(|| one(node_name(pod, node)))
            .or_else(|| one(taint_toleration(pod, node)))
            .or_else(|| one(node_affinity(pod, node)))
            .or_else(|| one(node_ports(pod, node_info)))
            .or_else(|| node_resources_fit(pod, node_info, node, self.ignored_resources))
            .or_else(|| self.volume_binding.filter(node))
            .or_else(|| one(self.pod_topology_spread.filter(node)))
            .or_else(|| one(self.inter_pod_affinity.filter(node)))
    }

    /// Runs the filters on the node with the given id. A node that no longer exists is not rejected.
    pub fn filter_at(&self, cluster: &Cluster, id: NodeId) -> Option<Vec<Reason>> {
        let (node_info, node) = cluster.node(id)?;
        self.filter(node_info, node)
    }
}

/// The key of the taint that a node with `spec.unschedulable` has.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// NodeUnschedulable: rejects cordoned nodes unless the pod tolerates the unschedulable taint.
fn node_unschedulable(pod: &Pod, node: &Node) -> Option<Reason> {
    let is_tolerated = || {
        let taint =
            Taint { key: UNSCHEDULABLE_TAINT.into(), effect: "NoSchedule".into(), ..Taint::default() };
        pod.spec.tolerations.tolerate(&taint)
    };
    (node.unschedulable && !is_tolerated()).then_some(Reason::NodeUnschedulable)
}

/// NodeName: rejects nodes other than the one in `spec.nodeName`.
fn node_name(pod: &Pod, node: &Node) -> Option<Reason> {
    (!pod.node.is_empty() && pod.node != node.name).then_some(Reason::NodeNameMismatch)
}

/// TaintToleration: rejects nodes with a NoSchedule or NoExecute taint that the pod does not tolerate.
fn taint_toleration(pod: &Pod, node: &Node) -> Option<Reason> {
    let taint = pod.spec.tolerations.first_untolerated(&node.taints)?;
    Some(Reason::UntoleratedTaint(taint.key.to_string(), taint.value.to_string()))
}

/// NodeAffinity: rejects nodes that match neither the node selector nor the required node affinity.
fn node_affinity(pod: &Pod, node: &Node) -> Option<Reason> {
    (!matches_node_affinity(pod, node)).then_some(Reason::NodeAffinityMismatch)
}

/// Whether the node matches the pod's node selector and required node affinity.
pub fn matches_node_affinity(pod: &Pod, node: &Node) -> bool {
    pod.spec.required_node_affinity.matches(&node.name, &node.labels)
}

/// NodePorts: rejects nodes on which another pod uses one of the pod's host ports.
fn node_ports(pod: &Pod, node_info: &NodeInfo) -> Option<Reason> {
    let is_taken = |port| node_info.host_ports.keys().any(|taken| taken.conflicts(port));
    pod.spec.host_ports.iter().any(is_taken).then_some(Reason::PortConflict)
}

/// NodeResourcesFit: rejects nodes with too little of a requested resource left, or with no room for one more pod.
///
/// Resources in `ignored` are not checked: an extender manages them.
fn node_resources_fit(
    pod: &Pod,
    node_info: &NodeInfo,
    node: &Node,
    ignored: &[String],
) -> Option<Vec<Reason>> {
    let (request, has, used) = (&pod.spec.requests, &node.allocatable, &node_info.requested);
    let is_short = |request: i64, has: i64, used: i64| request > 0 && request > has - used;
    let common = [
        ("cpu", request.cpu_milli, has.cpu_milli, used.cpu_milli),
        ("memory", request.memory, has.memory, used.memory),
        ("ephemeral-storage", request.ephemeral_storage, has.ephemeral_storage, used.ephemeral_storage),
    ];
    let scalar = || {
        let counted = request.scalar.iter().filter(|(name, _)| !ignored.contains(name));
        counted.map(|(name, request)| (name.as_str(), *request, has.scalar(name), used.scalar(name)))
    };
    let is_full = node_info.pod_count + 1 > node.allowed_pods;
    let mut fits = !is_full && !common.iter().any(|(_, request, has, used)| is_short(*request, *has, *used));
    fits &= scalar().all(|(_, request, has, used)| !is_short(request, has, used));
    if fits {
        return None;
    }
    let short =
        common.into_iter().chain(scalar()).filter(|(_, request, has, used)| is_short(*request, *has, *used));
    let short = short.map(|(name, request, has, _)| Reason::InsufficientResource {
        name: name.to_owned(),
        unresolvable: request > has,
    });
    Some(is_full.then_some(Reason::TooManyPods).into_iter().chain(short).collect())
}
