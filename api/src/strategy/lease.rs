//! Leases: who holds something, and for how long.

use super::Json;
use super::fill::{at, text};
use super::heartbeat::differs_in;
use super::rules::{NONE, Rules};

/// Where each node has a lease that says it is alive. What other leases say, who leads, is decided by when.
const OF_NODES: &str = "kube-node-lease";

pub(super) static RULES: Rules = Rules {
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
    ..NONE
};

/// A node renews the lease it has.
fn heartbeat(before: &Json, after: &Json) -> bool {
    let is_held = at(before, "spec.renewTime").is_some() && at(after, "spec.renewTime").is_some();
    is_held
        && text(after, "metadata.namespace") == OF_NODES
        && differs_in(&[&["spec", "renewTime"]], before, after)
}
