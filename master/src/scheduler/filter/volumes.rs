//! A node has a pod if it reaches the volumes that its claims are bound to.

use super::Why;
use crate::scheduler::cluster::Cluster;
use crate::scheduler::node::Node;
use crate::scheduler::pod::{NodeTerm, Pod};
use crate::scheduler::volumes::{Asked, ZONES, newer};

/// What the claims of a pod ask, and whether somebody has one that is a single pod's.
#[derive(Debug)]
pub(super) struct Claims<'a> {
    asked: Asked<'a>,
    is_taken: bool,
}

impl<'a> Claims<'a> {
    /// Of a pod that is refused by no node for what its claims are.
    pub(super) fn of(cluster: &'a Cluster, pod: &'a Pod) -> Self {
        let asked = cluster.volumes().asked(pod).unwrap_or_default();
        let is_taken = asked.one_pods.iter().any(|claim| cluster.is_claimed(&pod.namespace, claim));
        Self { asked, is_taken }
    }

    pub(super) fn refuses(&self, node: &Node) -> Option<Vec<Why>> {
        if self.is_taken {
            return Some(vec![Why::ClaimTaken]);
        }
        let reaches = |terms: &&[_]| terms.iter().any(|term: &NodeTerm| term.holds(&node.name, &node.labels));
        let whys = [
            (!self.asked.terms.iter().all(reaches)).then_some(Why::VolumeAffinity),
            self.asked.is_unbound.then_some(Why::Unbound),
            self.asked.is_volume_gone.then_some(Why::VolumeGone),
        ];
        let whys: Vec<Why> = whys.into_iter().flatten().collect();
        if whys.is_empty() { self.is_elsewhere(node).then(|| vec![Why::VolumeZone]) } else { Some(whys) }
    }

    /// Whether a volume is in another zone or region than the node; one that says nothing of where it is reaches all.
    fn is_elsewhere(&self, node: &Node) -> bool {
        let says = || ZONES.iter().any(|key| node.labels.contains_key(*key));
        let is_in = |(key, zones): &(String, Vec<String>)| {
            let here = node.labels.get(key).or_else(|| node.labels.get(newer(key)));
            here.is_some_and(|here| zones.contains(here))
        };
        !self.asked.zones.is_empty() && says() && !self.asked.zones.iter().copied().flatten().all(is_in)
    }
}
