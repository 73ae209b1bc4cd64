//! VolumeBinding, VolumeZone and VolumeRestrictions filters: they check claims, their volumes, and the nodes that
//! can access these.

use super::Reason;
use crate::objects::node_affinity::NodeSelectorTerm;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::Node;
use crate::scheduler::pod::Pod;
use crate::scheduler::volumes::{VolumeRequirements, ZONES, ga_label};

/// Requirements of the pod's claims, and whether another pod uses a ReadWriteOncePod claim of the pod.
#[derive(Debug)]
pub(super) struct VolumeBinding<'a> {
    requirements: VolumeRequirements<'a>,
    has_claim_conflict: bool,
}

impl<'a> VolumeBinding<'a> {
    /// Computes the requirements of the pod's claims. A pod with an unusable claim is rejected before any node is
    /// filtered.
    pub(super) fn of(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        let requirements = cluster.volumes().requirements_of(pod).unwrap_or_default();
        let has_claim_conflict =
            requirements.read_write_once_pod.iter().any(|claim| cluster.is_claimed(&pod.namespace, claim));
        Self { requirements, has_claim_conflict }
    }

    pub(super) fn filter(&self, node: &Node) -> Option<Vec<Reason>> {
        if self.has_claim_conflict {
            return Some(vec![Reason::ReadWriteOncePodConflict]);
        }
        let reaches =
            |terms: &&[_]| terms.iter().any(|term: &NodeSelectorTerm| term.matches(&node.name, &node.labels));
        let reasons = [
            (!self.requirements.terms.iter().all(reaches)).then_some(Reason::VolumeNodeAffinityConflict),
            self.requirements.bindings_on(node).is_none().then_some(Reason::UnboundClaim),
            self.requirements.is_volume_missing.then_some(Reason::VolumeNotFound),
        ];
        let reasons: Vec<Reason> = reasons.into_iter().flatten().collect();
        if reasons.is_empty() {
            self.is_in_other_zone(node).then(|| vec![Reason::VolumeZoneConflict])
        } else {
            Some(reasons)
        }
    }

    /// Whether a volume is labelled with a zone or region that the node is not in. A node without such labels is
    /// not restricted.
    fn is_in_other_zone(&self, node: &Node) -> bool {
        let has_zone = || ZONES.iter().any(|key| node.labels.contains_key(key));
        let is_in = |(key, zones): &(String, Vec<String>)| {
            let here = node.labels.get(key).or_else(|| node.labels.get(ga_label(key)));
            here.is_some_and(|here| zones.iter().any(|zone| zone == here))
        };
        !self.requirements.zones.is_empty()
            && has_zone()
            && !self.requirements.zones.iter().copied().flatten().all(is_in)
    }
}
