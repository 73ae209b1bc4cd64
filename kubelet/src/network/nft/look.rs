//! What is there: lists of the kernel, read into what can be compared.

use std::collections::{BTreeMap, BTreeSet};

use rustix::io::Errno;

use super::Family;
use super::firewall::{Forward, Ours, comments};
use super::ports::{Map, Port};
use super::ranges::Edge;
use super::socket::{Fault, Socket};
use super::table::{FORWARD, Hook, INET, LIST_ELEMENT, Picture, Shape, kind, read_comment};
use super::wire::{Attributes, Received, attributes, find, long, number, text};

/// Everything that concerns us.
pub struct There {
    /// Whether there is a table of our name.
    pub has_table: bool,
    /// What it looks like, without its ports.
    pub ours: Option<Picture>,
    /// Its ports; none if something else stands among them.
    pub ports: Option<BTreeSet<Port>>,
    /// Chains of others that see what is forwarded.
    pub forward: Vec<Forward>,
}

/// Looks at everything.
pub fn all(socket: &mut Socket, name: &str) -> Result<There, Fault> {
    let looked = look(socket, name);
    // Only what has been seen is asked after.
    looked.map_err(|fault| if fault.errno() == Errno::NOENT { Fault::Moved } else { fault })
}

/// Looks at the ports alone; none if there are no maps for them or something else stands there.
pub fn ports(socket: &mut Socket, name: &str) -> Result<Option<BTreeSet<Port>>, Fault> {
    match ports_of(socket, name) {
        Err(Fault::Refused { errno: Errno::NOENT, .. }) => Ok(None),
        looked => looked,
    }
}

fn look(socket: &mut Socket, name: &str) -> Result<There, Fault> {
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
            let picture = picture(socket, name, flags, chains)?;
            let has_maps = Map::ALL.iter().all(|map| picture.sets.contains_key(map.name()));
            let ports = if has_maps { ports_of(socket, name)? } else { None };
            (Some(picture), ports)
        }
    };
    let comments = comments(name);
    let mut forward = Vec::new();
    for chain in chains.into_iter().filter(|chain| !is_ours(&chain)) {
        let Some(hook) = chain.hook.filter(|hook| hook.number == FORWARD && HOSTS.contains(&chain.family))
        else {
            continue;
        };
        let is_owned = |table: &Named| {
            (table.family, &table.name) == (chain.family, &chain.table) && table.flags & OWNED != 0
        };
        let of = Attributes::new().text(1, &chain.table).text(2, &chain.name);
        let rules = socket.list(kind::GET_RULE, chain.family, of, read_rule)?;
        let ours = rules.into_iter().filter(|rule| rule.table == chain.table && rule.chain == chain.name);
        let ours = ours.filter(|rule| comments.contains(&rule.comment));
        forward.push(Forward {
            family: chain.family,
            is_owned: tables.iter().any(is_owned),
            drops: hook.drops_forwarded(),
            ours: ours.map(|rule| Ours { handle: rule.handle, comment: rule.comment }).collect(),
            table: chain.table,
            chain: chain.name,
        });
    }
    Ok(There { has_table: flags.is_some(), ours, ports, forward })
}

/// `NFT_TABLE_F_OWNER`: nobody but the program that made it can change it.
const OWNED: u32 = 0x2;

/// The families whose chains see packets of IP that are forwarded: ip, ip6 and inet.
const HOSTS: [u8; 3] = [2, 10, INET];

fn picture(
    socket: &mut Socket,
    name: &str,
    flags: u32,
    chains: BTreeMap<String, Option<Hook>>,
) -> Result<Picture, Fault> {
    let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for rule in socket.list(kind::GET_RULE, INET, Attributes::new().text(1, name), read_rule)? {
        if rule.table == name {
            rules.entry(rule.chain).or_default().push(rule.comment);
        }
    }
    let sets = socket.list(kind::GET_SET, INET, Attributes::new().text(1, name), read_set)?;
    let sets: BTreeMap<String, Shape> = sets.into_iter().collect();
    let mut cluster = BTreeMap::new();
    for set in Family::BOTH.map(Family::cluster) {
        if sets.contains_key(set) {
            let edges = elements(socket, name, set)?.into_iter().map(|element| element.edge).collect();
            cluster.insert(set.to_owned(), edges);
        }
    }
    Ok(Picture { flags, chains, rules, sets, cluster })
}

fn ports_of(socket: &mut Socket, name: &str) -> Result<Option<BTreeSet<Port>>, Fault> {
    let mut ports = BTreeSet::new();
    for map in Map::ALL {
        for Element { edge, value } in elements(socket, name, map.name())? {
            let Some(port) = Port::read(map, &edge.key, &value) else { return Ok(None) };
            ports.insert(port);
        }
    }
    Ok(Some(ports))
}

struct Element {
    edge: Edge,
    value: Vec<u8>,
}

fn elements(socket: &mut Socket, table: &str, set: &str) -> Result<Vec<Element>, Fault> {
    let of = Attributes::new().text(1, table).text(2, set);
    let lists = socket.list(kind::GET_ELEMENT, INET, of, |answer| {
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
    Element { edge: Edge { key: value(1), is_end }, value: value(2) }
}

struct Named {
    family: u8,
    name: String,
    flags: u32,
}

fn read_table(answer: &Received<'_>) -> Option<Named> {
    let told = answer.attributes();
    Some(Named { family: answer.family(), name: text(told, 1)?, flags: number(told, 2).unwrap_or_default() })
}

struct Chain {
    family: u8,
    table: String,
    name: String,
    hook: Option<Hook>,
}

fn read_chain(answer: &Received<'_>) -> Option<Chain> {
    let told = answer.attributes();
    let hook = find(told, 4).and_then(|place| {
        Some(Hook {
            of: text(told, 7)?,
            number: number(place, 1)?,
            priority: number(place, 2)?.cast_signed(),
            policy: number(told, 5)?,
        })
    });
    Some(Chain { family: answer.family(), table: text(told, 1)?, name: text(told, 3)?, hook })
}

struct Rule {
    table: String,
    chain: String,
    handle: u64,
    comment: String,
}

fn read_rule(answer: &Received<'_>) -> Option<Rule> {
    let told = answer.attributes();
    let restored = || find(told, 4).and_then(restored_comment);
    let comment = find(told, 7).and_then(read_comment).or_else(restored).unwrap_or_default();
    Some(Rule { table: text(told, 1)?, chain: text(told, 2)?, handle: long(told, 3)?, comment })
}

/// The comment of a rule that `iptables-restore` made: it stands among the expressions, as a match of the old kind.
fn restored_comment(expressions: &[u8]) -> Option<String> {
    attributes(expressions).find_map(|(_, expression)| {
        let data = find(expression, 2)?;
        let is_comment =
            text(expression, 1).as_deref() == Some("match") && text(data, 1).as_deref() == Some("comment");
        if is_comment { text(data, 3) } else { None }
    })
}

fn read_set(answer: &Received<'_>) -> Option<(String, Shape)> {
    let told = answer.attributes();
    let shape = Shape {
        flags: number(told, 3).unwrap_or_default(),
        key: number(told, 5)?,
        value: number(told, 7).unwrap_or_default(),
        most: find(told, 9).and_then(|described| number(described, 1)).unwrap_or_default(),
    };
    Some((text(told, 2)?, shape))
}
