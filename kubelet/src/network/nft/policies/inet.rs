//! The table of family `inet`: decides about new connections of isolated pods. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::super::Family;
use super::super::expression::{self as on, Expression, FIRST};
use super::super::host_ports::{address_bytes, port_bytes};
use super::super::intervals::{IntervalEdge, edges};
use super::super::table::{FORWARD, Hook, MAP, SetSpec};
use super::content::{Content, Elements, INTERVALS, Set, plain};
use super::{Allow, Chain, Direction, PolicyId, PolicyRules};

/// The priority of the decision. It precedes other filters (`NF_IP_PRI_FILTER`), and follows DNAT.
const BEFORE_FILTERS: i32 = -1;
const THROUGH: &str = "forward";

/// Types by which `nft` prints keys: `inet_proto`, `inet_service`.
const PROTOCOL: u32 = 12;
const PORT: u32 = 13;
/// The data type of verdicts, `NFT_DATA_VERDICT`.
const VERDICT: u32 = 0xffff_ff00;
/// Length of a verdict as the kernel reports it, in bytes.
const VERDICT_BYTES: u32 = 16;
/// Length of a protocol and a port in a key: one register each.
const PROTOCOL_AND_PORT_BYTES: u32 = 8;

/// The content of the table.
pub fn content(rules: &PolicyRules) -> Content {
    let mut content = Content::default();
    for (id, chain) in &rules.chains {
        add_chain(&mut content, *id, chain, rules);
    }
    content.chains.push((THROUGH.to_owned(), Some(Hook::new("filter", FORWARD, BEFORE_FILTERS))));
    let established = [on::is_established_or_related(), vec![on::accept()]];
    content.rule(THROUGH, "established connections", &established);
    for family in Family::BOTH {
        add_maps(&mut content, family, rules);
    }
    content
}

/// The name of an object of one family.
fn named(text: &str, family: Family) -> String {
    match family {
        Family::V4 => text.to_owned(),
        Family::V6 => format!("{text}6"),
    }
}

fn chain_name(id: PolicyId) -> String {
    format!("pods_{:016x}", id.0)
}

/// Adds the maps from the addresses of isolated pods to their chains, and the rules that use them.
fn add_maps(content: &mut Content, family: Family, rules: &PolicyRules) {
    let address = family.nft_type();
    let length = u32::from(family.address_length());
    let own = rules.pods.iter().flat_map(|pod| pod.all_addresses().map(move |ip| (ip, pod)));
    let own: Vec<_> = own.filter(|(ip, _)| Family::of(*ip) == family).collect();
    let same = named("same", family);
    let pairs = own.iter().map(|(ip, _)| [address_bytes(*ip), address_bytes(*ip)].concat());
    add_set(content, &same, 2 * length, (address << 6) | address, plain(pairs.collect()));
    let is_same = [on::both_addresses(family), vec![on::lookup(&same, None, false), on::accept()]];
    content.rule(THROUGH, "a pod to itself", &[vec![on::family_is(family)], is_same.to_vec()].concat());
    for (direction, name) in [(Direction::Egress, "from"), (Direction::Ingress, "to")] {
        let map = named(name, family);
        let leads = own.iter().filter_map(|(ip, pod)| {
            let chain = match direction {
                Direction::Ingress => pod.ingress,
                Direction::Egress => pod.egress,
            }?;
            Some((IntervalEdge { key: address_bytes(*ip), is_end: false }, Some(chain_name(chain))))
        });
        let spec = SetSpec { flags: MAP, key: length, value: VERDICT_BYTES, most: 0 };
        let set = Set { spec, types: (address, VERDICT), elements: leads.collect() };
        content.sets.insert(map.clone(), set);
        let load = match direction {
            Direction::Ingress => on::destination(family, FIRST),
            Direction::Egress => on::source(family, FIRST),
        };
        let decide = vec![load, on::lookup_verdict(&map, FIRST)];
        content.rule(THROUGH, &format!("{name} isolated pods"), &[on::family_is(family), decide]);
    }
}

fn add_set(content: &mut Content, name: &str, key: u32, key_type: u32, elements: Elements) {
    let spec = SetSpec { flags: 0, key, value: 0, most: 0 };
    content.sets.insert(name.to_owned(), Set { spec, types: (key_type, 0), elements });
}

/// Adds a chain and the sets of its rules. The last rule drops what no other rule allows.
fn add_chain(content: &mut Content, id: PolicyId, chain: &Chain, rules: &PolicyRules) {
    let name = chain_name(id);
    content.chains.push((name.clone(), None));
    for rule in &chain.rules {
        let pass = vec![on::return_to_caller()];
        match &rule.allow {
            Allow::Peers { peers: None, ports } => {
                let ports = ports.map(|ports| port_match(&ports)).unwrap_or_default();
                content.rule(&name, &rule.policy, &[ports, pass]);
            }
            Allow::Peers { peers: Some(peers), ports } => {
                let ports = ports.map(|ports| port_match(&ports)).unwrap_or_default();
                for (family, set) in add_peers(content, *peers, rules) {
                    let load = match chain.direction {
                        Direction::Ingress => on::source(family, FIRST),
                        Direction::Egress => on::destination(family, FIRST),
                    };
                    let is_peer = vec![load, on::lookup(&set, None, false)];
                    let parts = [on::family_is(family), is_peer, ports.clone(), pass.clone()];
                    content.rule(&name, &rule.policy, &parts);
                }
            }
            Allow::Destinations(id) => {
                for (family, set) in add_destinations(content, *id, rules) {
                    let mut key = on::service_key(family, false, FIRST);
                    key.push(on::lookup(&set, None, false));
                    content.rule(&name, &rule.policy, &[on::family_is(family), key, pass.clone()]);
                }
            }
        }
    }
    content.rule(&name, "no policy allows it", &[vec![on::count(), on::drop()]]);
}

fn port_match(ports: &super::Ports) -> Vec<Expression> {
    let mut all = on::protocol_is(ports.protocol.number());
    if (ports.first, ports.last) != (0, u16::MAX) {
        all.extend(on::port_in(ports.first, ports.last));
    }
    all
}

/// Adds the sets of peers, and returns their families and names. The name of a set of blocks depends on its content.
fn add_peers(content: &mut Content, id: PolicyId, rules: &PolicyRules) -> Vec<(Family, String)> {
    let Some(peers) = rules.peers.get(&id) else { return Vec::new() };
    let mut names = Vec::new();
    for family in Family::BOTH {
        let (length, of_address) = (u32::from(family.address_length()), family.nft_type());
        let pods: BTreeSet<Vec<u8>> =
            of_family(peers.pods.iter().copied(), family).map(address_bytes).collect();
        let name = named(&format!("peers_{:016x}", id.0), family);
        add_set(content, &name, length, of_address, plain(pods));
        names.push((family, name));
        let edges = edges(family, &peers.blocks);
        if !edges.is_empty() {
            let name = named(&format!("blocks_{:016x}", PolicyId::of(&format!("{edges:?}")).0), family);
            let spec = SetSpec { flags: INTERVALS, key: length, value: 0, most: 0 };
            let elements = edges.into_iter().map(|edge| (edge, None)).collect();
            content.sets.insert(name.clone(), Set { spec, types: (of_address, 0), elements });
            names.push((family, name));
        }
    }
    names
}

fn add_destinations(content: &mut Content, id: PolicyId, rules: &PolicyRules) -> Vec<(Family, String)> {
    let Some(all) = rules.destinations.get(&id) else { return Vec::new() };
    let add = |family: Family| {
        let keys = all.iter().filter(|(ip, ..)| Family::of(*ip) == family).map(|(ip, protocol, port)| {
            [address_bytes(*ip), vec![protocol.number(), 0, 0, 0], port_bytes(*port).to_vec()].concat()
        });
        let name = named(&format!("ports_{:016x}", id.0), family);
        let types = (family.nft_type() << 12) | (PROTOCOL << 6) | PORT;
        let length = u32::from(family.address_length()) + PROTOCOL_AND_PORT_BYTES;
        add_set(content, &name, length, types, plain(keys.collect()));
        (family, name)
    };
    Family::BOTH.map(add).to_vec()
}

fn of_family(addresses: impl Iterator<Item = IpAddr>, family: Family) -> impl Iterator<Item = IpAddr> {
    addresses.filter(move |ip| Family::of(*ip) == family)
}
