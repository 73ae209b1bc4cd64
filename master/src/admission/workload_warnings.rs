//! Warns if no controller acts on a new workload object: this master does not run one, and no stock controller manager
//! leads.

use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};

use super::lister::Lister;
use crate::controllers::{CONTROLLER_MANAGER, EXTERNAL_LEASE, is_master_identity, workload_controller};
use crate::objects::Lease;
use crate::options::Controllers;

const LEASES: &str = "leases.coordination.k8s.io";
const NAMESPACE: &str = "kube-system";
/// Kinds that stock workload controllers act on.
const WORKLOADS: [&str; 8] = [
    "cronjobs.batch",
    "daemonsets.apps",
    "deployments.apps",
    "horizontalpodautoscalers.autoscaling",
    "jobs.batch",
    "replicasets.apps",
    "replicationcontrollers",
    "statefulsets.apps",
];
/// Maximum age of a lease renewal. The stock interval is two seconds, and clocks may differ.
const RENEWED_WITHIN: SignedDuration = SignedDuration::from_secs(60);

/// The plugin that adds the warning. It rejects nothing.
#[derive(Clone, Debug)]
pub struct WorkloadWarnings {
    lister: Lister,
    /// The controllers of this master.
    controllers: Controllers,
}

impl WorkloadWarnings {
    /// Reads leader-election leases from this lister.
    pub fn new(lister: Lister, controllers: Controllers) -> Self {
        Self { lister, controllers }
    }

    /// Whether a controller reconciles this resource.
    fn is_reconciled(&self, resource: &str) -> bool {
        let is_held = |name: &str, is_right: &dyn Fn(&Lease, Timestamp) -> bool| {
            let lease: Option<Lease> = self.lister.get(LEASES, NAMESPACE, name);
            lease.is_some_and(|lease| is_right(&lease, Timestamp::now()))
        };
        is_held(CONTROLLER_MANAGER, &is_led)
            || workload_controller(resource).is_some_and(|controller| {
                self.controllers.has(controller) || is_held(EXTERNAL_LEASE, &is_renewed)
            })
    }
}

#[async_trait]
impl Admission for WorkloadWarnings {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_new = attempt.operation == Operation::Create && attempt.subresource.is_none();
        let workload = WORKLOADS.iter().find(|kind| is_new && attempt.is_of(kind));
        if workload.is_some_and(|kind| !self.is_reconciled(kind)) {
            attempt.warnings.push(format!(
                "no controller acts on this {}: this master does not run one, and no stock kube-controller-manager \
                 holds its lease (docs/stock-components.md)",
                attempt.resource.kind
            ));
        }
        Ok(())
    }
}

/// Whether a stock controller manager holds its lease. The holder must renew the lease and must not be a master of
/// this project.
fn is_led(lease: &Lease, now: Timestamp) -> bool {
    is_renewed(lease, now) && !is_master_identity(&lease.spec.holder_identity)
}

/// Whether a lease has a holder that renews it.
fn is_renewed(lease: &Lease, now: Timestamp) -> bool {
    !lease.spec.holder_identity.is_empty()
        && lease.spec.renew_time.is_some_and(|renewed| now.duration_since(renewed) <= RENEWED_WITHIN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use serde_json::json;

    use super::*;
    use crate::controllers::master_identity;

    #[test]
    fn a_stock_controller_manager_leads_while_it_renews_its_lease() {
        let now: Timestamp = "2026-03-04T10:00:00Z".parse().unwrap();
        let ours = master_identity("10.0.0.1:6443".parse().unwrap(), "4f2a");
        let ours_v6 = master_identity("[fd00::1]:6443".parse().unwrap(), "4f2a");
        for (holder, renewed, expected) in [
            ("host_9b2c", "2026-03-04T09:59:58.000000Z", true),
            ("master-1_9b2c", "2026-03-04T09:59:58.000000Z", true),
            ("host_9b2c", "2026-03-04T09:58:00.000000Z", false),
            ("host_9b2c", "", false),
            ("", "2026-03-04T09:59:58.000000Z", false),
            (ours.as_str(), "2026-03-04T09:59:58.000000Z", false),
            (ours_v6.as_str(), "2026-03-04T09:59:58.000000Z", false),
        ] {
            let lease = json!({"spec": {"holderIdentity": holder, "renewTime": renewed}});
            let lease = serde_json::from_value(lease).unwrap();
            assert_eq!(is_led(&lease, now), expected, "{holder} {renewed}");
        }
        assert!(!is_led(&Lease::default(), now));
    }
}
