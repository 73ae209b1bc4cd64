//! The strategies of networking kinds: Services, endpoints, Ingresses and NetworkPolicies.

pub mod addresses;
pub(super) mod endpoints;
pub(super) mod ingress;
pub(super) mod network_policy;
pub(super) mod service;

use super::causes::Causes;
use super::field_value::FieldValue;
use crate::validate::names;

/// The protocols of ports.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Validates a port number or the name of a container port.
fn port_or_name(place: &FieldValue<'_, '_>, causes: &mut Causes) {
    match place.number() {
        Some(_) => causes.within(place, 1, 65535),
        None => port_name(place, causes),
    }
}

fn port_name(place: &FieldValue<'_, '_>, causes: &mut Causes) {
    let why =
        "must be at most 15 characters: lower case letters, digits and single '-', with at least one letter";
    causes.text(place, names::is_port_name, why);
}

#[cfg(test)]
mod tests;
