//! Checks leader-election leases whose holder does not renew them. Pure.

use jiff::SignedDuration;

use super::World;
use crate::check::finding::{Finding, Subject};
use crate::controllers::{COMPLEMENTARY_LEASE, CONTROLLER_MANAGER};
use crate::objects::Lease;

/// Namespace of the leader-election leases.
const NAMESPACE: &str = "kube-system";
/// For each lease: its name, the effect of a missing leader, and how to start one.
const ROLES: &[(&str, &str, &str)] = &[
    ("kube-scheduler", "no scheduler is active", "`master scheduler`, or a master with --scheduler=true"),
    (CONTROLLER_MANAGER, "no controllers are active", "`master controllers`, or a master with --controllers"),
    (COMPLEMENTARY_LEASE, "no controllers of the master are active", "a master with --controllers"),
];
/// Age from which a lease counts as abandoned. A standby takes over an expired lease within seconds.
const TAKEN_OVER: SignedDuration = SignedDuration::from_secs(60);

/// Findings for all leader-election leases.
pub fn findings(world: &World) -> Vec<Finding> {
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
