//! The control plane where it runs as pods: which pods are of it, and whether etcd can lose another member. Pure.

use super::{World, pods};
use crate::check::finding::{Finding, counted};
use crate::controllers::Object;

/// Where the pods of a control plane are, and the labels by which they are known, as stock manifests have them.
const NAMESPACE: &str = "kube-system";
const TIER: &str = "tier";
const CONTROL_PLANE: &str = "control-plane";
const COMPONENT: &str = "component";
const ETCD: &str = "etcd";

/// Whether the master or its store is in it.
pub fn has(pod: &Object) -> bool {
    pod.namespace == NAMESPACE && pod.label(TIER) == CONTROL_PLANE
}

/// Several members of an etcd are there so that one may fail: when none may any more, somebody should know.
pub fn findings(world: &World) -> Vec<Finding> {
    let of_etcd = |pod: &&Object| has(pod) && pod.label(COMPONENT) == ETCD && !pod.is_ending;
    let members: Vec<&Object> = world.of("pods").iter().filter(of_etcd).collect();
    let ready = members.iter().filter(|pod| pods::is_ready(pod)).count();
    let quorum = members.len() / 2 + 1;
    if members.len() < 3 || ready > quorum {
        return Vec::new();
    }
    let what = format!("{ready} of {} are ready, and {quorum} have to be", counted(members.len(), "member"));
    let remedy =
        "bring the others back, or replace them one by one (docs/bootstrap.md), before another one goes";
    vec![Finding::warning("etcd", what, remedy).because("with one less nothing can be written")]
}
