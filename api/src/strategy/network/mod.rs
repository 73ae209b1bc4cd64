//! How pods are reached: services, what stands behind them, what lets traffic in and out.

pub mod addresses;
pub(super) mod endpoints;
pub(super) mod ingress;
pub(super) mod policy;
pub(super) mod ranges;
pub(super) mod service;

use super::causes::Causes;
use super::place::Place;
use crate::validate::names;

/// What travels through a port.
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// A port by its number, or by the name a container gives it.
fn port_or_name(place: &Place<'_, '_>, causes: &mut Causes) {
    match place.number() {
        Some(_) => causes.within(place, 1, 65535),
        None => port_name(place, causes),
    }
}

fn port_name(place: &Place<'_, '_>, causes: &mut Causes) {
    let why =
        "must be at most 15 characters: lower case letters, digits and single '-', with at least one letter";
    causes.text(place, names::is_port_name, why);
}

#[cfg(test)]
mod tests;
