//! IPAddresses and ServiceCIDRs: which addresses services may have, and which they have.

use crate::strategy::rules::{NONE, Rules};

/// IPAddress.
pub(in crate::strategy) static ADDRESS: Rules = Rules {
    check: |address, causes| {
        let parent = address.at("spec.parentRef");
        if parent.is_absent() {
            return causes.missing(&parent, "");
        }
        causes.required(&parent.at("resource"), "");
        if causes.required(&parent.at("name"), "") {
            causes.path_segment(&parent.at("name"));
        }
    },
    frozen: &["spec.parentRef"],
    ..NONE
};

/// ServiceCIDR.
pub(in crate::strategy) static RANGE: Rules = Rules {
    check: |range, causes| {
        let ranges = range.at("spec.cidrs");
        causes.required(&ranges, "at least one CIDR required");
        causes.at_most(&ranges, 2);
        ranges.items().for_each(|range| causes.cidr(&range));
        let families: Vec<bool> = ranges.items().map(|range| range.text().contains(':')).collect();
        if families.len() == 2 && families[0] == families[1] {
            causes.invalid(&ranges, "two ranges must be of two families: an IPv4 one and an IPv6 one");
        }
    },
    frozen: &["spec.cidrs"],
    ..NONE
};
