//! Checks workload objects without a controller: this master has no workload controllers, and no
//! kube-controller-manager is the leader. Pure.

use jiff::SignedDuration;

use super::World;
use crate::check::finding::{Finding, counted};
use crate::controllers::{CONTROLLER_MANAGER, is_master_identity};
use crate::objects::Conditioned;

const NAMESPACE: &str = "kube-system";
/// Maximum age of a lease renewal by the leader. A stock controller manager renews every two seconds, and clocks
/// may differ.
const RENEWED_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// Returns one finding for all objects without a controller.
pub fn findings(world: &World) -> Vec<Finding> {
    if !world.version.is_own() || has_controller_manager(world) {
        return Vec::new();
    }
    let lists = &world.lists;
    let counts = [
        (lists.deployments.len(), "Deployment"),
        (lists.replica_sets.len(), "ReplicaSet"),
        (lists.stateful_sets.len(), "StatefulSet"),
        (lists.daemon_sets.len(), "DaemonSet"),
        (lists.replication_controllers.len(), "ReplicationController"),
        (lists.jobs.iter().filter(|job| !has_finished(job)).count(), "Job"),
        (lists.cron_jobs.len(), "CronJob"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, kind)| counted(count, kind)).collect();
    if counts.is_empty() {
        return Vec::new();
    }
    let what = format!("no controller acts on {}", counts.join(", "));
    let remedy =
        "run a stock kube-controller-manager beside this master (docs/stock-components.md), or delete them";
    let cause =
        "this master has no workload controllers, and no stock kube-controller-manager holds its lease";
    vec![Finding::warning("workloads", what, remedy).because(cause)]
}

fn has_controller_manager(world: &World) -> bool {
    world.lists.leases.iter().any(|lease| {
        let holder = &lease.spec.holder_identity;
        &*lease.metadata.namespace == NAMESPACE
            && &*lease.metadata.name == CONTROLLER_MANAGER
            && !holder.is_empty()
            && !is_master_identity(holder)
            && world.since(lease.spec.renew_time) <= RENEWED_WITHIN
    })
}

/// True for a completed or failed Job.
fn has_finished(job: &Conditioned) -> bool {
    let mut conditions = job.status.conditions.iter();
    conditions.any(|condition| condition.is_true() && matches!(&*condition.r#type, "Complete" | "Failed"))
}
