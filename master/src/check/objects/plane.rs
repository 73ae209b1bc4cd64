//! Checks a control plane that runs as pods, and the quorum of its etcd. Pure.

use super::kinds::Pod;
use super::{World, pods};
use crate::check::finding::{Finding, counted};

/// Namespace and labels of control plane pods, as in stock manifests.
const NAMESPACE: &str = "kube-system";
const TIER: &str = "tier";
const CONTROL_PLANE: &str = "control-plane";
const COMPONENT: &str = "component";
const ETCD: &str = "etcd";

/// True for pods of the control plane.
pub fn has(pod: &Pod) -> bool {
    &*pod.metadata.namespace == NAMESPACE && pod.metadata.label(TIER) == CONTROL_PLANE
}

/// The finding for an etcd cluster that would lose its quorum if one more member failed.
pub fn findings(world: &World) -> Vec<Finding> {
    let of_etcd =
        |pod: &&Pod| has(pod) && pod.metadata.label(COMPONENT) == ETCD && !pod.metadata.is_terminating();
    let members: Vec<&Pod> = world.lists.pods.iter().filter(of_etcd).collect();
    let ready = members.iter().filter(|pod| pods::is_ready(pod)).count();
    let quorum = members.len() / 2 + 1;
    if members.len() < 3 || ready > quorum {
        return Vec::new();
    }
    let what = format!("{ready} of {} are ready, and {quorum} must be", counted(members.len(), "member"));
    let remedy =
        "repair the others, or replace them one by one (docs/bootstrap.md), before another one fails";
    vec![Finding::warning("etcd", what, remedy).because("with one less, the cluster is read-only")]
}
