//! Applies the rules of the service proxy to the kernel: only what differs, in one atomic batch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::Family;
use super::super::conntrack;
use super::super::error::Error;
use super::super::expression::value;
use super::super::socket::{RequestError, Socket};
use super::super::table::{self, INET, Layout, kind};
use super::super::transaction::transact;
use super::super::wire::{Attributes, Message};
use super::affinity::stale;
use super::elements::{Elements, changes, elements};
use super::layout::{Capacity, Chain, Set, SetKind, chains, layout, rules, service_chains};
use super::reader::{self, Found};
use super::{ServiceNode, ServiceRules};

const DOING: &str = "set the packet rules of Services";

/// What [`ServiceTable::apply`] changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Whether the table was created or replaced.
    pub is_new: bool,
    /// Whether another program had changed the table since the last call.
    pub was_changed: bool,
    /// The number of elements that were added or deleted.
    pub elements: usize,
}

/// What the kernel has after the last call.
struct Known {
    /// The generation of all rules of the network namespace.
    generation: u32,
    node: ServiceNode,
    chains: BTreeSet<Chain>,
    elements: Elements,
    capacity: Capacity,
}

/// The table of the service proxy in the network namespace of the thread that opened it.
pub struct ServiceTable {
    socket: Socket,
    known: Option<Known>,
    /// The rules of the last call, to find UDP endpoints that are gone.
    last: Option<Arc<ServiceRules>>,
}

impl ServiceTable {
    /// Opens the table without changing it.
    ///
    /// # Errors
    /// If the kernel has no nf_tables, or the process lacks permission.
    pub fn open() -> Result<Self, Error> {
        let mut socket = Socket::open(0).map_err(|errno| Error::opening(DOING, errno))?;
        socket.generation().map_err(|error| Error::opening(DOING, error.errno()))?;
        Ok(Self { socket, known: None, last: None })
    }

    /// Changes the table to these rules, and deletes conntrack entries of UDP endpoints that are gone. Established
    /// connections go on. Blocks for up to some ten milliseconds with 10,000 endpoints.
    ///
    /// # Errors
    /// If the kernel rejects the rules, or another program changes rules all the time.
    pub fn apply(&mut self, node: &ServiceNode, wanted: &Arc<ServiceRules>) -> Result<Applied, Error> {
        if self.is_current(node, wanted)? {
            return Ok(Applied::default());
        }
        let target =
            Target { node, rules: wanted, chains: service_chains(wanted), elements: elements(wanted) };
        let known = self.known.take();
        let (generation, capacity, applied) = transact(&mut self.socket, DOING, |socket| {
            let generation = socket.generation()?;
            let current =
                known.as_ref().filter(|known| known.generation == generation && known.node == *node);
            let plan = match current {
                Some(known) => target.changes_of_known(&known.chains, &known.elements, known.capacity, false),
                None => {
                    let found = reader::read(socket, &node.name);
                    // All requests name objects that were just listed, so a missing one was removed meanwhile.
                    let found = found.map_err(|error| match error.errno() {
                        rustix::io::Errno::NOENT => RequestError::Changed,
                        _ => error,
                    })?;
                    target.changes_of_found(
                        found.as_ref(),
                        known.as_ref().is_some_and(|known| known.node == *node),
                    )
                }
            };
            let after = if plan.messages.is_empty() { generation } else { generation.wrapping_add(1) };
            Ok((plan.messages, (after, plan.capacity, plan.applied)))
        })?;
        let Target { chains, elements, .. } = target;
        self.known = Some(Known { generation, node: node.clone(), chains, elements, capacity });
        if self.last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, wanted)) || applied.is_new {
            // While the table was gone, clients may have got entries that lead nowhere.
            let before = self.last.as_ref().filter(|_| !applied.is_new).map(|last| last.udp_endpoints());
            conntrack::forget_services(&mut self.socket, before.as_ref(), &wanted.udp_endpoints());
            self.last = Some(wanted.clone());
        }
        if applied.elements > 0 {
            self.forget_clients(&node.name, wanted);
        }
        Ok(applied)
    }

    /// Deletes entries of clients with removed endpoints. An error is only logged: those clients are refused until
    /// the next change.
    fn forget_clients(&mut self, table: &str, rules: &ServiceRules) {
        for family in Family::BOTH {
            let set = Set { kind: SetKind::Affinity, family };
            let forgotten = transact(&mut self.socket, DOING, |socket| {
                let generation = socket.generation()?;
                let entries = reader::read_set(socket, table, set)?.unwrap_or_default();
                let keys = stale(rules, entries, family);
                let elements: Vec<Attributes> =
                    keys.iter().map(|key| Attributes::new().nested(1, &value(key))).collect();
                let messages = table::elements_of(INET, kind::DELETE_ELEMENT, table, set.name(), &elements);
                let after = if messages.is_empty() { generation } else { generation.wrapping_add(1) };
                Ok((messages, (generation, after)))
            });
            match (forgotten, &mut self.known) {
                (Ok((before, after)), Some(known)) if known.generation == before => known.generation = after,
                (Ok(_), _) => {}
                (Err(error), _) => {
                    tracing::warn!(%error, "cannot delete entries of session affinity with removed endpoints");
                }
            }
        }
    }

    /// Whether the last call made these rules, and no program has changed any rules since. The notification about its
    /// own change leads the caller here again.
    fn is_current(&mut self, node: &ServiceNode, wanted: &Arc<ServiceRules>) -> Result<bool, Error> {
        let (Some(known), Some(last)) = (&self.known, &self.last) else { return Ok(false) };
        if known.node != *node || !Arc::ptr_eq(last, wanted) {
            return Ok(false);
        }
        let known = known.generation;
        let generation = self.socket.generation().map_err(|error| Error::opening(DOING, error.errno()))?;
        Ok(generation == known)
    }

    /// Removes the table with this name, if it exists.
    ///
    /// # Errors
    /// If the kernel rejects the change.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        self.known = None;
        transact(&mut self.socket, "remove the packet rules of Services", |socket| {
            let tables =
                socket.list(kind::GET_TABLE, INET, Attributes::new(), super::super::snapshot::read_table)?;
            let exists = tables.iter().any(|table| table.family == INET && table.name == name);
            Ok((if exists { vec![table::delete_table(INET, name)] } else { Vec::new() }, ()))
        })
    }
}

/// The wanted content of the table.
struct Target<'a> {
    node: &'a ServiceNode,
    rules: &'a ServiceRules,
    chains: BTreeSet<Chain>,
    elements: Elements,
}

struct Plan {
    messages: Vec<Message>,
    capacity: Capacity,
    applied: Applied,
}

impl Target<'_> {
    /// Plans the changes of a table with known chains and elements.
    fn changes_of_known(
        &self,
        present: &BTreeSet<Chain>,
        elements: &Elements,
        capacity: Capacity,
        was_changed: bool,
    ) -> Plan {
        if !capacity.fits(self.rules) {
            return self.create(was_changed);
        }
        let table = &self.node.name;
        let mut messages: Vec<Message> =
            self.chains.difference(present).flat_map(|one| make(table, one)).collect();
        let (of_elements, count) = changes(table, elements, &self.elements);
        messages.extend(of_elements);
        messages.extend(present.difference(&self.chains).map(|one| delete_chain(table, &one.name())));
        let applied = Applied { is_new: false, was_changed: was_changed && count > 0, elements: count };
        Plan { messages, capacity, applied }
    }

    /// Plans the changes of the table that was read from the kernel.
    fn changes_of_found(&self, found: Option<&Found>, was_known: bool) -> Plan {
        let usable = found.and_then(|found| {
            let capacity = found.capacity().filter(|capacity| capacity.fits(self.rules))?;
            Some((found.elements.as_ref()?, self.chains_of(&found.layout, capacity)?, capacity))
        });
        match usable {
            Some((elements, (present, obsolete), capacity)) => {
                let mut plan = self.changes_of_known(&present, elements, capacity, was_known);
                let table = &self.node.name;
                plan.messages.extend(obsolete.iter().map(|name| delete_chain(table, name)));
                plan
            }
            None => self.create(was_known),
        }
    }

    /// The wanted chains of Services that exist, and the names of obsolete ones. `None` if anything else in the
    /// table is not as it should be.
    fn chains_of(&self, there: &Layout, capacity: Capacity) -> Option<(BTreeSet<Chain>, Vec<String>)> {
        let present: BTreeSet<Chain> =
            self.chains.iter().filter(|one| there.chains.contains_key(&one.name())).copied().collect();
        let wanted = layout(self.node, &present, capacity);
        let is_extra = |name: &&String| !wanted.chains.contains_key(*name);
        let extra: Vec<String> = there.chains.keys().filter(is_extra).cloned().collect();
        let mut rest = there.clone();
        for name in &extra {
            // Base chains see packets, so a foreign one makes a difference.
            if rest.chains.remove(name).flatten().is_some() {
                return None;
            }
            rest.rules.remove(name);
        }
        rest.is_equal_except_cluster(&wanted).then_some((present, extra))
    }

    /// Plans a new table that replaces the present one.
    fn create(&self, was_changed: bool) -> Plan {
        let (table, capacity) = (&self.node.name, Capacity::of(self.rules));
        let mut messages = table::remove(table);
        messages.push(table::new_table(INET, table));
        for (number, set) in (1..).zip(Set::all()) {
            let (spec, types) = set.spec(capacity);
            messages.push(table::new_set(INET, table, set.name(), &spec, types, number));
        }
        for (chain, hook) in chains() {
            messages.push(table::new_chain(INET, table, chain, hook.as_ref()));
        }
        for (chain, comment, expressions) in rules(self.node) {
            messages.push(table::new_rule(INET, table, chain, &comment, &expressions));
        }
        messages.extend(self.chains.iter().flat_map(|one| make(table, one)));
        let (of_elements, count) = changes(table, &BTreeMap::new(), &self.elements);
        messages.extend(of_elements);
        Plan { messages, capacity, applied: Applied { is_new: true, was_changed, elements: count } }
    }
}

fn make(table: &str, chain: &Chain) -> Vec<Message> {
    let name = chain.name();
    let rules = chain.rules();
    let rules = rules.iter().map(|(comment, all)| table::new_rule(INET, table, &name, comment, all));
    [table::new_chain(INET, table, &name, None)].into_iter().chain(rules).collect()
}

/// Deletes a chain with its rules.
fn delete_chain(table: &str, chain: &str) -> Message {
    Message::new(kind::DELETE_CHAIN, 0, INET, Attributes::new().text(1, table).text(3, chain))
}
