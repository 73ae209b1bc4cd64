//! Rules for session affinity: a client stays with its endpoint while it opens connections. Pure.
//!
//! The kernel holds the clients in a set with timeouts, and the endpoint of each in a map. Rules add to both. After a
//! change of endpoints, the kubelet deletes the entries of removed endpoints ([`stale`]), and these clients get
//! another one.
//!
//! `nft` cannot print rules that use the value of a map in the key or value of another one. Therefore each endpoint
//! with session affinity has a chain, which contains its address.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::super::Family;
use super::super::expression::{self as on, Expression, FIRST, SetOperation};
use super::super::host_ports::{address_bytes, port_bytes};
use super::ServiceRules;
use super::elements::{Value, endpoint_bytes, service_key};
use super::layout::{Picker, Set, SetKind};

/// Number of clients with session affinity. When the set is full, further clients get a random endpoint each time.
pub const AFFINITY_SIZE: u32 = 1 << 16;

/// Milliseconds per second, the unit of timeouts in the kernel.
const MILLISECONDS: u64 = 1000;
/// Least lifetime of the endpoint of a client, in seconds. Unlike the client it is not renewed, because a rule cannot
/// copy its value. A client that never pauses may get another endpoint after this time.
const ENDPOINT_SECONDS: u64 = 10 * 24 * 60 * 60;

/// The rules for a group with session affinity: first for a known client, then for others.
pub fn sticky_rules(picker: &Picker) -> Vec<(&'static str, Vec<Expression>)> {
    let Picker { side, is_node_port, family, affinity_seconds, .. } = *picker;
    let set = |kind| Set { kind, family }.name();
    let (mut known, endpoint) = client_key(family, is_node_port);
    known.extend([
        on::lookup_at(set(SetKind::Clients), FIRST, None),
        renew_client(family, affinity_seconds),
        on::lookup_at(set(SetKind::Affinity), FIRST, Some(endpoint)),
        on::dnat(family, endpoint, endpoint + on::words(family)),
    ]);
    let mut new = picker.numbered_key();
    new.push(on::lookup_verdict(set(SetKind::Pinned(side)), FIRST));
    vec![("to the endpoint of this client", known), ("to an endpoint for this client", new)]
}

/// Loads the address of the client and that of the Service to the first registers. Also returns the next free
/// register.
fn client_key(family: Family, is_node_port: bool) -> (Vec<Expression>, u32) {
    let service = FIRST + on::words(family);
    let mut key = on::family_is(family);
    key.push(on::source(family, FIRST));
    key.extend(on::service_key(family, is_node_port, service));
    (key, service + on::words(family) + 2)
}

fn renew_client(family: Family, seconds: u32) -> Expression {
    let set = Set { kind: SetKind::Clients, family };
    on::change_set(set.name(), SetOperation::Update, FIRST, None, u64::from(seconds) * MILLISECONDS)
}

/// A chain that leads to one endpoint, and keeps the client there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pin {
    endpoint: SocketAddr,
    /// Whether clients come by a node port.
    is_node_port: bool,
    /// How long the client stays without a new connection, in seconds.
    seconds: u32,
}

impl Pin {
    /// The chain of an endpoint.
    pub fn new(endpoint: SocketAddr, is_node_port: bool, seconds: u32) -> Self {
        Self { endpoint, is_node_port, seconds }
    }

    /// The name of the chain.
    pub fn name(&self) -> String {
        let port = if self.is_node_port { "_port" } else { "" };
        // `nft` permits no colons in names, and a digit after each separator.
        let ip = self.endpoint.ip().to_string().replace(':', "-");
        format!("to{port}_{ip}_{}_for_{}s", self.endpoint.port(), self.seconds)
    }

    /// The rules of the chain. If the map is full, the last one leads to the endpoint.
    pub fn rules(&self) -> Vec<(&'static str, Vec<Expression>)> {
        let family = Family::of(self.endpoint.ip());
        let map = Set { kind: SetKind::Affinity, family }.name();
        let seconds = ENDPOINT_SECONDS.max(u64::from(self.seconds) * 10);
        let (mut keep, endpoint) = client_key(family, self.is_node_port);
        let change =
            |operation| on::change_set(map, operation, FIRST, Some(endpoint), seconds * MILLISECONDS);
        keep.extend(self.load(endpoint));
        // An update does not replace the entry of an earlier endpoint.
        keep.extend([change(SetOperation::Delete), change(SetOperation::Update)]);
        keep.push(renew_client(family, self.seconds));
        keep.push(on::dnat(family, endpoint, endpoint + on::words(family)));
        let mut only = on::family_is(family);
        only.extend(self.load(FIRST));
        only.push(on::dnat(family, FIRST, FIRST + on::words(family)));
        vec![("keeps the client here", keep), ("to the endpoint", only)]
    }

    /// Loads address and port of the endpoint.
    fn load(&self, register: u32) -> [Expression; 2] {
        let port = register + on::words(Family::of(self.endpoint.ip()));
        let ip = on::constant(register, &address_bytes(self.endpoint.ip()));
        [ip, on::constant(port, &port_bytes(self.endpoint.port())[..2])]
    }
}

/// The entries of [`SetKind::Affinity`] with removed endpoints, as keys.
pub fn stale(rules: &ServiceRules, entries: Vec<(Box<[u8]>, Value)>, family: Family) -> Vec<Box<[u8]>> {
    let mut valid: BTreeSet<Vec<u8>> = BTreeSet::new();
    for ((side, at), target) in &rules.targets {
        if let Some((_, group)) = rules.group_of(*side, *at, target)
            && group.affinity_seconds.is_some()
        {
            let of_group = group.endpoints.iter();
            valid.extend(of_group.map(|one| [service_key(at), endpoint_bytes(one)].concat()));
        }
    }
    let is_stale = |(key, value): &(Box<[u8]>, Value)| {
        let service = key.get(usize::from(family.address_length())..).unwrap_or_default();
        match value {
            Value::Data(endpoint) => !valid.contains(&[service, &**endpoint].concat()),
            Value::None | Value::Goto(_) | Value::Drop => true,
        }
    };
    entries.into_iter().filter(is_stale).map(|(key, _)| key).collect()
}
