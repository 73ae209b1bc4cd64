//! The anti-spoofing table of a node. It restricts the source addresses that a pod may use to the pod's own
//! hardware and IP addresses. Pure.
//!
//! The table belongs to the family `bridge`, because frames between two pods never reach the rules for IP. Its
//! rules are the same for every node. The allowed source addresses of pods are elements of four sets. Each key
//! starts with the name of the bridge port. The name is known before the port exists, so the elements are set
//! before the pod sends its first frame. The table exists while it has elements.
//!
//! Ports without elements are not checked. These are ports of pods of another node on this machine, and interfaces
//! of other programs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::expression::{Expression, accept, drop, jump, value};
use super::frames::{EtherType, Field, INTERFACE_NAME_BYTES, carries, comes_in_by_no, has, has_masked};
use super::frames::{is_icmpv6, port_with, port_without};
use super::host_ports::address_bytes;
use super::table::{self, Hook, Layout, SetSpec, kind, labelled};
use super::wire::{Attributes, Message};

/// The family `NFPROTO_BRIDGE`: rules for the frames of bridges.
pub const BRIDGE: u8 = 7;

/// Prefix of the names of pods' bridge ports. Frames of other ports pass after one comparison.
pub const POD_PORT_PREFIX: &str = "cor";

/// Maximum size of a set. A pod has two elements in the largest set, so the size suffices for 2,048 pods. The
/// kernel lists a set without a limit incorrectly while the set grows.
const MOST_ELEMENTS: u32 = 4096;

/// The priority of the chain. It precedes every other rule for frames (`NF_BR_PRI_NAT_DST_BRIDGED`), and the step
/// in which the bridge learns the source address.
const BEFORE_ALL: i32 = -300;

const PREROUTING: u32 = 0;
const INPUT: u32 = 1;

const FRAMES: &str = "prerouting";
const CONTROL: &str = "input";
const NEIGHBOURS: &str = "neighbours";

/// The set of the ports that are checked.
const PORTS: &str = "pods";
/// The set of allowed pairs: port and hardware address.
const HARDWARE: &str = "hardware";
/// The set of allowed triples: port, hardware address, and an IPv4 address of the pod.
const SOURCES: &str = "sources";
/// The set of allowed triples: port, hardware address, and an IPv6 address of the pod. The link-local address is
/// allowed too.
const SOURCES6: &str = "sources6";

pub const SETS: [&str; 4] = [PORTS, HARDWARE, SOURCES, SOURCES6];

/// The host end of a pod's veth pair, which is a bridge port, with the allowed source addresses of the pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodPort {
    /// The name of the interface. It begins with [`POD_PORT_PREFIX`].
    pub name: String,
    /// The hardware address of the pod's end.
    pub mac: [u8; 6],
    /// The addresses of the pod.
    pub addresses: Vec<IpAddr>,
}

/// Elements of sets: the set and the key.
pub type Elements = BTreeSet<(&'static str, Vec<u8>)>;

impl PodPort {
    fn elements(&self) -> Elements {
        let mut name = self.name.as_bytes().to_vec();
        name.resize(INTERFACE_NAME_BYTES, 0);
        // Every part of a key fills whole registers of four bytes.
        let hardware = [&name[..], &self.mac, &[0, 0]].concat();
        let link_local = IpAddr::V6(link_local(self.mac));
        let of_address = |address: &IpAddr| {
            let set = if address.is_ipv4() { SOURCES } else { SOURCES6 };
            (set, [&hardware[..], &address_bytes(*address)].concat())
        };
        let mut elements: Elements = self.addresses.iter().chain([&link_local]).map(of_address).collect();
        elements.insert((HARDWARE, hardware.clone()));
        elements.insert((PORTS, name));
        elements
    }
}

/// The link-local address that the kernel derives from a hardware address (EUI-64, RFC 4291).
pub(super) fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    let [ab, cd, ef] = [[a ^ 2, b], [0xfe, d], [e, f]].map(u16::from_be_bytes);
    Ipv6Addr::new(0xfe80, 0, 0, 0, ab, u16::from_be_bytes([c, 0xff]), cd, ef)
}

/// The table as it is in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Chains, rules and sets.
    pub layout: Layout,
    /// Existing elements of the sets in [`SETS`].
    pub elements: Elements,
}

/// How much of the table changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Changed {
    /// Nothing changes.
    #[default]
    Nothing,
    /// Only elements of sets change.
    Elements,
    /// The table is created or deleted.
    Table,
}

/// The messages that change the table so that it checks these ports.
pub fn plan(name: &str, found: Option<&Found>, ports: &BTreeSet<PodPort>) -> (Vec<Message>, Changed) {
    let wanted: Elements = ports.iter().flat_map(PodPort::elements).collect();
    match found {
        None if wanted.is_empty() => (Vec::new(), Changed::Nothing),
        Some(_) if wanted.is_empty() => (remove(name), Changed::Table),
        Some(found) if found.layout.is_equal_except_cluster(&layout()) => {
            let gone = found.elements.difference(&wanted);
            let new = wanted.difference(&found.elements);
            let mut messages = change(kind::DELETE_ELEMENT, name, gone);
            messages.extend(change(kind::NEW_ELEMENT, name, new));
            let changed = if messages.is_empty() { Changed::Nothing } else { Changed::Elements };
            (messages, changed)
        }
        _ => (make(name, &wanted), Changed::Table),
    }
}

/// Deletes the table if it exists.
pub fn remove(name: &str) -> Vec<Message> {
    table::remove_of(BRIDGE, name)
}

/// Creates and deletes a table in one transaction, to test whether the kernel supports it.
pub fn probe(name: &str) -> Vec<Message> {
    let mut messages = make(name, &Elements::new());
    messages.push(table::delete_table(BRIDGE, name));
    messages
}

fn make(name: &str, elements: &Elements) -> Vec<Message> {
    let mut messages = remove(name);
    messages.push(table::new_table(BRIDGE, name));
    for (number, (set, shape, key_type)) in (1..).zip(sets()) {
        messages.push(table::new_set(BRIDGE, name, set, &shape, (key_type, 0), number));
    }
    for (chain, hook) in chains() {
        messages.push(table::new_chain(BRIDGE, name, chain, hook.as_ref()));
    }
    for (chain, comment, expressions) in rules() {
        messages.push(table::new_rule(BRIDGE, name, chain, &comment, &expressions));
    }
    messages.extend(change(kind::NEW_ELEMENT, name, elements.iter()));
    messages
}

fn change<'a>(
    kind: u8,
    name: &str,
    elements: impl Iterator<Item = &'a (&'static str, Vec<u8>)>,
) -> Vec<Message> {
    let mut of_sets: BTreeMap<&str, Vec<Attributes>> = BTreeMap::new();
    for (set, key) in elements {
        of_sets.entry(set).or_default().push(Attributes::new().nested(1, &value(key)));
    }
    let messages = of_sets.iter().map(|(set, all)| table::elements_of(BRIDGE, kind, name, set, all));
    messages.flatten().collect()
}

fn layout() -> Layout {
    let mut rules_of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (chain, comment, _) in rules() {
        rules_of.entry(chain.to_owned()).or_default().push(comment);
    }
    Layout {
        chains: chains().into_iter().map(|(name, hook)| (name.to_owned(), hook)).collect(),
        rules: rules_of,
        sets: sets().into_iter().map(|(name, shape, _)| (name.to_owned(), shape)).collect(),
        ..Layout::default()
    }
}

fn chains() -> [(&'static str, Option<Hook>); 3] {
    [
        (NEIGHBOURS, None),
        (FRAMES, Some(Hook::new("filter", PREROUTING, BEFORE_ALL))),
        (CONTROL, Some(Hook::new("filter", INPUT, BEFORE_ALL))),
    ]
}

/// All sets, with the types by which `nft` prints their keys (six bits per part).
fn sets() -> [(&'static str, SetSpec, u32); 4] {
    const NAME: u32 = 41;
    const HARDWARE_ADDRESS: u32 = 9;
    const IPV4_ADDRESS: u32 = 7;
    const IPV6_ADDRESS: u32 = 8;
    let with_hardware = (NAME << 6) | HARDWARE_ADDRESS;
    let set = |name, key, of_key| (name, SetSpec { flags: 0, key, value: 0, most: MOST_ELEMENTS }, of_key);
    let name = INTERFACE_NAME_BYTES as u32;
    [
        set(PORTS, name, NAME),
        set(HARDWARE, name + 8, with_hardware),
        set(SOURCES, name + 12, (with_hardware << 6) | IPV4_ADDRESS),
        set(SOURCES6, name + 24, (with_hardware << 6) | IPV6_ADDRESS),
    ]
}

/// The rules, each with its chain and its comment. A valid IPv4 packet passes after the second rule.
fn rules() -> Vec<(&'static str, String, Vec<Expression>)> {
    use EtherType::{Arp, Ipv4, Ipv6};
    use Field::{
        ArpOperation, ArpSenderAddress, ArpSenderHardware, EthernetDestination, EthernetSource, Icmpv6Type,
        Ipv4Source, Ipv6Source, NeighbourTarget,
    };
    /// The ARP operation `ARPOP_REQUEST`.
    const REQUEST: [u8; 2] = [0, 1];
    /// Types of ICMPv6 (RFC 4861).
    const ROUTER_ADVERTISEMENT: u8 = 134;
    const NEIGHBOUR_SOLICITATION: u8 = 135;
    const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
    const REDIRECT: u8 = 137;
    /// Multicast listener reports and done (RFC 2710, RFC 3810).
    const LISTENER: [u8; 3] = [131, 132, 143];
    /// Destinations that a bridge never forwards (802.1D), 01:80:c2:00:00:00 to 01:80:c2:00:00:0f.
    const CONTROL_FRAMES: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];
    const CONTROL_MASK: [u8; 6] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xf0];

    let is_type = |number: u8| has(Icmpv6Type, &[number]);
    let has_no_address = || has(Ipv6Source, &Ipv6Addr::UNSPECIFIED.octets());
    let of_pod = || [port_with(&[], PORTS), vec![drop()]].concat();
    let mut all = Vec::new();
    let mut rule = |chain, comment_text: &str, parts: &[Vec<Expression>]| {
        let (comment, expressions) = labelled(comment_text, parts.concat());
        all.push((chain, comment, expressions));
    };

    rule(FRAMES, "from no pod", &[comes_in_by_no(POD_PORT_PREFIX), vec![accept()]]);
    let own = port_with(&[EthernetSource, Ipv4Source], SOURCES);
    rule(FRAMES, "from the pod's own IPv4 address", &[carries(Ipv4), own, vec![accept()]]);
    rule(FRAMES, "neighbour discovery", &[carries(Ipv6), is_icmpv6(), vec![jump(NEIGHBOURS)]]);
    let own = port_with(&[EthernetSource, Ipv6Source], SOURCES6);
    rule(FRAMES, "from the pod's own IPv6 address", &[carries(Ipv6), own, vec![accept()]]);
    let own = [
        port_with(&[EthernetSource, ArpSenderAddress], SOURCES),
        port_with(&[ArpSenderHardware, ArpSenderAddress], SOURCES),
    ];
    rule(FRAMES, "ARP about the pod's own address", &[carries(Arp), own.concat(), vec![accept()]]);
    let probe = [
        has(ArpOperation, &REQUEST),
        has(ArpSenderAddress, &Ipv4Addr::UNSPECIFIED.octets()),
        port_with(&[EthernetSource], HARDWARE),
        port_with(&[ArpSenderHardware], HARDWARE),
    ];
    rule(FRAMES, "ARP probe", &[carries(Arp), probe.concat(), vec![accept()]]);
    rule(FRAMES, "anything else of a pod", &[of_pod()]);

    for (comment_text, number) in
        [("a pod is no router", ROUTER_ADVERTISEMENT), ("no redirects of pods", REDIRECT)]
    {
        rule(NEIGHBOURS, comment_text, &[is_type(number), of_pod()]);
    }
    let foreign = port_without(&[EthernetSource, NeighbourTarget], SOURCES6);
    let advertisement = [is_type(NEIGHBOUR_ADVERTISEMENT), foreign, of_pod()];
    rule(NEIGHBOURS, "a pod advertises its own addresses", &advertisement);
    let own = port_with(&[EthernetSource, NeighbourTarget], SOURCES6);
    let detection = [has_no_address(), is_type(NEIGHBOUR_SOLICITATION), own, vec![accept()]];
    rule(NEIGHBOURS, "detection of duplicate addresses", &detection);
    for number in LISTENER {
        let own = port_with(&[EthernetSource], HARDWARE);
        let listener = [has_no_address(), is_type(number), own, vec![accept()]];
        rule(NEIGHBOURS, "multicast listener without an address", &listener);
    }

    // The bridge handles such a frame without the first chain, and learns its source address.
    let control = has_masked(EthernetDestination, &CONTROL_MASK, &CONTROL_FRAMES);
    rule(CONTROL, "a pod is no bridge", &[control, of_pod()]);
    all
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
