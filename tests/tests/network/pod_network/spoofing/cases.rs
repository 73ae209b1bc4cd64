//! Frames that a pod sends: forged ones and legitimate ones.

use super::frames::Behind::{self, Nothing, Options};
use super::frames::{
    BROADCAST, FOREIGN_MAC, Mac, NEIGHBOUR_ADVERTISEMENT, NEIGHBOUR_SOLICITATION, REDIRECT,
    ROUTER_ADVERTISEMENT, arp, ethernet, icmpv6, link_local, neighbour, router, tagged, udp,
};
use super::wire::Wire;

/// The addresses that a pod could forge.
pub struct Others<'a> {
    /// The IPv4 address of the bridge.
    pub gateway: &'a str,
    /// The pod that gets the frames.
    pub victim: &'a Wire,
    /// IPv6 addresses of the pod that sends, of the victim and of the bridge, where pods have any.
    pub v6: Option<[&'a str; 3]>,
}

/// Addresses that are not assigned.
const FOREIGN: &str = "203.0.113.7";
const FOREIGN6: &str = "fd77::7";
const ALL_NODES: &str = "ff02::1";
/// An EtherType for experiments.
const EXPERIMENT: u16 = 0x88b5;

/// Frames that must not reach the victim, each with its name.
pub fn forged(pod: &Wire, others: &Others<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let (own, mac) = (pod.address.as_str(), pod.mac);
    let Others { gateway, victim, .. } = *others;
    let to = |source: &str, from: Mac, text: &str| udp(victim.mac, from, &victim.address, source, text);
    let own6 = link_local(mac);
    let to_all = |source: &str, kind: u8, body: &[u8], behind: Behind| {
        icmpv6(mac, (source, ALL_NODES), kind, body, behind)
    };
    let announce = |target: &str| neighbour(NEIGHBOUR_ADVERTISEMENT, target, mac);
    let gateway6 = link_local(FOREIGN_MAC);
    let victim6 = link_local(victim.mac);
    let mut all = vec![
        ("from a foreign IPv4 address", to(FOREIGN, mac, "foreign")),
        ("from the IPv4 address of the gateway", to(gateway, mac, "gateway")),
        ("from the IPv4 address of the victim", to(&victim.address, mac, "victim")),
        ("from no IPv4 address", to("0.0.0.0", mac, "none")),
        ("from a foreign hardware address", to(own, FOREIGN_MAC, "mac")),
        ("forged behind a VLAN tag", tagged(&to(FOREIGN, mac, "tagged"), 0)),
        ("forged in a VLAN", tagged(&to(FOREIGN, mac, "in a vlan"), 7)),
        ("from another link-local address", {
            udp(victim.mac, mac, &victim6, &gateway6, "link-local of another")
        }),
        ("ARP reply for the gateway", arp(victim.mac, mac, true, (mac, gateway), &victim.address)),
        ("ARP request for the gateway", arp(BROADCAST, mac, false, (mac, gateway), gateway)),
        ("ARP reply for the victim", arp(BROADCAST, mac, true, (mac, &victim.address), gateway)),
        ("ARP with a foreign sender", arp(victim.mac, mac, true, (FOREIGN_MAC, own), &victim.address)),
        ("ARP in a foreign frame", arp(victim.mac, FOREIGN_MAC, true, (mac, own), &victim.address)),
        ("ARP probe of a foreign sender", arp(BROADCAST, mac, false, (FOREIGN_MAC, "0.0.0.0"), own)),
        ("router advertisement", to_all(&own6, ROUTER_ADVERTISEMENT, &router(), Nothing)),
        ("hidden router advertisement", to_all(&own6, ROUTER_ADVERTISEMENT, &router(), Options)),
        ("router advertisement of another", to_all(&gateway6, ROUTER_ADVERTISEMENT, &router(), Nothing)),
        ("redirect", to_all(&own6, REDIRECT, &[0; 36], Nothing)),
        ("neighbour advertisement for another", {
            to_all(&own6, NEIGHBOUR_ADVERTISEMENT, &announce(&gateway6), Nothing)
        }),
        ("hidden neighbour advertisement", {
            to_all(&own6, NEIGHBOUR_ADVERTISEMENT, &announce(&gateway6), Options)
        }),
        ("search for a duplicate of the victim", {
            to_all("::", NEIGHBOUR_SOLICITATION, &neighbour(NEIGHBOUR_SOLICITATION, &victim6, mac), Nothing)
        }),
        ("from no IPv6 address", udp(victim.mac, mac, &victim6, "::", "none")),
        ("another protocol", ethernet(victim.mac, mac, EXPERIMENT, &[7; 50])),
    ];
    if let Some([_, victim6, gateway6]) = others.v6 {
        all.extend([
            ("from a foreign IPv6 address", udp(victim.mac, mac, victim6, FOREIGN6, "foreign")),
            ("from the IPv6 address of the victim", udp(victim.mac, mac, victim6, victim6, "victim")),
            ("from the IPv6 address of the gateway", udp(victim.mac, mac, victim6, gateway6, "gateway")),
            ("neighbour advertisement for the gateway", {
                to_all(&own6, NEIGHBOUR_ADVERTISEMENT, &announce(gateway6), Nothing)
            }),
            ("neighbour advertisement for the victim", {
                to_all(&own6, NEIGHBOUR_ADVERTISEMENT, &announce(victim6), Nothing)
            }),
        ]);
    }
    all
}

/// Frames that must reach the victim.
pub fn own(pod: &Wire, others: &Others<'_>) -> Vec<(&'static str, Vec<u8>)> {
    let (own, mac) = (pod.address.as_str(), pod.mac);
    let Others { gateway, victim, .. } = *others;
    let own6 = link_local(mac);
    let duplicate = neighbour(NEIGHBOUR_SOLICITATION, &own6, mac);
    let announced = neighbour(NEIGHBOUR_ADVERTISEMENT, &own6, mac);
    let mut all = vec![
        ("IPv4", udp(victim.mac, mac, &victim.address, own, "own")),
        ("link-local IPv6", udp(victim.mac, mac, &link_local(victim.mac), &own6, "own")),
        ("ARP request", arp(BROADCAST, mac, false, (mac, own), gateway)),
        ("ARP reply", arp(victim.mac, mac, true, (mac, own), &victim.address)),
        ("gratuitous ARP", arp(BROADCAST, mac, false, (mac, own), own)),
        ("ARP probe", arp(BROADCAST, mac, false, (mac, "0.0.0.0"), own)),
        (
            "search for a duplicate",
            icmpv6(mac, ("::", ALL_NODES), NEIGHBOUR_SOLICITATION, &duplicate, Nothing),
        ),
        ("advertisement", icmpv6(mac, (&own6, ALL_NODES), NEIGHBOUR_ADVERTISEMENT, &announced, Nothing)),
    ];
    if let Some([own6, victim6, _]) = others.v6 {
        let announced = neighbour(NEIGHBOUR_ADVERTISEMENT, own6, mac);
        let duplicate = neighbour(NEIGHBOUR_SOLICITATION, own6, mac);
        all.extend([
            ("IPv6", udp(victim.mac, mac, victim6, own6, "own")),
            ("IPv6 advertisement", {
                icmpv6(mac, (own6, ALL_NODES), NEIGHBOUR_ADVERTISEMENT, &announced, Nothing)
            }),
            ("IPv6 search for a duplicate", {
                icmpv6(mac, ("::", ALL_NODES), NEIGHBOUR_SOLICITATION, &duplicate, Nothing)
            }),
        ]);
    }
    all
}

pub fn names(frames: &[(&'static str, Vec<u8>)]) -> std::collections::BTreeSet<&'static str> {
    frames.iter().map(|(name, _)| *name).collect()
}
