//! Applies the rules of NetworkPolicies to the kernel: only what differs, in one atomic batch for both tables.

use std::collections::BTreeMap;

use super::super::antispoof::BRIDGE;
use super::super::error::Error;
use super::super::intervals::IntervalEdge;
use super::super::snapshot::{self, read_chain, read_table};
use super::super::socket::{RequestError, Socket, transact};
use super::super::table::{INET, LIST_ELEMENT, Layout, SetSpec, delete_table, kind};
use super::super::wire::{Attributes, Message, attributes, find, number, text};
use super::super::{NO_BRIDGE_FAMILY, without_bridge_family};
use super::content::{Content, Elements, JUMP};
use super::{PolicyNode, PolicyRules, bridge, inet};

const DOING: &str = "set the packet rules of NetworkPolicies";

/// What [`PolicyTable::apply`] changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Whether a table was created, replaced or removed.
    pub is_new: bool,
    /// Whether another program had changed a table since the last call.
    pub was_changed: bool,
    /// Whether anything was changed.
    pub is_changed: bool,
    /// The reason why frames between pods of this node cannot be handed to the IP layer. They then pass the rules only
    /// with `net.bridge.bridge-nf-call-iptables`.
    pub lacks_bridge: Option<String>,
}

/// The wanted or known content of both tables. `None` for a table that does not exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contents {
    inet: Option<Content>,
    bridge: Option<Content>,
}

impl Contents {
    fn new(node: &PolicyNode, rules: &PolicyRules, has_bridge: bool, known: Option<&Self>) -> Self {
        if rules.pods.is_empty() {
            return Self::default();
        }
        let mut inet = inet::content(rules);
        inet.choose_sizes(known.and_then(|known| known.inet.as_ref()));
        let mut bridge = has_bridge.then(|| bridge::content(node, rules));
        if let Some(bridge) = &mut bridge {
            bridge.choose_sizes(known.and_then(|known| known.bridge.as_ref()));
        }
        Self { inet: Some(inet), bridge }
    }

    fn of(&self, family: u8) -> Option<&Content> {
        if family == INET { self.inet.as_ref() } else { self.bridge.as_ref() }
    }
}

/// What the kernel has after the last call.
struct Known {
    /// The generation of all rules of the network namespace.
    generation: u32,
    node: PolicyNode,
    contents: Contents,
}

/// The tables in the network namespace of the thread that opened them.
pub struct PolicyTable {
    socket: Socket,
    known: Option<Known>,
}

impl PolicyTable {
    /// Opens the tables without changing them.
    ///
    /// # Errors
    /// If the kernel has no nf_tables, or the process lacks permission.
    pub fn open() -> Result<Self, Error> {
        let mut socket = Socket::open(0).map_err(|errno| Error::opening(DOING, errno))?;
        socket.generation().map_err(|error| Error::opening(DOING, error.errno()))?;
        Ok(Self { socket, known: None })
    }

    /// Changes the tables to these rules, in one transaction. Without isolated pods, there are no tables. Established
    /// connections continue.
    ///
    /// # Errors
    /// If the kernel rejects the rules, or another program changes rules all the time.
    pub fn apply(&mut self, node: &PolicyNode, rules: &PolicyRules) -> Result<Applied, Error> {
        without_bridge_family(|can| self.change(node, rules, can))
    }

    fn change(&mut self, node: &PolicyNode, rules: &PolicyRules, has_bridge: bool) -> Result<Applied, Error> {
        let known = self.known.take().filter(|known| known.node == *node);
        let wanted = Contents::new(node, rules, has_bridge, known.as_ref().map(|known| &known.contents));
        let (mut applied, generation) = transact(&mut self.socket, DOING, |socket| {
            let generation = socket.generation()?;
            let mut applied = Applied::default();
            let mut messages = Vec::new();
            let families = if has_bridge { vec![INET, BRIDGE] } else { vec![INET] };
            for family in families {
                let planned = match &known {
                    Some(known) if known.generation == generation => {
                        Planned::of_known(family, node, known.contents.of(family), wanted.of(family))
                    }
                    Some(known) => {
                        let before = known.contents.of(family);
                        match is_in_kernel(socket, family, &node.name, before)? {
                            true => Planned::of_known(family, node, before, wanted.of(family)),
                            false => {
                                applied.was_changed = true;
                                Planned::replace(family, node, wanted.of(family))
                            }
                        }
                    }
                    None => match is_in_kernel(socket, family, &node.name, wanted.of(family))? {
                        true => Planned::default(),
                        false => Planned::replace(family, node, wanted.of(family)),
                    },
                };
                applied.is_new |= planned.is_new;
                messages.extend(planned.messages);
            }
            applied.is_changed = !messages.is_empty();
            let after = if messages.is_empty() { generation } else { generation.wrapping_add(1) };
            Ok((messages, (applied, after)))
        })?;
        self.known = Some(Known { generation, node: node.clone(), contents: wanted });
        if !rules.pods.is_empty() {
            applied.lacks_bridge = NO_BRIDGE_FAMILY.get().cloned();
        }
        Ok(applied)
    }

    /// Removes both tables, if they exist.
    ///
    /// # Errors
    /// If the kernel rejects the change.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        self.known = None;
        transact(&mut self.socket, "remove the packet rules of NetworkPolicies", |socket| {
            let tables = socket.list(kind::GET_TABLE, 0, Attributes::new(), read_table)?;
            let own =
                tables.iter().filter(|table| [INET, BRIDGE].contains(&table.family) && table.name == name);
            Ok((own.map(|table| delete_table(table.family, name)).collect(), ()))
        })
    }
}

/// The planned change of one table.
#[derive(Default)]
struct Planned {
    messages: Vec<Message>,
    is_new: bool,
}

impl Planned {
    fn of_known(family: u8, node: &PolicyNode, known: Option<&Content>, wanted: Option<&Content>) -> Self {
        match (known, wanted) {
            (None, None) => Self::default(),
            (Some(known), Some(wanted)) if wanted.has_layout_of(known) => {
                Self { messages: wanted.change(family, &node.name, known), is_new: false }
            }
            (Some(_), None) => Self { messages: vec![delete_table(family, &node.name)], is_new: true },
            (_, Some(wanted)) => Self { messages: wanted.create(family, &node.name), is_new: true },
        }
    }

    /// Replaces whatever the kernel has.
    fn replace(family: u8, node: &PolicyNode, wanted: Option<&Content>) -> Self {
        let messages = match wanted {
            Some(wanted) => wanted.create(family, &node.name),
            None => super::super::table::remove_of(family, &node.name),
        };
        Self { messages, is_new: true }
    }
}

/// Whether the kernel has exactly this table, or none if `expected` is `None`.
fn is_in_kernel(
    socket: &mut Socket,
    family: u8,
    name: &str,
    expected: Option<&Content>,
) -> Result<bool, RequestError> {
    let found = read(socket, family, name).map_err(|error| match error.errno() {
        // All requests name objects that were just listed, so a missing one was removed meanwhile.
        rustix::io::Errno::NOENT => RequestError::Changed,
        _ => error,
    })?;
    let (Some((layout, elements)), Some(expected)) = (&found, expected) else {
        return Ok(found.is_none() && expected.is_none());
    };
    let wanted: BTreeMap<&String, &Elements> =
        expected.sets.iter().map(|(name, set)| (name, &set.elements)).collect();
    let is_equal = layout.is_equal_except_cluster(&expected.layout()) && elements.iter().eq(wanted);
    Ok(is_equal)
}

type Found = (Layout, BTreeMap<String, Elements>);

fn read(socket: &mut Socket, family: u8, name: &str) -> Result<Option<Found>, RequestError> {
    let tables = socket.list(kind::GET_TABLE, family, Attributes::new(), read_table)?;
    let Some(table) = tables.into_iter().find(|table| table.family == family && table.name == name) else {
        return Ok(None);
    };
    let chains = socket.list(kind::GET_CHAIN, family, Attributes::new(), read_chain)?;
    let chains = chains.into_iter().filter(|chain| chain.family == family && chain.table == name);
    let chains = chains.map(|chain| (chain.name, chain.hook)).collect();
    let layout = snapshot::layout(socket, family, name, table.flags, chains)?;
    let mut elements = BTreeMap::new();
    for (set, spec) in &layout.sets {
        elements.insert(set.clone(), read_elements(socket, family, name, set, spec)?);
    }
    Ok(Some((layout, elements)))
}

/// Reads the elements of a set. An element that the kubelet does not create has an empty chain name.
fn read_elements(
    socket: &mut Socket,
    family: u8,
    table: &str,
    set: &str,
    spec: &SetSpec,
) -> Result<Elements, RequestError> {
    const END: u32 = 1;
    let of = Attributes::new().text(1, table).text(2, set);
    let lists = socket.list(kind::GET_ELEMENT, family, of, |answer| {
        let list = find(answer.attributes(), 3).unwrap_or_default();
        let elements = attributes(list).filter(|(kind, _)| *kind == LIST_ELEMENT);
        let elements = elements.map(|(_, element)| {
            let key = find(element, 1).and_then(|data| find(data, 1)).unwrap_or_default().to_vec();
            let is_end = number(element, 3).unwrap_or_default() & END != 0;
            let verdict = find(element, 2).and_then(|data| find(data, 2));
            let jump = verdict.filter(|verdict| number(verdict, 1).map(u32::cast_signed) == Some(JUMP));
            let chain = (spec.value > 0).then(|| jump.and_then(|jump| text(jump, 2)).unwrap_or_default());
            (IntervalEdge { key, is_end }, chain)
        });
        Some(elements.collect::<Vec<_>>())
    })?;
    Ok(lists.into_iter().flatten().collect())
}
