//! The strategy of NetworkPolicies.

use serde_json::{Value, json};

use super::PROTOCOLS;
use crate::dotted::{at, each, fill};
use crate::strategy::causes::{Causes, is_cidr};
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};
use crate::strategy::{Json, selectors};

pub(in crate::strategy) static STRATEGY: KindStrategy = KindStrategy { default, check, ..NO_OP };

fn default(policy: &mut Json) {
    fill(policy, "spec.podSelector", Value::Object(Json::new()));
    if at(policy, "spec.policyTypes").is_none() {
        // A policy applies to egress by default only if it has egress rules.
        let types = match at(policy, "spec.egress") {
            Some(_) => json!(["Ingress", "Egress"]),
            None => json!(["Ingress"]),
        };
        fill(policy, "spec.policyTypes", types);
    }
    for direction in ["spec.ingress", "spec.egress"] {
        for rule in each(policy, direction) {
            each(rule, "ports").for_each(|port| fill(port, "protocol", "TCP"));
        }
    }
}

fn check(policy: &FieldValue<'_, '_>, causes: &mut Causes) {
    let spec = policy.at("spec");
    selectors::check(&spec.at("podSelector"), causes);
    for kind in spec.at("policyTypes").items() {
        causes.one_of(&kind, &["Egress", "Ingress"]);
    }
    causes.at_most(&spec.at("policyTypes"), 2);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.at(direction).items() {
            rule.at("ports").items().for_each(|port| check_port(&port, causes));
            rule.at(peers).items().for_each(|peer| check_peer(&peer, causes));
        }
    }
}

fn check_port(port: &FieldValue<'_, '_>, causes: &mut Causes) {
    causes.any_of(&port.at("protocol"), &PROTOCOLS);
    let (first, end) = (port.at("port"), port.at("endPort"));
    super::port_or_name(&first, causes);
    match (first.number(), end.number()) {
        (_, None) => {}
        (None, Some(_)) if first.is_absent() => {
            causes.invalid(&end, "may not be specified when `port` is not specified");
        }
        (None, Some(_)) => causes.invalid(&end, "may not be specified when `port` is non-numeric"),
        (Some(first), Some(last)) if last < first => {
            causes.invalid(&end, "must be greater than or equal to `port`");
        }
        (Some(_), Some(_)) => causes.within(&end, 1, 65535),
    }
}

fn check_peer(peer: &FieldValue<'_, '_>, causes: &mut Causes) {
    let (pods, namespaces, block) =
        (peer.at("podSelector"), peer.at("namespaceSelector"), peer.at("ipBlock"));
    selectors::check(&pods, causes);
    selectors::check(&namespaces, causes);
    let selects = !pods.is_absent() || !namespaces.is_absent();
    match (selects, block.is_absent()) {
        (false, true) => causes.missing(peer, "must specify a peer"),
        (true, false) => causes.forbidden(peer, "may not specify both ipBlock and another peer"),
        (false, false) => {
            if causes.required(&block.at("cidr"), "") {
                causes.cidr(&block.at("cidr"));
            }
            for except in block.at("except").items() {
                causes.cidr(&except);
                if is_cidr(except.text()) && !is_within(except.text(), block.at("cidr").text()) {
                    causes.invalid(&except, "must be a strict subset of `cidr`");
                }
            }
        }
        (true, true) => {}
    }
}

/// True if `inner` is a strict subset of `outer`.
fn is_within(inner: &str, outer: &str) -> bool {
    let read = |text: &str| -> Option<(u128, u32, u32)> {
        let (address, bits) = text.split_once('/')?;
        let (address, width) = match address.parse().ok()? {
            std::net::IpAddr::V4(ip) => (u128::from(ip.to_bits()), 32),
            std::net::IpAddr::V6(ip) => (ip.to_bits(), 128),
        };
        Some((address, bits.parse().ok().filter(|bits| *bits <= width)?, width))
    };
    let (Some((inner, inner_bits, inner_width)), Some((outer, outer_bits, outer_width))) =
        (read(inner), read(outer))
    else {
        return false;
    };
    let shift = outer_width - outer_bits;
    let prefix = |address: u128| address.checked_shr(shift).unwrap_or(0);
    inner_width == outer_width && inner_bits > outer_bits && prefix(inner) == prefix(outer)
}
