//! Rules for session affinity: a client stays with its endpoint while it opens connections. Pure.
//!
//! The kernel holds client, group and endpoint in a map with timeouts, which the rules themselves change. An entry
//! counts only while its endpoint is a member of the group. So the kubelet never has to edit the map.

use super::super::expression::{self as on, Expression, FIRST, SetOperation};
use super::layout::{Picker, Set, SetKind};

/// Number of clients with session affinity. When the map is full, further clients get a random endpoint each time.
pub const AFFINITY_SIZE: u32 = 1 << 16;

/// Milliseconds per second, the unit of timeouts in the kernel.
const MILLISECONDS: u64 = 1000;

/// The rules that precede the plain choice: first for a client with a valid entry, then for one without.
pub fn affinity_rules(picker: &Picker) -> Vec<(&'static str, Vec<Expression>)> {
    let family = picker.family;
    let words = on::words(family);
    // The registers: client, group, endpoint. Client and group are the key of the map; group and endpoint that of the
    // members.
    let (client, group) = (FIRST, FIRST + words);
    let (endpoint, port) = (group + 2, group + 2 + words);
    let set = |kind| Set { kind, family }.name();
    let affinity = set(SetKind::Affinity);
    let timeout = u64::from(picker.affinity_seconds) * MILLISECONDS;
    let change = |operation| on::change_map(affinity, operation, client, endpoint, timeout);
    let dnat = on::dnat(family, endpoint, port);
    let known = [
        picker.group_to(endpoint, group),
        vec![
            on::source(family, client),
            on::lookup_at(affinity, client, Some(endpoint)),
            on::lookup_at(set(SetKind::Members), group, None),
            change(SetOperation::Update),
            dnat.clone(),
        ],
    ];
    let new = [
        picker.group_to(endpoint, group),
        picker.pick_to(group, endpoint),
        vec![
            on::source(family, client),
            // An entry whose endpoint is gone, which an update would not replace.
            change(SetOperation::Delete),
            change(SetOperation::Update),
            dnat,
        ],
    ];
    vec![("to the endpoint of this client", known.concat()), ("to an endpoint for this client", new.concat())]
}
