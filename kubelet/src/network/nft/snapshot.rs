//! Reads the current rules from the kernel in a form that can be compared.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use super::Family;
use super::antispoof::{self, BRIDGE};
use super::dns_input;
use super::firewall::{Forward, OwnRule, comments};
use super::host_ports::{Map, Port};
use super::intervals::IntervalEdge;
use super::socket::{RequestError, Socket};
use super::table::{FORWARD, Hook, INET, INPUT, LIST_ELEMENT, Layout, SetSpec, kind, read_comment};
use super::wire::{Attributes, Received, attributes, find, long, number, text};

/// All rules that concern the node.
pub struct KernelRules {
    /// Whether the table exists.
    pub has_table: bool,
    /// The layout of the table, without host ports.
    pub ours: Option<Layout>,
    /// The host ports of the table, or `None` if a map has elements of another program.
    pub ports: Option<BTreeSet<Port>>,
    /// The anti-spoofing table of the node.
    pub antispoof: Option<antispoof::Found>,
    /// Chains of other tables that see forwarded packets or packets for this host.
    pub forward: Vec<Forward>,
}

/// Reads all rules.
pub fn all(socket: &mut Socket, name: &str) -> Result<KernelRules, RequestError> {
    let result = read_rules(socket, name);
    // All requests name objects that were just listed, so a missing one was removed meanwhile.
    result.map_err(|error| if error.errno() == Errno::NOENT { RequestError::Changed } else { error })
}

/// Reads the host ports. Returns `None` if their maps are missing or have elements of another program.
pub fn ports(socket: &mut Socket, name: &str) -> Result<Option<BTreeSet<Port>>, RequestError> {
    match ports_of(socket, name) {
        Err(RequestError::Refused { errno: Errno::NOENT, .. }) => Ok(None),
        result => result,
    }
}

/// Reads only the anti-spoofing table.
pub fn antispoof(socket: &mut Socket, name: &str) -> Result<Option<antispoof::Found>, RequestError> {
    let found = socket
        .list(kind::GET_TABLE, BRIDGE, Attributes::new(), read_table)
        .and_then(|tables| Ok((tables, socket.list(kind::GET_CHAIN, BRIDGE, Attributes::new(), read_chain)?)))
        .and_then(|(tables, chains)| find_antispoof(socket, name, &tables, &chains));
    // Only listed objects are requested, so a missing one was removed meanwhile.
    found.map_err(|fault| if fault.errno() == Errno::NOENT { RequestError::Changed } else { fault })
}

fn find_antispoof(
    socket: &mut Socket,
    name: &str,
    tables: &[Named],
    chains: &[Chain],
) -> Result<Option<antispoof::Found>, RequestError> {
    let Some(table) = tables.iter().find(|table| table.family == BRIDGE && table.name == name) else {
        return Ok(None);
    };
    let chains = chains.iter().filter(|chain| chain.family == BRIDGE && chain.table == name);
    let chains = chains.map(|chain| (chain.name.clone(), chain.hook.clone())).collect();
    let layout = layout(socket, BRIDGE, name, table.flags, chains)?;
    let mut found = antispoof::Found { layout, elements: BTreeSet::new() };
    for set in antispoof::SETS {
        if found.layout.sets.contains_key(set) {
            let elements = elements(socket, BRIDGE, name, set)?;
            found.elements.extend(elements.into_iter().map(|element| (set, element.edge.key)));
        }
    }
    Ok(Some(found))
}

fn read_rules(socket: &mut Socket, name: &str) -> Result<KernelRules, RequestError> {
    let tables = socket.list(kind::GET_TABLE, 0, Attributes::new(), read_table)?;
    let chains = socket.list(kind::GET_CHAIN, 0, Attributes::new(), read_chain)?;
    let flags =
        tables.iter().find(|table| table.family == INET && table.name == name).map(|table| table.flags);
    let is_ours = |chain: &&Chain| chain.family == INET && chain.table == name;
    let (ours, ports) = match flags {
        None => (None, None),
        Some(flags) => {
            let chains = chains.iter().filter(is_ours);
            let chains = chains.map(|chain| (chain.name.clone(), chain.hook.clone())).collect();
            let layout = layout(socket, INET, name, flags, chains)?;
            let has_maps = Map::ALL.iter().all(|map| layout.sets.contains_key(map.name()));
            let ports = if has_maps { ports_of(socket, name)? } else { None };
            (Some(layout), ports)
        }
    };
    let antispoof = find_antispoof(socket, name, &tables, &chains)?;
    let comments = comments(name);
    let mut forward = Vec::new();
    for chain in chains.into_iter().filter(|chain| !is_ours(&chain)) {
        let is_concerned =
            |hook: &Hook| [FORWARD, INPUT].contains(&hook.number) && HOSTS.contains(&chain.family);
        let Some(hook) = chain.hook.filter(is_concerned) else {
            continue;
        };
        let is_owned = |table: &Named| {
            (table.family, &table.name) == (chain.family, &chain.table) && table.flags & OWNED != 0
        };
        let of = Attributes::new().text(1, &chain.table).text(2, &chain.name);
        let rules = socket.list(kind::GET_RULE, chain.family, of, read_rule)?;
        let ours = rules.into_iter().filter(|rule| rule.table == chain.table && rule.chain == chain.name);
        let is_input = hook.number == INPUT;
        let ours = ours.filter(|rule| match is_input {
            true => dns_input::is_own_comment(name, &rule.comment),
            false => comments.contains(&rule.comment),
        });
        forward.push(Forward {
            family: chain.family,
            is_owned: tables.iter().any(is_owned),
            is_input,
            drops: hook.drops(),
            ours: ours.map(|rule| OwnRule { handle: rule.handle, comment: rule.comment }).collect(),
            table: chain.table,
            chain: chain.name,
        });
    }
    Ok(KernelRules { has_table: flags.is_some(), ours, ports, antispoof, forward })
}

/// The flag `NFT_TABLE_F_OWNER`: only the program that created the table can change it.
const OWNED: u32 = 0x2;

/// The families whose chains see forwarded IP packets: ip, ip6 and inet.
const HOSTS: [u8; 3] = [2, 10, INET];

/// Reads the layout of a table with these chains.
pub fn layout(
    socket: &mut Socket,
    family: u8,
    name: &str,
    flags: u32,
    chains: BTreeMap<String, Option<Hook>>,
) -> Result<Layout, RequestError> {
    let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for rule in socket.list(kind::GET_RULE, family, Attributes::new().text(1, name), read_rule)? {
        if rule.table == name {
            rules.entry(rule.chain).or_default().push(rule.comment);
        }
    }
    let sets = socket.list(kind::GET_SET, family, Attributes::new().text(1, name), read_set)?;
    let sets: BTreeMap<String, SetSpec> = sets.into_iter().collect();
    let mut cluster = BTreeMap::new();
    for set in Family::BOTH.map(Family::cluster) {
        if sets.contains_key(set) {
            let edges =
                elements(socket, family, name, set)?.into_iter().map(|element| element.edge).collect();
            cluster.insert(set.to_owned(), edges);
        }
    }
    Ok(Layout { flags, chains, rules, sets, cluster })
}

fn ports_of(socket: &mut Socket, name: &str) -> Result<Option<BTreeSet<Port>>, RequestError> {
    let mut ports = BTreeSet::new();
    for map in Map::ALL {
        for Element { edge, value } in elements(socket, INET, name, map.name())? {
            let Some(port) = Port::read(map, &edge.key, &value) else { return Ok(None) };
            ports.insert(port);
        }
    }
    Ok(Some(ports))
}

struct Element {
    edge: IntervalEdge,
    value: Vec<u8>,
}

fn elements(socket: &mut Socket, family: u8, table: &str, set: &str) -> Result<Vec<Element>, RequestError> {
    let of = Attributes::new().text(1, table).text(2, set);
    let lists = socket.list(kind::GET_ELEMENT, family, of, |answer| {
        let list = find(answer.attributes(), 3).unwrap_or_default();
        let elements = attributes(list).filter(|(kind, _)| *kind == LIST_ELEMENT);
        Some(elements.map(|(_, element)| read_element(element)).collect::<Vec<_>>())
    })?;
    Ok(lists.into_iter().flatten().collect())
}

fn read_element(element: &[u8]) -> Element {
    const END: u32 = 1;
    let value = |kind| find(element, kind).and_then(|data| find(data, 1)).unwrap_or_default().to_vec();
    let is_end = number(element, 3).unwrap_or_default() & END != 0;
    Element { edge: IntervalEdge { key: value(1), is_end }, value: value(2) }
}

/// A table.
pub struct Named {
    /// The family, `NFPROTO_*`.
    pub family: u8,
    pub name: String,
    /// The flags, `NFT_TABLE_F_*`.
    pub flags: u32,
}

/// Reads a table from an answer.
pub fn read_table(answer: &Received<'_>) -> Option<Named> {
    let attrs = answer.attributes();
    Some(Named {
        family: answer.family(),
        name: text(attrs, 1)?,
        flags: number(attrs, 2).unwrap_or_default(),
    })
}

/// A chain of any table.
pub struct Chain {
    /// The family, `NFPROTO_*`.
    pub family: u8,
    /// The table name.
    pub table: String,
    pub name: String,
    /// The hook of a base chain.
    pub hook: Option<Hook>,
}

/// Reads a chain from an answer.
pub fn read_chain(answer: &Received<'_>) -> Option<Chain> {
    let attrs = answer.attributes();
    let hook = find(attrs, 4).and_then(|place| {
        Some(Hook {
            of: text(attrs, 7)?,
            number: number(place, 1)?,
            priority: number(place, 2)?.cast_signed(),
            policy: number(attrs, 5)?,
        })
    });
    Some(Chain { family: answer.family(), table: text(attrs, 1)?, name: text(attrs, 3)?, hook })
}

struct Rule {
    table: String,
    chain: String,
    handle: u64,
    comment: String,
}

fn read_rule(answer: &Received<'_>) -> Option<Rule> {
    let attrs = answer.attributes();
    let restored = || find(attrs, 4).and_then(restored_comment);
    let comment = find(attrs, 7).and_then(read_comment).or_else(restored).unwrap_or_default();
    Some(Rule { table: text(attrs, 1)?, chain: text(attrs, 2)?, handle: long(attrs, 3)?, comment })
}

/// The comment of a rule that `iptables-restore` created. It is an expression of type `match`.
fn restored_comment(expressions: &[u8]) -> Option<String> {
    attributes(expressions).find_map(|(_, expression)| {
        let data = find(expression, 2)?;
        let is_comment =
            text(expression, 1).as_deref() == Some("match") && text(data, 1).as_deref() == Some("comment");
        if is_comment { text(data, 3) } else { None }
    })
}

fn read_set(answer: &Received<'_>) -> Option<(String, SetSpec)> {
    let attrs = answer.attributes();
    let shape = SetSpec {
        flags: number(attrs, 3).unwrap_or_default(),
        key: number(attrs, 5)?,
        value: number(attrs, 7).unwrap_or_default(),
        most: find(attrs, 9).and_then(|described| number(described, 1)).unwrap_or_default(),
    };
    Some((text(attrs, 2)?, shape))
}
