//! Rules about packets for the DNS server of the node. Pure.
//!
//! Only the node and its pods may use the server. Linux accepts packets for the address of the bridge on every
//! interface, so the table of the node drops queries of other machines. In turn, a chain of another firewall that drops
//! packets for the host gets rules at its end that accept queries of pods.

use std::net::IpAddr;

use super::expression::{
    self as on, Expression, FIRST, META_L4PROTO, accept, compare, count, destination, iif_is, meta, payload,
};
use super::firewall::Forward;
use super::host_ports::address_bytes;
use super::table::{INET, new_rule};
use super::wire::{Attributes, Message};
use super::{Family, Node};

/// The port of DNS servers.
const PORT: u16 = 53;

/// A transport protocol of DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Udp,
    Tcp,
}

impl Transport {
    const ALL: [Self; 2] = [Self::Udp, Self::Tcp];

    /// The name, as iptables writes it.
    fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }

    /// The protocol number in IP headers.
    fn number(self) -> u8 {
        match self {
            Self::Udp => 17,
            Self::Tcp => 6,
        }
    }

    /// Matches packets of the protocol.
    fn matched(self) -> [Expression; 2] {
        [meta(META_L4PROTO, FIRST), compare(true, &[self.number()])]
    }

    /// Matches the port by the extension `udp` or `tcp` of iptables. Versions before 1.8.8 do not print other expressions
    /// for ports, and a saved rule would then lose its port.
    fn iptables_port(self) -> Expression {
        /// Length of `struct xt_udp` and of `struct xt_tcp` (linux/netfilter/xt_tcpudp.h), aligned to eight bytes. Both
        /// begin with the ranges of source and destination ports; zeros after that mean no other condition.
        const LENGTH: usize = 16;
        let mut info = [0; LENGTH];
        let ports = [0, u16::MAX, PORT, PORT];
        for (field, port) in info.chunks_exact_mut(2).zip(ports) {
            field.copy_from_slice(&port.to_ne_bytes());
        }
        Expression::new("match", &Attributes::new().text(1, self.name()).number(2, 0).bytes(3, &info))
    }
}

/// Matches a destination address.
fn is_to(address: IpAddr) -> [Expression; 2] {
    [destination(Family::of(address), FIRST), compare(true, &address_bytes(address))]
}

/// Matches the destination port of DNS.
fn is_to_port() -> [Expression; 2] {
    const BASE_TRANSPORT: u32 = 2;
    const PORT_OFFSET: u32 = 2;
    [payload(BASE_TRANSPORT, PORT_OFFSET, 2, FIRST), compare(true, &PORT.to_be_bytes())]
}

/// The rules that drop queries of other machines, for a chain that sees packets for this host.
pub(super) fn drop_foreign_queries(node: &Node) -> Vec<Vec<Expression>> {
    let rule = |address: IpAddr, transport: Transport| {
        let from_elsewhere = [on::iif_is_not(&node.bridge), on::iif_is_not("lo")].concat();
        let family = on::family_is(Family::of(address));
        let all = from_elsewhere.into_iter().chain(family).chain(is_to(address));
        all.chain(transport.matched()).chain(is_to_port()).chain([on::drop()]).collect()
    };
    queries(node).map(|(address, transport)| rule(address, transport)).collect()
}

/// Each address of the server with each transport protocol.
fn queries(node: &Node) -> impl Iterator<Item = (IpAddr, Transport)> {
    node.dns_servers.iter().flat_map(|address| Transport::ALL.map(|transport| (*address, transport)))
}

/// The beginning of the comments of rules that accept queries.
fn comment_prefix(name: &str) -> String {
    format!("{name}: DNS over ")
}

/// Whether a comment is that of a rule that accepts queries of this node's pods.
pub(super) fn is_own_comment(name: &str, comment: &str) -> bool {
    comment.starts_with(&comment_prefix(name))
}

/// Whether a chain of this family sees packets for the address.
fn sees(family: u8, address: IpAddr) -> bool {
    family == INET || family == Family::of(address).number()
}

/// The comments of the rules that a chain of this family needs, in order.
pub(super) fn comments(node: &Node, family: u8) -> Vec<String> {
    let seen = queries(node).filter(|(address, _)| sees(family, *address));
    seen.map(|(address, transport)| comment(&node.name, transport, address)).collect()
}

fn comment(name: &str, transport: Transport, address: IpAddr) -> String {
    format!("{}{} at {address}", comment_prefix(name), transport.name())
}

/// The messages that append the rules which accept queries of pods to a chain.
pub(super) fn accept_queries(chain: &Forward, node: &Node) -> Vec<Message> {
    let is_of_iptables = chain.family != INET && chain.table == "filter" && chain.chain == "INPUT";
    let seen = queries(node).filter(|(address, _)| sees(chain.family, *address));
    let rule = |(address, transport): (IpAddr, Transport)| {
        let family = (chain.family == INET).then(|| on::family_is(Family::of(address)));
        let mut rule = iif_is(&node.bridge);
        rule.extend(family.into_iter().flatten().chain(is_to(address)).chain(transport.matched()));
        if is_of_iptables {
            rule.push(transport.iptables_port());
        } else {
            rule.extend(is_to_port());
        }
        rule.extend([count(), accept()]);
        let comment = comment(&node.name, transport, address);
        let message = new_rule(chain.family, &chain.table, &chain.chain, &comment, &rule);
        if !is_of_iptables {
            return message;
        }
        // The kernel wants to know the protocol of a rule with such an extension (`NFTA_RULE_COMPAT`).
        let compat = Attributes::new().number(1, transport.number().into()).number(2, 0);
        Message { attributes: message.attributes.clone().nested(5, &compat), ..message }
    };
    seen.map(rule).collect()
}

/// The arguments of the rules of iptables-legacy that accept queries, for the program of one family.
pub(super) fn legacy_rules(bridge: &str, servers: &[IpAddr], family: Family) -> Vec<Vec<String>> {
    let of_family = servers.iter().filter(|address| Family::of(**address) == family);
    let rule = |address: &IpAddr, transport: Transport| {
        let (to, port) = (address.to_string(), PORT.to_string());
        let comment = comment(bridge, transport, *address);
        let name = transport.name();
        let matched = ["INPUT", "-i", bridge, "-d", &to, "-p", name, "-m", name, "--dport", &port];
        let rest = ["-m", "comment", "--comment", &comment, "-j", "ACCEPT"];
        matched.into_iter().chain(rest).map(str::to_owned).collect()
    };
    of_family.flat_map(|address| Transport::ALL.map(|transport| rule(address, transport))).collect()
}

/// The addresses in the comments of [`legacy_rules`] in a listing of iptables-legacy, with duplicates.
pub(super) fn legacy_servers(bridge: &str, listed: &str) -> Vec<IpAddr> {
    let prefix = comment_prefix(bridge);
    let comments = listed.lines().filter_map(|line| line.split_once(&prefix).map(|(_, rest)| rest));
    let addresses = comments.filter_map(|rest| rest.split(' ').nth(2));
    addresses.filter_map(|text| text.trim_end_matches('"').parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn node() -> Node {
        let dns_servers = ["10.1.0.1", "fd00::1"].map(|text| text.parse().unwrap()).to_vec();
        Node { name: "node".to_owned(), bridge: "br0".to_owned(), dns_servers, ..Node::default() }
    }

    #[test]
    fn a_chain_gets_rules_for_the_addresses_that_it_sees() {
        for (family, addresses) in
            [(2, &["10.1.0.1"][..]), (10, &["fd00::1"]), (INET, &["10.1.0.1", "fd00::1"])]
        {
            let expected: Vec<String> = addresses
                .iter()
                .flat_map(|ip| ["udp", "tcp"].map(|protocol| format!("node: DNS over {protocol} at {ip}")))
                .collect();
            let wanted = comments(&node(), family);
            assert_eq!(wanted, expected);
            assert!(wanted.iter().all(|comment| is_own_comment("node", comment)));
            let chain = Forward::input(family);
            assert_eq!(accept_queries(&chain, &node()).len(), expected.len());
        }
        assert!(!is_own_comment("node", "node: from pods"));
        assert_eq!(drop_foreign_queries(&node()).len(), 4);
    }

    #[test]
    fn rules_of_legacy_iptables_are_recognized_in_a_listing() {
        let address: IpAddr = "10.1.0.1".parse().unwrap();
        let rules = legacy_rules("br0", &[address, "fd00::1".parse().unwrap()], Family::V4);
        assert_eq!(
            rules[0].join(" "),
            "INPUT -i br0 -d 10.1.0.1 -p udp -m udp --dport 53 -m comment --comment br0: DNS over udp at 10.1.0.1 -j \
             ACCEPT"
        );
        let listed = "-P INPUT DROP\n-A INPUT -d 10.1.0.1/32 -i br0 -p udp -m udp --dport 53 -m comment --comment \
                      \"br0: DNS over udp at 10.1.0.1\" -j ACCEPT\n-A INPUT -i br0 -j LOG\n";
        assert_eq!((rules.len(), legacy_servers("br0", listed)), (2, vec![address]));
    }
}
