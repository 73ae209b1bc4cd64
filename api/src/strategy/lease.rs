//! Leases: who holds something, and for how long.

use super::rules::{NONE, Rules};

pub(super) static RULES: Rules = Rules {
    check: |lease, causes| {
        let spec = lease.at("spec");
        causes.positive(&spec.at("leaseDurationSeconds"));
        causes.not_negative(&spec.at("leaseTransitions"));
        if !spec.at("holderIdentity").is_absent() && spec.at("holderIdentity").is_empty() {
            causes.missing(&spec.at("holderIdentity"), "");
        }
        if !spec.at("strategy").is_absent() {
            causes.qualified_name(&spec.at("strategy"));
        } else if !spec.at("preferredHolder").is_empty() {
            causes.forbidden(&spec.at("preferredHolder"), "may only be specified if `strategy` is defined");
        }
    },
    ..NONE
};
