//! The nftables table of a node: its content as messages, and its layout for comparison. Pure.
//!
//! The kernel does not return rules byte for byte. Therefore each rule has a comment with a digest of itself. Two
//! tables are equal if their chains, sets and comments are.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::dns_input;
use super::expression::{self as on, Expression, value};
use super::host_ports::{Map, Port, address_bytes};
use super::intervals::{IntervalEdge, edges};
use super::wire::{APPEND, Attributes, CREATE, Message};
use super::{Family, Node};

/// The family `NFPROTO_INET`: rules for both IP versions.
pub const INET: u8 = 1;

/// Message types of nf_tables (linux/netfilter/nf_tables.h).
pub mod kind {
    /// `NFT_MSG_NEWTABLE`.
    pub const NEW_TABLE: u8 = 0;
    /// `NFT_MSG_GETTABLE`.
    pub const GET_TABLE: u8 = 1;
    /// `NFT_MSG_DELTABLE`: deletes a table with its content.
    pub const DELETE_TABLE: u8 = 2;
    /// `NFT_MSG_NEWCHAIN`.
    pub const NEW_CHAIN: u8 = 3;
    /// `NFT_MSG_GETCHAIN`.
    pub const GET_CHAIN: u8 = 4;
    /// `NFT_MSG_DELCHAIN`: deletes a chain with its rules.
    pub const DELETE_CHAIN: u8 = 5;
    /// `NFT_MSG_NEWRULE`.
    pub const NEW_RULE: u8 = 6;
    /// `NFT_MSG_GETRULE`.
    pub const GET_RULE: u8 = 7;
    /// `NFT_MSG_DELRULE`.
    pub const DELETE_RULE: u8 = 8;
    /// `NFT_MSG_NEWSET`.
    pub const NEW_SET: u8 = 9;
    /// `NFT_MSG_GETSET`.
    pub const GET_SET: u8 = 10;
    /// `NFT_MSG_NEWSETELEM`.
    pub const NEW_ELEMENT: u8 = 12;
    /// `NFT_MSG_GETSETELEM`.
    pub const GET_ELEMENT: u8 = 13;
    /// `NFT_MSG_DELSETELEM`.
    pub const DELETE_ELEMENT: u8 = 14;
    /// `NFT_MSG_GETGEN`.
    pub const GET_GENERATION: u8 = 16;
}

/// Size of a map. It is larger than the number of host ports of a full node. The kernel resizes maps without a size
/// while it lists them, and then repeats and omits elements. This size takes 128 KiB of kernel memory.
const MOST_PORTS: u32 = 8192;

/// Elements per message. A list has at most 64 KiB, and an element of a kubelet at most 110 bytes.
const ELEMENTS_AT_ONCE: usize = 500;

/// The hook of a base chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The chain type, `filter` or `nat`.
    pub of: String,
    /// The hook, `NF_INET_*`.
    pub number: u32,
    /// The priority. Chains with lower ones run first.
    pub priority: i32,
    /// The policy: 0 to drop, 1 to accept.
    pub policy: u32,
}

/// The hook `NF_INET_PRE_ROUTING`.
pub const PREROUTING: u32 = 0;
/// The hook `NF_INET_LOCAL_IN`.
pub const INPUT: u32 = 1;
/// The hook `NF_INET_FORWARD`.
pub const FORWARD: u32 = 2;
/// The hook `NF_INET_LOCAL_OUT`.
pub const OUTPUT: u32 = 3;
/// The hook `NF_INET_POST_ROUTING`.
pub const POSTROUTING: u32 = 4;

/// The priority of other filters (`NF_IP_PRI_FILTER`).
const AMONG_FILTERS: i32 = 0;
/// The priority of DNAT. It precedes Docker's rules (-100), because the first DNAT rule that matches wins.
const BEFORE_DNAT: i32 = -105;
/// The priority of source NAT. It precedes Docker's rules (100).
const BEFORE_SNAT: i32 = 95;

const POLICY_DROP: u32 = 0;
const POLICY_ACCEPT: u32 = 1;

impl Hook {
    /// Creates a hook of a base chain that accepts packets by default.
    pub fn new(of: &str, number: u32, priority: i32) -> Self {
        Self { of: of.to_owned(), number, priority, policy: POLICY_ACCEPT }
    }

    /// Whether the chain drops packets by default.
    pub fn drops(&self) -> bool {
        self.of == "filter" && self.policy == POLICY_DROP
    }
}

/// The specification of a set or map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetSpec {
    /// The flags, `NFT_SET_*`.
    pub flags: u32,
    /// Length of a key in bytes.
    pub key: u32,
    /// Length of a value in bytes, or 0 for a set.
    pub value: u32,
    /// The size of the set in elements, or 0 for no limit.
    pub most: u32,
}

/// The flag `NFT_SET_INTERVAL`.
const RANGES: u32 = 0x4;
/// The flag `NFT_SET_MAP`.
pub const MAP: u32 = 0x8;

/// The layout of a table, current or desired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The flags, `NFT_TABLE_F_*`. The kubelet sets none.
    pub flags: u32,
    /// Chains, with the hook of base chains.
    pub chains: BTreeMap<String, Option<Hook>>,
    /// The comments of each chain's rules, in order.
    pub rules: BTreeMap<String, Vec<String>>,
    pub sets: BTreeMap<String, SetSpec>,
    /// The intervals of the sets of pod addresses.
    pub cluster: BTreeMap<String, BTreeSet<IntervalEdge>>,
}

impl Layout {
    /// Whether two layouts are equal except for the pod addresses.
    pub fn is_equal_except_cluster(&self, other: &Self) -> bool {
        let Self { flags, chains, rules, sets, cluster: _ } = self;
        (flags, chains, rules, sets) == (&other.flags, &other.chains, &other.rules, &other.sets)
    }
}

/// The desired table of a node, without host ports.
pub struct Table<'a> {
    node: &'a Node,
    rules: Vec<(&'static str, String, Vec<Expression>)>,
}

const GUARD: &str = "guard";
const IN: &str = "prerouting";
const OWN: &str = "output";
const PORTS: &str = "host_ports";
const OUT: &str = "postrouting";

impl<'a> Table<'a> {
    /// The desired table.
    pub fn new(node: &'a Node) -> Self {
        let mut table = Self { node, rules: Vec::new() };
        table.guard();
        table.redirect();
        table.masquerade();
        table
    }

    /// The layout of the desired table.
    pub fn layout(&self) -> Layout {
        let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (chain, comment, _) in &self.rules {
            rules.entry((*chain).to_owned()).or_default().push(comment.clone());
        }
        Layout {
            flags: 0,
            chains: chains().into_iter().map(|(name, hook)| (name.to_owned(), hook)).collect(),
            rules,
            sets: sets().into_iter().map(|(name, shape, _)| (name.to_owned(), shape)).collect(),
            cluster: self.cluster(),
        }
    }

    /// The messages that create the table and replace an existing one.
    pub fn messages(&self, ports: &[Port]) -> Vec<Message> {
        let name = &self.node.name;
        let mut all = remove(name);
        all.push(new_table(INET, name));
        for (number, (set, shape, types)) in (1..).zip(sets()) {
            all.push(new_set(INET, name, set, &shape, types, number));
        }
        for (chain, hook) in chains() {
            all.push(new_chain(INET, name, chain, hook.as_ref()));
        }
        for (chain, comment, expressions) in &self.rules {
            all.push(new_rule(INET, name, chain, comment, expressions));
        }
        for (set, edges) in self.cluster() {
            all.extend(put_edges(name, &set, &edges));
        }
        all.extend(put(name, ports));
        all
    }

    /// The messages that correct the sets of pod addresses.
    pub fn cluster_messages(&self, there: &Layout) -> Vec<Message> {
        let name = &self.node.name;
        let mut all = Vec::new();
        for (set, edges) in self.cluster() {
            if there.cluster.get(&set) != Some(&edges) {
                // A delete without elements empties the set.
                let empty = Attributes::new().text(1, name).text(2, &set);
                all.push(Message::new(kind::DELETE_ELEMENT, 0, INET, empty));
                all.extend(put_edges(name, &set, &edges));
            }
        }
        all
    }

    fn rule(&mut self, chain: &'static str, comment_text: &str, expressions: Vec<Expression>) {
        let (comment, expressions) = labelled(comment_text, expressions);
        self.rules.push((chain, comment, expressions));
    }

    /// Protects the loopback addresses of the host from pods, and its DNS server from other machines. `route_localnet`
    /// lets replies to `localhost` return over the bridge. The first rules drop all other packets of pods to loopback
    /// addresses: before DNAT the first packet of a connection, and at input the rest. Forwarded packets pass only the
    /// first of these chains, and only once per connection.
    fn guard(&mut self) {
        // In IPv6 the kernel always drops such packets.
        let (loopback, bits) = Family::V4.loopback();
        let to_localhost = [
            on::iif_is(&self.node.bridge),
            on::family_is(Family::V4),
            on::destination_in(Family::V4, &loopback, bits),
        ]
        .concat();
        let comment_text = "pods do not reach what listens on this host alone";
        for (chain, more) in [(IN, vec![]), (GUARD, on::is_untracked()), (GUARD, on::is_original_direction())]
        {
            self.rule(chain, comment_text, [to_localhost.clone(), more, vec![on::drop()]].concat());
        }
        for expressions in dns_input::drop_foreign_queries(self.node) {
            self.rule(GUARD, "only this host and its pods use its DNS server", expressions);
        }
    }

    fn redirect(&mut self) {
        // The kernel cannot route replies from `::1` over a link, so there is no DNAT for it.
        let (loopback, bits) = Family::V6.loopback();
        let expressions =
            [on::family_is(Family::V6), on::destination_in(Family::V6, &loopback, bits), vec![on::accept()]];
        self.rule(OWN, "to localhost of the sixth version", expressions.concat());
        for chain in [IN, OWN] {
            let expressions = [on::is_to_local_address(), vec![on::jump(PORTS)]];
            self.rule(chain, "to this host", expressions.concat());
        }
        for map in Map::ALL {
            let expressions =
                [on::family_is(map.family), on::redirect(map.family, map.name(), map.by_address)];
            self.rule(PORTS, "to a pod", expressions.concat());
        }
    }

    fn masquerade(&mut self) {
        let Node { bridge, cidrs, .. } = self.node;
        for cidr in cidrs {
            let (family, masquerade) = (Family::of(cidr.addr()), vec![on::masquerade()]);
            let from_pod = on::source_in(family, &address_bytes(cidr.addr()), cidr.prefix_len());
            let from_pod = [on::family_is(family), from_pod].concat();
            let outside = [on::destination_not_in_set(family, family.cluster()), on::oif_is_not(bridge)];
            let expressions = [from_pod.clone(), outside.concat(), masquerade.clone()];
            self.rule(OUT, "out of the cluster", expressions.concat());
            // Without masquerading, the target pod would reply directly, from an address that the client did not
            // contact. DNAT by rules of other programs, such as Services, is left to them.
            for map in Map::ALL.into_iter().filter(|map| map.family == family) {
                let redirected = [
                    on::oif_is(bridge),
                    on::is_dnat(),
                    on::original_destination_in(family, map.name(), map.by_address),
                ];
                let expressions = [from_pod.clone(), redirected.concat(), masquerade.clone()];
                // `nft` does not print which map a rule looks up if the rule does not use the value.
                let comment_text = format!("from a pod to a port of this host ({})", map.name());
                self.rule(OUT, &comment_text, expressions.concat());
            }
        }
        let (loopback, bits) = Family::V4.loopback();
        let expressions = [
            on::oif_is(bridge),
            on::family_is(Family::V4),
            on::source_in(Family::V4, &loopback, bits),
            on::is_dnat(),
            vec![on::masquerade()],
        ];
        self.rule(OUT, "from localhost", expressions.concat());
    }

    fn cluster(&self) -> BTreeMap<String, BTreeSet<IntervalEdge>> {
        let all = [&self.node.cidrs[..], &self.node.cluster].concat();
        Family::BOTH.map(|family| (family.cluster().to_owned(), edges(family, &all))).into()
    }
}

/// The messages that delete a table, even if it does not exist.
pub fn remove(name: &str) -> Vec<Message> {
    remove_of(INET, name)
}

/// Deletes a table of a family, even if it does not exist.
pub fn remove_of(family: u8, name: &str) -> Vec<Message> {
    vec![new_table(family, name), delete_table(family, name)]
}

/// Deletes an existing table.
pub fn delete_table(family: u8, name: &str) -> Message {
    Message::new(kind::DELETE_TABLE, 0, family, Attributes::new().text(1, name))
}

/// Adds a comment to a rule. It contains a digest of the expressions.
pub fn labelled(comment_text: &str, expressions: Vec<Expression>) -> (String, Vec<Expression>) {
    let mut digest = Sha256::new();
    for expression in &expressions {
        digest.update(expression.attributes().as_bytes());
    }
    let digest = hex::encode(&digest.finalize()[..4]);
    (format!("{comment_text} [{digest}]"), expressions)
}

/// Creates a set. `types` are those by which `nft` prints its keys and values. `number` identifies the set in the
/// transaction.
pub fn new_set(
    family: u8,
    table: &str,
    name: &str,
    shape: &SetSpec,
    types: (u32, u32),
    number: u32,
) -> Message {
    let mut set = Attributes::new()
        .text(1, table)
        .text(2, name)
        .number(3, shape.flags)
        .number(4, types.0)
        .number(5, shape.key);
    if shape.value > 0 {
        set = set.number(6, types.1).number(7, shape.value);
    }
    if shape.most > 0 {
        set = set.nested(9, &Attributes::new().number(1, shape.most));
    }
    Message::new(kind::NEW_SET, CREATE, family, set.number(10, number))
}

fn put_edges(table: &str, set: &str, edges: &BTreeSet<IntervalEdge>) -> Vec<Message> {
    let elements = edges.iter().map(|edge| {
        let element = Attributes::new().nested(1, &value(&edge.key));
        if edge.is_end { element.number(3, 1) } else { element }
    });
    elements_of(INET, kind::NEW_ELEMENT, table, set, &elements.collect::<Vec<_>>())
}

/// The messages that add host ports to the maps.
pub fn put(table: &str, ports: &[Port]) -> Vec<Message> {
    of_ports(kind::NEW_ELEMENT, table, ports, |port| {
        Attributes::new().nested(1, &value(&port.key())).nested(2, &value(&port.value()))
    })
}

/// The messages that delete host ports, which must exist.
pub fn take(table: &str, ports: &[Port]) -> Vec<Message> {
    of_ports(kind::DELETE_ELEMENT, table, ports, |port| Attributes::new().nested(1, &value(&port.key())))
}

/// The message that appends a rule to a chain.
pub fn new_rule(family: u8, table: &str, chain: &str, comment: &str, expressions: &[Expression]) -> Message {
    let list =
        expressions.iter().fold(Attributes::new(), |list, one| list.nested(LIST_ELEMENT, one.attributes()));
    let rule =
        Attributes::new().text(1, table).text(2, chain).nested(4, &list).bytes(7, &comment_bytes(comment));
    Message::new(kind::NEW_RULE, CREATE | APPEND, family, rule)
}

/// The comment in a rule's user data, which has entries of type, length and value.
pub fn read_comment(mut userdata: &[u8]) -> Option<String> {
    loop {
        let [kind, length, rest @ ..] = userdata else { return None };
        let (value, next) = rest.split_at_checked(usize::from(*length))?;
        if *kind == COMMENT {
            let text = value.split(|byte| *byte == 0).next().unwrap_or_default();
            return Some(String::from_utf8_lossy(text).into_owned());
        }
        userdata = next;
    }
}

/// The attribute `NFTA_LIST_ELEM`.
pub const LIST_ELEMENT: u16 = 1;

/// The user data type of comments, as `nft` and `iptables` write them.
const COMMENT: u8 = 0;

fn comment_bytes(comment: &str) -> Vec<u8> {
    let mut bytes = vec![COMMENT, (comment.len() + 1).min(usize::from(u8::MAX)) as u8];
    bytes.extend(comment.as_bytes());
    bytes.push(0);
    bytes
}

fn chains() -> [(&'static str, Option<Hook>); 5] {
    [
        (GUARD, Some(Hook::new("filter", INPUT, AMONG_FILTERS))),
        (PORTS, None),
        (IN, Some(Hook::new("nat", PREROUTING, BEFORE_DNAT))),
        (OWN, Some(Hook::new("nat", OUTPUT, BEFORE_DNAT))),
        (OUT, Some(Hook::new("nat", POSTROUTING, BEFORE_SNAT))),
    ]
}

/// All sets and maps, with the types by which `nft` prints keys and values.
fn sets() -> Vec<(&'static str, SetSpec, (u32, u32))> {
    let cluster = Family::BOTH.map(|family| {
        let shape = SetSpec { flags: RANGES, key: u32::from(family.address_length()), value: 0, most: 0 };
        (family.cluster(), shape, (family.nft_type(), 0))
    });
    let ports = Map::ALL.map(|map| {
        /// The types `inet_proto` and `inet_service`, six bits each.
        const PROTOCOL_AND_PORT: u32 = (12 << 6) | 13;
        const PORT: u32 = 13;
        let address = u32::from(map.family.address_length());
        let (key, of_key) = if map.by_address {
            (address + 8, (map.family.nft_type() << 12) | PROTOCOL_AND_PORT)
        } else {
            (8, PROTOCOL_AND_PORT)
        };
        let shape = SetSpec { flags: MAP, key, value: address + 4, most: MOST_PORTS };
        (map.name(), shape, (of_key, (map.family.nft_type() << 6) | PORT))
    });
    cluster.into_iter().chain(ports).collect()
}

/// Creates a table without flags.
pub fn new_table(family: u8, name: &str) -> Message {
    Message::new(kind::NEW_TABLE, CREATE, family, Attributes::new().text(1, name).number(2, 0))
}

/// Creates a chain. With a hook, it is a base chain.
pub fn new_chain(family: u8, table: &str, name: &str, hook: Option<&Hook>) -> Message {
    let mut chain = Attributes::new().text(1, table).text(3, name);
    if let Some(Hook { of, number, priority, policy }) = hook {
        let place = Attributes::new().number(1, *number).bytes(2, &priority.to_be_bytes());
        chain = chain.nested(4, &place).number(5, *policy).text(7, of);
    }
    Message::new(kind::NEW_CHAIN, CREATE, family, chain)
}

fn of_ports(kind: u8, table: &str, ports: &[Port], element: impl Fn(&Port) -> Attributes) -> Vec<Message> {
    let of_map = |map: Map| {
        let elements: Vec<Attributes> = ports.iter().filter(|port| port.map() == map).map(&element).collect();
        elements_of(INET, kind, table, map.name(), &elements)
    };
    Map::ALL.into_iter().flat_map(of_map).collect()
}

/// Adds elements to a set or deletes them, in as many messages as needed.
pub fn elements_of(family: u8, kind: u8, table: &str, set: &str, elements: &[Attributes]) -> Vec<Message> {
    let message = |some: &[Attributes]| {
        let list = some.iter().fold(Attributes::new(), |list, one| list.nested(LIST_ELEMENT, one));
        let flags = if kind == kind::NEW_ELEMENT { CREATE } else { 0 };
        let what = Attributes::new().text(1, table).text(2, set).nested(3, &list);
        Message::new(kind, flags, family, what)
    };
    elements.chunks(ELEMENTS_AT_ONCE).map(message).collect()
}

#[cfg(test)]
mod tests;
