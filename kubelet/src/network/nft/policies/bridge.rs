//! The table of family `bridge`: hands frames between pods of this node to the IP layer, if a policy isolates one of the
//! pods. Pure.
//!
//! Bridged frames may pass no rules for IP, and the bridge family tracks connections only with a module that many
//! kernels lack. The IP layer can do both. It forwards the packet back to the bridge.

use std::collections::BTreeSet;

use super::super::antispoof::POD_PORT_PREFIX;
use super::super::expression::{accept, drop};
use super::super::frames::{
    EtherType, Field, INTERFACE_NAME_BYTES, carries, comes_in_by_no, hand_to_host, has, has_between, has_in,
    has_masked, is_for_host, is_icmpv6, leaves_by, port_with,
};
use super::super::table::{Hook, SetSpec};
use super::content::{Content, Set, plain};
use super::{IsolatedPod, PolicyNode, PolicyRules};

/// The priority of the hand-over. It follows the anti-spoofing rules (-300), and precedes the rules for IP that see
/// bridged frames (`NF_BR_PRI_BRNF`, 0).
const AFTER_ANTISPOOFING: i32 = -299;
const AMONG_FILTERS: i32 = 0;
/// Hooks of the family `bridge`.
const PREROUTING: u32 = 0;
const FORWARD: u32 = 2;

const FRAMES: &str = "prerouting";
const COPIES: &str = "forward";

/// Ports of isolated pods.
const PORTS: &str = "pods";
/// Ports of pods that are isolated for egress.
const EGRESS: &str = "egress";
/// Ports of pods that are isolated for ingress.
const INGRESS: &str = "ingress";
/// Hardware addresses of isolated pods. IP addresses would also match frames between pods of another kubelet and its
/// bridge, because these rules see the frames of all bridges.
const HARDWARE: &str = "hardware";

/// The content of the table.
pub fn content(node: &PolicyNode, rules: &PolicyRules) -> Content {
    let mut content = Content::default();
    for (name, key, key_type, keys) in sets(rules) {
        let spec = SetSpec { flags: 0, key, value: 0, most: 0 };
        content.sets.insert(name.to_owned(), Set { spec, types: (key_type, 0), elements: plain(keys) });
    }
    for (chain, hook, priority) in
        [(FRAMES, PREROUTING, AFTER_ANTISPOOFING), (COPIES, FORWARD, AMONG_FILTERS)]
    {
        content.chains.push((chain.to_owned(), Some(Hook::new("filter", hook, priority))));
    }
    add_rules(&mut content, node);
    content
}

/// All sets: name, length of a key in bytes, type by which `nft` prints keys, and keys.
fn sets(rules: &PolicyRules) -> [(&'static str, u32, u32, BTreeSet<Vec<u8>>); 4] {
    const NAME: u32 = 41;
    const HARDWARE_ADDRESS: u32 = 9;
    let ports = |is_in: fn(&IsolatedPod) -> bool| {
        let pods = rules.pods.iter().filter(move |pod| is_in(pod));
        pods.map(|pod| {
            let mut name = pod.port.as_bytes().to_vec();
            name.resize(INTERFACE_NAME_BYTES, 0);
            name
        })
        .collect()
    };
    let hardware = rules.pods.iter().map(|pod| pod.mac.to_vec()).collect();
    let name = INTERFACE_NAME_BYTES as u32;
    [
        (PORTS, name, NAME, ports(|_| true)),
        (EGRESS, name, NAME, ports(|pod| pod.egress.is_some())),
        (INGRESS, name, NAME, ports(|pod| pod.ingress.is_some())),
        (HARDWARE, 6, HARDWARE_ADDRESS, hardware),
    ]
}

fn add_rules(content: &mut Content, node: &PolicyNode) {
    use EtherType::{Ipv4, Ipv6};
    use Field::{EthernetDestination, Icmpv6Type};
    /// Types of ICMPv6 of multicast listeners and of neighbour discovery (RFC 2710, RFC 4861), and of reports of
    /// version 2 (RFC 3810). They never leave the link.
    const FIRST_OF_LINK: u8 = 130;
    const LAST_OF_LINK: u8 = 137;
    const LISTENER_REPORT: u8 = 143;
    /// The bit of a hardware address that marks a group.
    const GROUP: [u8; 6] = [1, 0, 0, 0, 0, 0];

    content.rule(FRAMES, "from no pod", &[comes_in_by_no(POD_PORT_PREFIX), vec![accept()]]);
    for chain in [FRAMES, COPIES] {
        let of_link = has_between(Icmpv6Type, &[FIRST_OF_LINK], &[LAST_OF_LINK]);
        let reports = has(Icmpv6Type, &[LISTENER_REPORT]);
        for types in [of_link, reports] {
            let parts = [carries(Ipv6), is_icmpv6(), types, vec![accept()]];
            content.rule(chain, "neighbour discovery", &parts);
        }
    }
    let group = || has_masked(EthernetDestination, &GROUP, &GROUP);
    content.rule(FRAMES, "copies for many are decided later", &[group(), vec![accept()]]);
    // With `bridge-nf-call-iptables`, the kernel forwards a frame to the bridge in the bridge if DNAT gave it a destination
    // behind this bridge. Such a frame passes the rules for IP.
    content.rule(COPIES, "to an endpoint of a Service", &[is_for_host(), vec![accept()]]);
    for protocol in [Ipv4, Ipv6] {
        let hand_over = hand_to_host(node.bridge_mac);
        let from = [carries(protocol), port_with(&[], PORTS), hand_over.clone()];
        content.rule(FRAMES, "from isolated pods", &from);
        let to = [carries(protocol), has_in(EthernetDestination, HARDWARE), hand_over];
        content.rule(FRAMES, "to isolated pods", &to);
        // These frames did not pass the IP layer: multicast, broadcast, and frames to a hardware address that the
        // bridge does not know.
        let from = [carries(protocol), port_with(&[], EGRESS), vec![drop()]];
        content.rule(COPIES, "from isolated pods past the rules", &from);
        content.rule(
            COPIES,
            "to isolated pods past the rules",
            &[carries(protocol), leaves_by(INGRESS), vec![drop()]],
        );
    }
}
