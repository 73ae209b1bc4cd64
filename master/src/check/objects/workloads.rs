//! Checks workload objects without a controller: the masters do not run one, and no stock kube-controller-manager is the
//! leader. Pure.

use jiff::SignedDuration;

use super::World;
use crate::check::finding::{Finding, counted};
use crate::controllers::{CONTROLLER_MANAGER, EXTERNAL_LEASE, is_master_identity, workload_controller};
use crate::objects::Conditioned;

const NAMESPACE: &str = "kube-system";
/// Maximum age of a lease renewal by the leader. A controller manager renews every two seconds, and clocks
/// may differ.
const RENEWED_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// Returns one finding for all objects without a controller.
pub fn findings(world: &World) -> Vec<Finding> {
    if !world.version.is_own() || has_leader(world, CONTROLLER_MANAGER, |holder| !is_master_identity(holder))
    {
        return Vec::new();
    }
    let has_own = has_leader(world, CONTROLLER_MANAGER, is_master_identity)
        || has_leader(world, EXTERNAL_LEASE, |_| true);
    let lists = &world.lists;
    let counts = [
        (lists.deployments.len(), "Deployment", "deployments.apps"),
        (lists.replica_sets.len(), "ReplicaSet", "replicasets.apps"),
        (lists.stateful_sets.len(), "StatefulSet", "statefulsets.apps"),
        (lists.daemon_sets.len(), "DaemonSet", "daemonsets.apps"),
        (lists.replication_controllers.len(), "ReplicationController", "replicationcontrollers"),
        (lists.jobs.iter().filter(|job| !has_finished(job)).count(), "Job", "jobs.batch"),
        (lists.cron_jobs.len(), "CronJob", "cronjobs.batch"),
    ];
    let is_reconciled = |resource: &str| has_own && workload_controller(resource).is_some();
    let counts = counts.into_iter().filter(|(count, _, resource)| *count > 0 && !is_reconciled(resource));
    let counts: Vec<String> = counts.map(|(count, kind, _)| counted(count, kind)).collect();
    if counts.is_empty() {
        return Vec::new();
    }
    let what = format!("no controller acts on {}", counts.join(", "));
    let remedy =
        "run a stock kube-controller-manager beside this master (docs/stock-components.md), or delete them";
    let cause = "this master does not run one, and no stock kube-controller-manager holds its lease";
    vec![Finding::warning("workloads", what, remedy).because(cause)]
}

/// Whether a holder renews a leader-election lease.
fn has_leader(world: &World, name: &str, is_right: impl Fn(&str) -> bool) -> bool {
    world.lists.leases.iter().any(|lease| {
        let holder = &lease.spec.holder_identity;
        &*lease.metadata.namespace == NAMESPACE
            && &*lease.metadata.name == name
            && !holder.is_empty()
            && is_right(holder)
            && world.since(lease.spec.renew_time) <= RENEWED_WITHIN
    })
}

/// True for a completed or failed Job.
fn has_finished(job: &Conditioned) -> bool {
    let mut conditions = job.status.conditions.iter();
    conditions.any(|condition| condition.is_true() && matches!(&*condition.r#type, "Complete" | "Failed"))
}
