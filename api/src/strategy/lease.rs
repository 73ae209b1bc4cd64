//! The strategy of Leases.

use super::Json;
use super::dotted::{at, text};
use super::heartbeat::differs_in;
use super::kind_strategy::{KindStrategy, NO_OP};

/// The namespace of node leases. Renewals of other leases, such as for leader election, are not heartbeats.
const NODE_LEASE_NAMESPACE: &str = "kube-node-lease";

pub(super) static STRATEGY: KindStrategy = KindStrategy {
    check: |lease, causes| {
        let spec = lease.at("spec");
        causes.positive(&spec.at("leaseDurationSeconds"));
        causes.not_negative(&spec.at("leaseTransitions"));
        if !spec.at("strategy").is_absent() {
            causes.qualified_name(&spec.at("strategy"));
        } else if !spec.at("preferredHolder").is_empty() {
            causes.forbidden(&spec.at("preferredHolder"), "may only be specified if `strategy` is defined");
        }
    },
    heartbeat,
    ..NO_OP
};

/// True if a node renews its lease.
fn heartbeat(before: &Json, after: &Json) -> bool {
    let is_held = at(before, "spec.renewTime").is_some() && at(after, "spec.renewTime").is_some();
    is_held
        && text(after, "metadata.namespace") == NODE_LEASE_NAMESPACE
        && differs_in(&[&["spec", "renewTime"]], before, after)
}
