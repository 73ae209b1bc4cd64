//! Checks the control plane: its pods, the quorum of its etcd, and leases of leader election that their holder does not renew. Pure.

use jiff::SignedDuration;

use super::kinds::Pod;
use super::{World, pods};
use crate::check::finding::{Finding, Subject, counted};
use crate::controllers::{COMPLEMENTARY_LEASE, CONTROLLER_MANAGER};
use crate::objects::Lease;

/// Namespace of control plane pods, as in stock manifests, and of the leases of leader election.
const NAMESPACE: &str = "kube-system";
/// Labels of control plane pods, as in stock manifests.
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

/// For each lease: its name, the effect of a missing leader, and how to start one.
const ROLES: &[(&str, &str, &str)] = &[
    ("kube-scheduler", "no scheduler is active", "`master scheduler`, or a master with --scheduler=true"),
    (CONTROLLER_MANAGER, "no controllers are active", "`master controllers`, or a master with --controllers"),
    (COMPLEMENTARY_LEASE, "no controllers of the master are active", "a master with --controllers"),
];
/// Age from which a lease counts as abandoned. A standby takes over an expired lease within seconds.
const TAKEN_OVER: SignedDuration = SignedDuration::from_secs(60);

/// Findings for all leader-election leases.
pub fn leader_findings(world: &World) -> Vec<Finding> {
    let leases = world.lists.leases.iter().filter(|lease| &*lease.metadata.namespace == NAMESPACE);
    leases.filter_map(|lease| of_lease(world, lease)).collect()
}

fn of_lease(world: &World, lease: &Lease) -> Option<Finding> {
    let Lease { metadata, spec } = lease;
    let (_, what, start) = ROLES.iter().find(|(name, ..)| *name == &*metadata.name)?;
    // A leader that stops releases its lease.
    let holder = Some(&spec.holder_identity).filter(|holder| !holder.is_empty())?;
    let allowed = SignedDuration::from_secs(spec.lease_duration_seconds.unwrap_or_default().clamp(0, 3600))
        + TAKEN_OVER;
    let since = world.since(spec.renew_time);
    let is_due = world.started.is_none_or(|started| world.now.duration_since(started) > allowed);
    (since > allowed && is_due).then(|| {
        let remedy = format!("start one ({start}) and see its log; delete the lease if it is not needed");
        let cause = format!("{holder} holds the lease and has not renewed it for {} s", since.as_secs());
        Finding::problem(Subject::of("Lease", metadata), *what, remedy).because(cause)
    })
}
