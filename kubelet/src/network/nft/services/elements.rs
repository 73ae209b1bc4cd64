//! The elements of the sets of the service proxy's table, and their messages. Pure.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use super::super::Family;
use super::super::expression::value;
use super::super::host_ports::{address_bytes, port_bytes};
use super::super::table::{INET, elements_of, kind};
use super::super::wire::{Attributes, Message};
use super::affinity::Pin;
use super::layout::{REJECT, Set, SetKind, picker};
use super::sources::Sources;
use super::{ServiceAddress, ServiceRules, Target};

/// The value of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// None, in a set.
    None,
    /// Bytes, in a map.
    Data(Box<[u8]>),
    /// The rules continue in this chain.
    Goto(Box<str>),
    /// Packets are dropped.
    Drop,
}

/// Elements of sets, by set and key.
pub type Elements = BTreeMap<(Set, Box<[u8]>), Value>;

/// The verdicts `NF_DROP` and `NFT_GOTO`.
pub const DROP: i32 = 0;
pub const GOTO: i32 = -4;

/// All elements that the rules need.
pub fn elements(rules: &ServiceRules) -> Elements {
    let mut all = Elements::new();
    let mut put = |kind, family, key: Vec<u8>, value| {
        all.insert((Set { kind, family }, key.into_boxed_slice()), value);
    };
    for ((side, at), target) in &rules.targets {
        let family = Family::of(at.ip);
        let verdict = match (target, Sources::of(rules, *side, *at, target)) {
            (Target::Drop, _) => Value::Drop,
            (_, Some(sources)) => Value::Goto(sources.name().into()),
            (Target::Reject, None) => Value::Goto(REJECT.into()),
            (Target::Group(_), None) => {
                let Some(picker) = picker(rules, *side, *at, target) else { continue };
                Value::Goto(picker.name().into())
            }
        };
        put(SetKind::Services(*side), family, service_key(at), verdict);
        put(SetKind::Addresses, family, service_key(at), Value::None);
        let Some((side, group)) = rules.group_of(*side, *at, target) else { continue };
        for (number, endpoint) in (0_u32..).zip(&group.endpoints) {
            // `numgen` writes its number in host byte order.
            let key = [service_key(at), number.to_ne_bytes().to_vec()].concat();
            match group.affinity_seconds {
                None => put(SetKind::Endpoints(side), family, key, data(endpoint_bytes(endpoint))),
                Some(seconds) => {
                    let pin = Pin::new(*endpoint, at.is_node_port(), seconds);
                    put(SetKind::Pinned(side), family, key, Value::Goto(pin.name().into()));
                }
            }
        }
    }
    for at in &rules.masqueraded {
        put(SetKind::Masqueraded, Family::of(at.ip), service_key(at), Value::None);
    }
    for ip in &rules.cluster_ips {
        put(SetKind::ClusterIps, Family::of(*ip), address_bytes(*ip), Value::None);
    }
    for ip in &rules.own_endpoints {
        let key = [address_bytes(*ip), address_bytes(*ip)].concat();
        put(SetKind::Hairpin, Family::of(*ip), key, Value::None);
    }
    all
}

/// The messages that turn one set of elements into another, and the number of changed elements.
pub fn changes(table: &str, from: &Elements, to: &Elements) -> (Vec<Message>, usize) {
    let gone = from.iter().filter(|(key, value)| to.get(*key) != Some(*value));
    let new = to.iter().filter(|(key, value)| from.get(*key) != Some(*value));
    let mut count = 0;
    let mut messages = Vec::new();
    for (kind, elements) in
        [(kind::DELETE_ELEMENT, gone.collect::<Vec<_>>()), (kind::NEW_ELEMENT, new.collect())]
    {
        let mut by_set: BTreeMap<Set, Vec<Attributes>> = BTreeMap::new();
        for ((set, key), found) in elements {
            let element = Attributes::new().nested(1, &value(key));
            let with_value = kind == kind::NEW_ELEMENT;
            by_set.entry(*set).or_default().push(if with_value { with(element, found) } else { element });
            count += 1;
        }
        for (set, all) in by_set {
            messages.extend(elements_of(INET, kind, table, set.name(), &all));
        }
    }
    (messages, count)
}

fn with(element: Attributes, value_of: &Value) -> Attributes {
    let verdict = |code: i32| Attributes::new().bytes(1, &code.to_be_bytes());
    match value_of {
        Value::None => element,
        Value::Data(bytes) => element.nested(2, &value(bytes)),
        Value::Goto(chain) => element.nested(2, &Attributes::new().nested(2, &verdict(GOTO).text(2, chain))),
        Value::Drop => element.nested(2, &Attributes::new().nested(2, &verdict(DROP))),
    }
}

fn data(bytes: Vec<u8>) -> Value {
    Value::Data(bytes.into_boxed_slice())
}

/// The bytes of an endpoint as the value of a map.
pub fn endpoint_bytes(endpoint: &SocketAddr) -> Vec<u8> {
    [address_bytes(endpoint.ip()), port_bytes(endpoint.port()).to_vec()].concat()
}

/// The key of an address of a Service.
pub fn service_key(at: &ServiceAddress) -> Vec<u8> {
    let ServiceAddress { ip, protocol, port } = at;
    [address_bytes(*ip), vec![protocol.number(), 0, 0, 0], port_bytes(*port).to_vec()].concat()
}
