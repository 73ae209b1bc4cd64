//! Nodes: what they repel, what they have, where their pods' addresses come from.

use super::causes::Causes;
use super::fill::{at, set, text};
use super::heartbeat::differs_in;
use super::place::Place;
use super::rules::{NONE, Rules};
use super::{Json, Part};

pub(super) static RULES: Rules = Rules { prepare, check, create, update, status, heartbeat, ..NONE };

/// The first range and the only range are the same fact.
fn prepare(node: &mut Json, _before: Option<&Json>, _part: &Part<'_>) {
    let first = text(node, "spec.podCIDR").to_owned();
    if !first.is_empty() && at(node, "spec.podCIDRs").is_none() {
        set(node, "spec.podCIDRs", Some(vec![first].into()));
    }
}

fn check(node: &Place<'_, '_>, causes: &mut Causes) {
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

/// A new node may bring its status along.
fn create(node: &Place<'_, '_>, causes: &mut Causes) {
    status(node, node, causes);
}

/// What a node is, and which addresses its pods have, is said once.
fn update(new: &Place<'_, '_>, old: &Place<'_, '_>, causes: &mut Causes) {
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

fn status(new: &Place<'_, '_>, _old: &Place<'_, '_>, causes: &mut Causes) {
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

/// A node says again how it is, and it is as before.
fn heartbeat(before: &Json, after: &Json) -> bool {
    differs_in(&[&["status", "conditions", "*", "lastHeartbeatTime"]], before, after)
}
