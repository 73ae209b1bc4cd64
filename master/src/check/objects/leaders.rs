//! Leases of what runs once in a cluster, which somebody holds who does not renew them any more. Pure.

use jiff::SignedDuration;
use serde_json::Value;

use super::World;
use super::field::text;
use crate::check::finding::{Finding, Subject};
use crate::controllers::Object;

/// Where these leases lie, who goes by each, and how it is started.
const NAMESPACE: &str = "kube-system";
const ROLES: &[(&str, &str, &str)] = &[
    (
        "kube-scheduler",
        "no scheduler gives pods their nodes",
        "`master scheduler`, or a master with --scheduler=true",
    ),
    ("kube-controller-manager", "no controllers run", "`master controllers`, or a master with --controllers"),
];
/// The next one takes a lease over seconds after it is over: by then nobody wants it.
const TAKEN_OVER: SignedDuration = SignedDuration::from_secs(60);

/// What nobody does any more.
pub fn findings(world: &World) -> Vec<Finding> {
    let leases = world.of("leases").iter().filter(|lease| lease.namespace == NAMESPACE);
    leases.filter_map(|lease| of_lease(world, lease)).collect()
}

fn of_lease(world: &World, lease: &Object) -> Option<Finding> {
    let (_, what, start) = ROLES.iter().find(|(name, ..)| *name == lease.name)?;
    // Whoever stops gives it back.
    let holder = Some(text(lease, "/spec/holderIdentity")).filter(|holder| !holder.is_empty())?;
    let lasts = lease.kept("/spec/leaseDurationSeconds").and_then(Value::as_i64).unwrap_or_default();
    let allowed = SignedDuration::from_secs(lasts.clamp(0, 3600)) + TAKEN_OVER;
    let since = world.since(text(lease, "/spec/renewTime"));
    let is_due = world.started.is_none_or(|started| world.now.duration_since(started) > allowed);
    (since > allowed && is_due).then(|| {
        let remedy =
            format!("start one ({start}) and see its log; delete the lease if none of these is to run");
        let cause = format!("{holder} holds the lease and has not renewed it for {} s", since.as_secs());
        Finding::problem(Subject::of("Lease", lease), *what, remedy).because(cause)
    })
}
