//! The strategies of Endpoints and EndpointSlices.

use super::PROTOCOLS;
use super::addresses::reject_special_ip;
use crate::dotted::{each, fill};
use crate::strategy::Json;
use crate::strategy::causes::Causes;
use crate::strategy::field_value::FieldValue;
use crate::strategy::kind_strategy::{KindStrategy, NO_OP};

/// The strategy of Endpoints.
pub(in crate::strategy) static ENDPOINTS: KindStrategy = KindStrategy {
    default: |object| {
        for subset in each(object, "subsets") {
            each(subset, "ports").for_each(|port| fill(port, "protocol", "TCP"));
        }
    },
    check: check_endpoints,
    ..NO_OP
};

/// The strategy of EndpointSlices.
pub(in crate::strategy) static SLICE: KindStrategy =
    KindStrategy { default: default_slice, check: check_slice, immutable: &["addressType"], ..NO_OP };

const ENDPOINTS_MAX: usize = 1000;
const PORTS_MAX: usize = 20_000;
const ADDRESSES_MAX: usize = 100;

fn default_slice(slice: &mut Json) {
    for port in each(slice, "ports") {
        // The name of a port is empty rather than absent.
        port.entry("name").or_insert_with(|| "".into());
        fill(port, "protocol", "TCP");
    }
}

fn check_endpoints(object: &FieldValue<'_, '_>, causes: &mut Causes) {
    for subset in object.at("subsets").items() {
        let (ready, waiting) = (subset.at("addresses"), subset.at("notReadyAddresses"));
        if ready.is_empty() && waiting.is_empty() {
            causes.missing(&subset, "must specify `addresses` or `notReadyAddresses`");
        }
        for address in ready.items().chain(waiting.items()) {
            if causes.required(&address.at("ip"), "") {
                special(&address.at("ip"), causes);
            }
            causes.subdomain(&address.at("nodeName"));
            causes.label(&address.at("hostname"));
        }
        let ports = subset.at("ports");
        for port in ports.items() {
            if ports.len() > 1 {
                causes.required(&port.at("name"), "");
            }
            causes.label(&port.at("name"));
            causes.within(&port.at("port"), 1, 65535);
            causes.one_of(&port.at("protocol"), &PROTOCOLS);
        }
    }
}

fn check_slice(slice: &FieldValue<'_, '_>, causes: &mut Causes) {
    let kind = slice.at("addressType");
    causes.one_of(&kind, &["FQDN", "IPv4", "IPv6"]);
    let endpoints = slice.at("endpoints");
    causes.at_most(&endpoints, ENDPOINTS_MAX);
    for endpoint in endpoints.items() {
        let addresses = endpoint.at("addresses");
        causes.required(&addresses, "must contain at least 1 address");
        causes.at_most(&addresses, ADDRESSES_MAX);
        for address in addresses.items() {
            match kind.text() {
                "FQDN" => causes.subdomain(&address),
                "IPv4" if address.text().parse::<std::net::Ipv4Addr>().is_err() => {
                    causes.invalid(&address, "must be a valid IPv4 address");
                }
                "IPv6" if address.text().parse::<std::net::Ipv6Addr>().is_err() => {
                    causes.invalid(&address, "must be a valid IPv6 address");
                }
                _ => special(&address, causes),
            }
        }
        causes.subdomain(&endpoint.at("nodeName"));
        causes.label(&endpoint.at("hostname"));
    }
    let ports = slice.at("ports");
    causes.at_most(&ports, PORTS_MAX);
    let mut names = std::collections::BTreeSet::new();
    for port in ports.items() {
        if !names.insert(port.at("name").text()) {
            causes.duplicate(&port.at("name"));
        }
        causes.label(&port.at("name"));
        causes.one_of(&port.at("protocol"), &PROTOCOLS);
        causes.within(&port.at("port"), 1, 65535);
    }
}

/// Rejects addresses that other machines cannot reach.
fn special(place: &FieldValue<'_, '_>, causes: &mut Causes) {
    match place.text().parse() {
        Err(_) => causes.ip(place),
        Ok(ip) => {
            if let Some(why) = reject_special_ip(ip) {
                causes.invalid(place, why);
            }
        }
    }
}
