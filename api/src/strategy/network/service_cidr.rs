//! The strategies of IPAddresses and ServiceCIDRs.

use crate::strategy::kind_strategy::{KindStrategy, NO_OP};

/// The strategy of IPAddresses.
pub(in crate::strategy) static ADDRESS: KindStrategy = KindStrategy {
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
    immutable: &["spec.parentRef"],
    ..NO_OP
};

/// The strategy of ServiceCIDRs.
pub(in crate::strategy) static RANGE: KindStrategy = KindStrategy {
    check: |range, causes| {
        let ranges = range.at("spec.cidrs");
        causes.required(&ranges, "at least one CIDR required");
        causes.at_most(&ranges, 2);
        ranges.items().for_each(|range| causes.cidr(&range));
        let families: Vec<bool> = ranges.items().map(|range| range.text().contains(':')).collect();
        if families.len() == 2 && families[0] == families[1] {
            causes.invalid(&ranges, "two CIDRs must be one IPv4 and one IPv6 CIDR");
        }
    },
    immutable: &["spec.cidrs"],
    ..NO_OP
};
