//! The strategy of Nodes.

use super::causes::Causes;
use super::dotted::{at, set, text};
use super::field_value::FieldValue;
use super::heartbeat::differs_in;
use super::kind_strategy::{KindStrategy, NO_OP};
use super::{Json, Part};

pub(super) static STRATEGY: KindStrategy =
    KindStrategy { prepare, check, create, update, status, heartbeat, ..NO_OP };

/// Sets missing `podCIDRs` from `podCIDR`.
fn prepare(node: &mut Json, _before: Option<&Json>, _part: &Part<'_>) {
    let first = text(node, "spec.podCIDR").to_owned();
    if !first.is_empty() && at(node, "spec.podCIDRs").is_none() {
        set(node, "spec.podCIDRs", Some(vec![first].into()));
    }
}

fn check(node: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = node.at("spec");
    let mut seen = std::collections::BTreeSet::new();
    for taint in spec.at("taints").items() {
        if causes.required(&taint.at("key"), "") {
            causes.qualified_name(&taint.at("key"));
        }
        causes.label_value(&taint.at("value"));
        causes.one_of(&taint.at("effect"), &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        if !seen.insert((taint.at("key").text(), taint.at("effect").text())) {
            causes.duplicate(&taint);
        }
    }
    let ranges = spec.at("podCIDRs");
    causes.at_most(&ranges, 2);
    ranges.items().for_each(|range| causes.cidr(&range));
    if ranges.items().next().is_some_and(|first| first.text() != spec.at("podCIDR").text()) {
        causes.invalid(&ranges, "first value must match `podCIDR`");
    }
}

/// Validates a new node with its status, because a create may include it.
fn create(node: &FieldValue<'_, '_>, causes: &mut Causes) {
    status(node, node, causes);
}

/// Requires that the provider ID and the pod CIDRs are set only once.
fn update(new: &FieldValue<'_, '_>, old: &FieldValue<'_, '_>, causes: &mut Causes) {
    for field in ["podCIDRs", "providerID"] {
        let (new, old) =
            (&new.at("spec").at(field).value().clone(), old.at("spec").at(field).value().clone());
        if !old.is_null() && *new != old {
            let field = format!("spec.{field}");
            let why = format!("node updates may not change {} except from \"\" to valid", &field[5..]);
            causes.push(super::Cause::forbidden(field, &why));
        }
    }
}

fn status(new: &FieldValue<'_, '_>, _old: &FieldValue<'_, '_>, causes: &mut Causes) {
    let status = new.at("status");
    for list in ["capacity", "allocatable"] {
        status.at(list).entries().for_each(|(_, amount)| causes.amount(&amount));
    }
    let mut seen = std::collections::BTreeSet::new();
    for address in status.at("addresses").items() {
        if !seen.insert((address.at("type").text(), address.at("address").text())) {
            causes.duplicate(&address);
        }
    }
}

/// True if an update changes only the heartbeat times of conditions.
fn heartbeat(before: &Json, after: &Json) -> bool {
    differs_in(&[&["status", "conditions", "*", "lastHeartbeatTime"]], before, after)
}
