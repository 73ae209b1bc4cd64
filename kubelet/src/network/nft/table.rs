//! The table of a node: what it holds, as messages to the kernel, and whether what is there is the same. Pure.
//!
//! What the kernel tells of a rule is not byte by byte what it was told. So every rule carries a comment with a digest of
//! itself, and two tables are the same if chains, sets and these comments are.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use super::expression::{self as on, Expression, value};
use super::ports::{Map, Port, address_bytes};
use super::ranges::{Edge, edges};
use super::wire::{APPEND, Attributes, CREATE, Message};
use super::{Family, Node};

/// `NFPROTO_INET`: rules for both families.
pub const INET: u8 = 1;

/// Messages of nf_tables (linux/netfilter/nf_tables.h).
pub mod kind {
    /// A table is made.
    pub const NEW_TABLE: u8 = 0;
    /// Tables are asked for.
    pub const GET_TABLE: u8 = 1;
    /// A table goes with all that is in it.
    pub const DELETE_TABLE: u8 = 2;
    /// A chain is made.
    pub const NEW_CHAIN: u8 = 3;
    /// Chains are asked for.
    pub const GET_CHAIN: u8 = 4;
    /// A rule is made.
    pub const NEW_RULE: u8 = 6;
    /// Rules are asked for.
    pub const GET_RULE: u8 = 7;
    /// A rule goes.
    pub const DELETE_RULE: u8 = 8;
    /// A set is made.
    pub const NEW_SET: u8 = 9;
    /// Sets are asked for.
    pub const GET_SET: u8 = 10;
    /// Something is put into a set.
    pub const NEW_ELEMENT: u8 = 12;
    /// What is in a set is asked for.
    pub const GET_ELEMENT: u8 = 13;
    /// Something is taken out of a set.
    pub const DELETE_ELEMENT: u8 = 14;
    /// How often rules have changed is asked for.
    pub const GET_GENERATION: u8 = 16;
}

/// Ports in one map, more than a node full of pods has. The kernel moves what is in a map without a limit while it is
/// listed, and then lists some of it twice and some not at all; this takes 128 KiB of its memory.
const MOST_PORTS: u32 = 8192;

/// Elements in one message: a list is at most 64 KiB long, and an element of ours some 80 bytes.
const ELEMENTS_AT_ONCE: usize = 500;

/// Where a chain stands in the way of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// `filter` or `nat`.
    pub of: String,
    /// `NF_INET_*`.
    pub number: u32,
    /// Lower ones come first.
    pub priority: i32,
    /// What happens to what no rule decides on: 0 it is dropped, 1 it is accepted.
    pub policy: u32,
}

/// `NF_INET_PRE_ROUTING`.
const PREROUTING: u32 = 0;
/// `NF_INET_LOCAL_IN`.
const INPUT: u32 = 1;
/// `NF_INET_FORWARD`.
pub const FORWARD: u32 = 2;
/// `NF_INET_LOCAL_OUT`.
const OUTPUT: u32 = 3;
/// `NF_INET_POST_ROUTING`.
const POSTROUTING: u32 = 4;

/// Where the filters of others stand (`NF_IP_PRI_FILTER`).
const AMONG_FILTERS: i32 = 0;
/// Before the rules of Docker (-100): the first rule that changes a destination is the last.
const BEFORE_DNAT: i32 = -105;
/// Before the rules of Docker (100), for sources.
const BEFORE_SNAT: i32 = 95;

const POLICY_DROP: u32 = 0;
const POLICY_ACCEPT: u32 = 1;

impl Hook {
    fn new(of: &str, number: u32, priority: i32) -> Self {
        Self { of: of.to_owned(), number, priority, policy: POLICY_ACCEPT }
    }

    /// Whether what is forwarded gets no further unless a rule says so.
    pub fn drops_forwarded(&self) -> bool {
        self.of == "filter" && self.number == FORWARD && self.policy == POLICY_DROP
    }
}

/// What keys and values of a set are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// `NFT_SET_*`.
    pub flags: u32,
    /// Bytes of a key.
    pub key: u32,
    /// Bytes of a value, none for a set without.
    pub value: u32,
    /// Elements that it has room for, 0 for as many as come.
    pub most: u32,
}

/// `NFT_SET_INTERVAL`.
const RANGES: u32 = 0x4;
/// `NFT_SET_MAP`.
const MAP: u32 = 0x8;

/// How a table looks, whether it is there or wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Picture {
    /// `NFT_TABLE_F_*`: none.
    pub flags: u32,
    /// Chains, those without a hook among them.
    pub chains: BTreeMap<String, Option<Hook>>,
    /// The comments of the rules of every chain, in their order.
    pub rules: BTreeMap<String, Vec<String>>,
    /// Sets.
    pub sets: BTreeMap<String, Shape>,
    /// Addresses that are not masqueraded for, by set.
    pub cluster: BTreeMap<String, BTreeSet<Edge>>,
}

impl Picture {
    /// Whether two differ at most in which addresses are those of pods.
    pub fn is_same_but_for_cluster(&self, other: &Self) -> bool {
        let Self { flags, chains, rules, sets, cluster: _ } = self;
        (flags, chains, rules, sets) == (&other.flags, &other.chains, &other.rules, &other.sets)
    }
}

/// The table of a node except for its ports.
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
    /// What a node's table is to be.
    pub fn new(node: &'a Node) -> Self {
        let mut table = Self { node, rules: Vec::new() };
        table.guard();
        table.redirect();
        table.masquerade();
        table
    }

    /// How it looks.
    pub fn picture(&self) -> Picture {
        let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (chain, comment, _) in &self.rules {
            rules.entry((*chain).to_owned()).or_default().push(comment.clone());
        }
        Picture {
            flags: 0,
            chains: chains().into_iter().map(|(name, hook)| (name.to_owned(), hook)).collect(),
            rules,
            sets: sets().into_iter().map(|(name, shape, _)| (name.to_owned(), shape)).collect(),
            cluster: self.cluster(),
        }
    }

    /// What makes it anew, whatever was there before.
    pub fn messages(&self, ports: &[Port]) -> Vec<Message> {
        let name = &self.node.name;
        let mut all = remove(name);
        all.push(new_table(name));
        for (number, (set, shape, types)) in (1..).zip(sets()) {
            let mut set = Attributes::new()
                .text(1, name)
                .text(2, set)
                .number(3, shape.flags)
                .number(4, types.0)
                .number(5, shape.key);
            if shape.value > 0 {
                set = set.number(6, types.1).number(7, shape.value);
            }
            if shape.most > 0 {
                set = set.nested(9, &Attributes::new().number(1, shape.most));
            }
            all.push(Message::new(kind::NEW_SET, CREATE, INET, set.number(10, number)));
        }
        for (chain, hook) in chains() {
            all.push(new_chain(name, chain, hook.as_ref()));
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

    /// What makes the addresses that are not masqueraded for those of the node, where the rest of the table is as it should be.
    pub fn cluster_messages(&self, there: &Picture) -> Vec<Message> {
        let name = &self.node.name;
        let mut all = Vec::new();
        for (set, edges) in self.cluster() {
            if there.cluster.get(&set) != Some(&edges) {
                // Of a set of which no element is named, all go.
                let empty = Attributes::new().text(1, name).text(2, &set);
                all.push(Message::new(kind::DELETE_ELEMENT, 0, INET, empty));
                all.extend(put_edges(name, &set, &edges));
            }
        }
        all
    }

    fn rule(&mut self, chain: &'static str, says: &str, expressions: Vec<Expression>) {
        let mut digest = Sha256::new();
        for expression in &expressions {
            digest.update(expression.attributes().as_bytes());
        }
        let digest = hex::encode(&digest.finalize()[..4]);
        self.rules.push((chain, format!("{says} [{digest}]"), expressions));
    }

    /// The way back of connections from this host to `localhost` is open on the bridge, for nobody else: not for the first packet
    /// of a connection, which none has sent elsewhere yet, nor for any that arrives all the same. What only passes by, as
    /// packets between pods do, meets none of it but the first time.
    fn guard(&mut self) {
        // Of the sixth version, the kernel takes no such packet from a link whatever is set.
        let (loopback, bits) = Family::V4.loopback();
        let to_localhost = [
            on::comes_in_by(&self.node.bridge),
            on::is_of(Family::V4),
            on::is_to(Family::V4, &loopback, bits),
        ]
        .concat();
        let says = "pods do not reach what listens on this host alone";
        for (chain, more) in [(IN, vec![]), (GUARD, on::is_of_no_connection()), (GUARD, on::is_no_answer())] {
            self.rule(chain, says, [to_localhost.clone(), more, vec![on::drop()]].concat());
        }
    }

    fn redirect(&mut self) {
        // The kernel knows no way back to `::1` from a link, so it is not sent there.
        let (loopback, bits) = Family::V6.loopback();
        let expressions = [on::is_of(Family::V6), on::is_to(Family::V6, &loopback, bits), vec![on::accept()]];
        self.rule(OWN, "to localhost of the sixth version", expressions.concat());
        for chain in [IN, OWN] {
            let expressions = [on::is_to_this_host(), vec![on::jump(PORTS)]];
            self.rule(chain, "to this host", expressions.concat());
        }
        for map in Map::ALL {
            let expressions = [on::is_of(map.family), on::redirect(map.family, map.name(), map.by_address)];
            self.rule(PORTS, "to a pod", expressions.concat());
        }
    }

    fn masquerade(&mut self) {
        let Node { bridge, cidrs, .. } = self.node;
        for cidr in cidrs {
            let (family, masquerade) = (Family::of(cidr.addr()), vec![on::masquerade()]);
            let from_pod = on::is_from(family, &address_bytes(cidr.addr()), cidr.prefix_len());
            let from_pod = [on::is_of(family), from_pod].concat();
            let outside = [on::is_to_none_of(family, family.cluster()), on::goes_out_elsewhere(bridge)];
            let expressions = [from_pod.clone(), outside.concat(), masquerade.clone()];
            self.rule(OUT, "out of the cluster", expressions.concat());
            // A pod would get the answer straight from the other, from an address that it did not ask. What was redirected by
            // rules of others, as services are, is up to them.
            for map in Map::ALL.into_iter().filter(|map| map.family == family) {
                let redirected = [
                    on::goes_out_by(bridge),
                    on::was_redirected(),
                    on::was_addressed_to(family, map.name(), map.by_address),
                ];
                let expressions = [from_pod.clone(), redirected.concat(), masquerade.clone()];
                // `nft` does not print which map a rule asks where it takes nothing from it.
                let says = format!("from a pod to a port of this host ({})", map.name());
                self.rule(OUT, &says, expressions.concat());
            }
        }
        let (loopback, bits) = Family::V4.loopback();
        let expressions = [
            on::goes_out_by(bridge),
            on::is_of(Family::V4),
            on::is_from(Family::V4, &loopback, bits),
            on::was_redirected(),
            vec![on::masquerade()],
        ];
        self.rule(OUT, "from localhost", expressions.concat());
    }

    fn cluster(&self) -> BTreeMap<String, BTreeSet<Edge>> {
        let all = [&self.node.cidrs[..], &self.node.cluster].concat();
        Family::BOTH.map(|family| (family.cluster().to_owned(), edges(family, &all))).into()
    }
}

/// What takes a table away, whether it is there or not.
pub fn remove(name: &str) -> Vec<Message> {
    let gone = Message::new(kind::DELETE_TABLE, 0, INET, Attributes::new().text(1, name));
    vec![new_table(name), gone]
}

fn put_edges(table: &str, set: &str, edges: &BTreeSet<Edge>) -> Vec<Message> {
    let elements = edges.iter().map(|edge| {
        let element = Attributes::new().nested(1, &value(&edge.key));
        if edge.is_end { element.number(3, 1) } else { element }
    });
    elements_of(kind::NEW_ELEMENT, table, set, &elements.collect::<Vec<_>>())
}

/// What puts ports into the maps.
pub fn put(table: &str, ports: &[Port]) -> Vec<Message> {
    of_ports(kind::NEW_ELEMENT, table, ports, |port| {
        Attributes::new().nested(1, &value(&port.key())).nested(2, &value(&port.value()))
    })
}

/// What takes ports out of the maps, where they must be.
pub fn take(table: &str, ports: &[Port]) -> Vec<Message> {
    of_ports(kind::DELETE_ELEMENT, table, ports, |port| Attributes::new().nested(1, &value(&port.key())))
}

/// A rule at the end of a chain.
pub fn new_rule(family: u8, table: &str, chain: &str, comment: &str, expressions: &[Expression]) -> Message {
    let list =
        expressions.iter().fold(Attributes::new(), |list, one| list.nested(LIST_ELEMENT, one.attributes()));
    let rule =
        Attributes::new().text(1, table).text(2, chain).nested(4, &list).bytes(7, &comment_bytes(comment));
    Message::new(kind::NEW_RULE, CREATE | APPEND, family, rule)
}

/// The comment of a rule in what its maker left with it: kind, length and value one after the other.
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

/// An element of a list.
pub const LIST_ELEMENT: u16 = 1;

/// The kind of comments as `nft` and `iptables` write them, in what rules carry.
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

/// Sets, with the types by which `nft` prints keys and values.
fn sets() -> Vec<(&'static str, Shape, (u32, u32))> {
    let cluster = Family::BOTH.map(|family| {
        let shape = Shape { flags: RANGES, key: u32::from(family.address_length()), value: 0, most: 0 };
        (family.cluster(), shape, (family.nft_type(), 0))
    });
    let ports = Map::ALL.map(|map| {
        /// `inet_proto` and `inet_service`, six bits each.
        const PROTOCOL_AND_PORT: u32 = (12 << 6) | 13;
        const PORT: u32 = 13;
        let address = u32::from(map.family.address_length());
        let (key, of_key) = if map.by_address {
            (address + 8, (map.family.nft_type() << 12) | PROTOCOL_AND_PORT)
        } else {
            (8, PROTOCOL_AND_PORT)
        };
        let shape = Shape { flags: MAP, key, value: address + 4, most: MOST_PORTS };
        (map.name(), shape, (of_key, (map.family.nft_type() << 6) | PORT))
    });
    cluster.into_iter().chain(ports).collect()
}

fn new_table(name: &str) -> Message {
    Message::new(kind::NEW_TABLE, CREATE, INET, Attributes::new().text(1, name).number(2, 0))
}

fn new_chain(table: &str, name: &str, hook: Option<&Hook>) -> Message {
    let mut chain = Attributes::new().text(1, table).text(3, name);
    if let Some(Hook { of, number, priority, policy }) = hook {
        let place = Attributes::new().number(1, *number).bytes(2, &priority.to_be_bytes());
        chain = chain.nested(4, &place).number(5, *policy).text(7, of);
    }
    Message::new(kind::NEW_CHAIN, CREATE, INET, chain)
}

fn of_ports(kind: u8, table: &str, ports: &[Port], element: impl Fn(&Port) -> Attributes) -> Vec<Message> {
    let of_map = |map: Map| {
        let elements: Vec<Attributes> = ports.iter().filter(|port| port.map() == map).map(&element).collect();
        elements_of(kind, table, map.name(), &elements)
    };
    Map::ALL.into_iter().flat_map(of_map).collect()
}

fn elements_of(kind: u8, table: &str, set: &str, elements: &[Attributes]) -> Vec<Message> {
    let message = |some: &[Attributes]| {
        let list = some.iter().fold(Attributes::new(), |list, one| list.nested(LIST_ELEMENT, one));
        let flags = if kind == kind::NEW_ELEMENT { CREATE } else { 0 };
        let what = Attributes::new().text(1, table).text(2, set).nested(3, &list);
        Message::new(kind, flags, INET, what)
    };
    elements.chunks(ELEMENTS_AT_ONCE).map(message).collect()
}

#[cfg(test)]
mod tests;
