//! Applies the rules of the service proxy to the kernel: only what differs, in one atomic batch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::conntrack;
use super::super::error::Error;
use super::super::socket::{RequestError, Socket, transact};
use super::super::table::{self, INET, Layout, kind};
use super::super::wire::{Attributes, Message};
use super::clients::{self, Clients};
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
    /// Whether entries of session affinity may still lead to removed endpoints. The next call deletes them.
    pub is_incomplete: bool,
    /// Whether session affinity has no space for further clients. Known only when the entries were checked.
    pub is_affinity_full: Option<bool>,
}

/// What the kernel has after the last call.
struct Known {
    /// The generation of all rules of the network namespace.
    generation: u32,
    node: ServiceNode,
    rules: Arc<ServiceRules>,
    chains: BTreeSet<Chain>,
    elements: Elements,
    capacity: Capacity,
}

impl Known {
    /// Whether the kernel still has exactly this.
    fn is(&self, found: &Found) -> bool {
        let expected = layout(&self.node, &self.chains, self.capacity);
        found.elements.as_ref() == Some(&self.elements) && found.layout.is_equal_except_cluster(&expected)
    }
}

/// The table of the service proxy in the network namespace of the thread that opened it.
pub struct ServiceTable {
    socket: Socket,
    known: Option<Known>,
    clients: Clients,
    /// The rules to which all UDP conntrack entries conform. `None` if any entry may lead elsewhere.
    checked_flows: Option<Arc<ServiceRules>>,
}

impl ServiceTable {
    /// Opens the table without changing it.
    ///
    /// # Errors
    /// If the kernel has no nf_tables, or the process lacks permission.
    pub fn open() -> Result<Self, Error> {
        let mut socket = Socket::open(0).map_err(|errno| Error::opening(DOING, errno))?;
        socket.generation().map_err(|error| Error::opening(DOING, error.errno()))?;
        Ok(Self { socket, known: None, clients: Clients::default(), checked_flows: None })
    }

    /// Changes the table to these rules. Then deletes entries of session affinity and of UDP connections that lead to
    /// removed endpoints, including those that an earlier process left. Other established connections go on. Blocks
    /// for up to some ten milliseconds with 10,000 endpoints.
    ///
    /// # Errors
    /// If the kernel rejects the rules, or another program changes rules all the time.
    pub fn apply(&mut self, node: &ServiceNode, wanted: &Arc<ServiceRules>) -> Result<Applied, Error> {
        let mut applied = Applied::default();
        if !self.is_current(node, wanted)? {
            applied = self.change(node, wanted)?;
        }
        self.clean(&node.name, wanted, &mut applied);
        Ok(applied)
    }

    /// Changes the table.
    fn change(&mut self, node: &ServiceNode, wanted: &Arc<ServiceRules>) -> Result<Applied, Error> {
        let target =
            Target { node, rules: wanted, chains: service_chains(wanted), elements: elements(wanted) };
        let known = self.known.take();
        let committed = match target.commit(&mut self.socket, known.as_ref(), true) {
            // An entry of a client has expired since it was listed.
            Err(error) if error.is_missing_object() => target.commit(&mut self.socket, known.as_ref(), false),
            committed => committed,
        };
        let Committed { generation, capacity, applied, unpins } = committed?;
        if unpins || applied.was_changed {
            self.clients.require_check();
        }
        if applied.is_new || applied.was_changed {
            // While rules were missing, clients may have got entries that lead nowhere.
            self.checked_flows = None;
        }
        let Target { chains, elements, .. } = target;
        let (node, rules) = (node.clone(), wanted.clone());
        self.known = Some(Known { generation, node, rules, chains, elements, capacity });
        Ok(applied)
    }

    /// Deletes entries that lead to removed endpoints: first those of session affinity, because they would lead the
    /// next packet of a UDP client to the same endpoint. An error is only logged, because other clients are not affected.
    fn clean(&mut self, table: &str, rules: &Arc<ServiceRules>, applied: &mut Applied) {
        if let Some(known) = &mut self.known
            && self.clients.must_check(rules)
        {
            match self.clients.check(&mut self.socket, table, rules, &mut known.generation) {
                Ok(checked) => {
                    applied.is_affinity_full = Some(checked.is_full);
                    if checked.stale > 0 {
                        self.checked_flows = None;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot delete entries of session affinity with removed endpoints, retrying");
                    applied.is_incomplete = true;
                    self.checked_flows = None;
                }
            }
        }
        let checked = self.checked_flows.take();
        if checked.as_ref().is_none_or(|checked| !Arc::ptr_eq(checked, rules)) {
            let before = checked.as_ref().map(|checked| &checked.serving_udp);
            conntrack::forget_services(&mut self.socket, before, &rules.serving_udp);
        }
        self.checked_flows = (!applied.is_incomplete).then(|| rules.clone());
    }

    /// Whether the last call made these rules, and no program has changed any rules since. The notification about its
    /// own change leads the caller here again.
    fn is_current(&mut self, node: &ServiceNode, wanted: &Arc<ServiceRules>) -> Result<bool, Error> {
        let Some(known) = &self.known else { return Ok(false) };
        if known.node != *node || !Arc::ptr_eq(&known.rules, wanted) {
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
    /// Whether endpoints with session affinity are removed from a table that stays.
    unpins: bool,
}

/// What the kernel has after a transaction.
struct Committed {
    generation: u32,
    capacity: Capacity,
    applied: Applied,
    unpins: bool,
}

impl Target<'_> {
    /// Changes the table in one transaction. With `forgets_clients` it also deletes entries of session affinity that
    /// lead to removed endpoints.
    fn commit(
        &self,
        socket: &mut Socket,
        known: Option<&Known>,
        forgets_clients: bool,
    ) -> Result<Committed, Error> {
        let (node, rules) = (self.node, self.rules);
        transact(socket, DOING, |socket| {
            let generation = socket.generation()?;
            let current = known.filter(|known| known.generation == generation && known.node == *node);
            let Plan { mut messages, capacity, applied, unpins } = match current {
                Some(known) => self.changes_of_known(&known.chains, &known.elements, known.capacity, false),
                None => {
                    let found = reader::read(socket, &node.name);
                    // All requests name objects that were just listed, so a missing one was removed meanwhile.
                    let found = found.map_err(|error| match error.errno() {
                        rustix::io::Errno::NOENT => RequestError::Changed,
                        _ => error,
                    })?;
                    let was_changed = known
                        .filter(|known| known.node == *node)
                        .is_some_and(|known| found.as_ref().is_none_or(|found| !known.is(found)));
                    self.changes_of_found(found.as_ref(), was_changed)
                }
            };
            if unpins && forgets_clients {
                messages.extend(clients::delete_stale(socket, &node.name, rules)?);
            }
            let after = if messages.is_empty() { generation } else { generation.wrapping_add(1) };
            Ok((messages, Committed { generation: after, capacity, applied, unpins }))
        })
    }

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
        // A chain is deleted before those to which it leads.
        let obsolete: Vec<&Chain> = present.difference(&self.chains).collect();
        messages.extend(obsolete.iter().rev().map(|one| delete_chain(table, &one.name())));
        let applied = Applied { was_changed, elements: count, ..Applied::default() };
        let unpins = elements.iter().any(|(key, value)| {
            matches!(key.0.kind, SetKind::Pinned(_)) && self.elements.get(key) != Some(value)
        });
        Plan { messages, capacity, applied, unpins }
    }

    /// Plans the changes of the table that was read from the kernel.
    fn changes_of_found(&self, found: Option<&Found>, was_changed: bool) -> Plan {
        let usable = found.and_then(|found| {
            let capacity = found.capacity().filter(|capacity| capacity.fits(self.rules))?;
            Some((found.elements.as_ref()?, self.chains_of(&found.layout, capacity)?, capacity))
        });
        match usable {
            Some((elements, (present, obsolete), capacity)) => {
                let mut plan = self.changes_of_known(&present, elements, capacity, was_changed);
                let table = &self.node.name;
                // By name too, chains precede those that lead to them.
                plan.messages.extend(obsolete.iter().rev().map(|name| delete_chain(table, name)));
                plan
            }
            None => self.create(was_changed),
        }
    }

    /// The wanted chains of Services that exist, and the names of obsolete ones. `None` if anything else in the
    /// table is not as it should be.
    fn chains_of(&self, there: &Layout, capacity: Capacity) -> Option<(BTreeSet<Chain>, Vec<String>)> {
        let present: BTreeSet<Chain> =
            self.chains.iter().filter(|one| there.chains.contains_key(&one.name())).cloned().collect();
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
        let applied = Applied { is_new: true, was_changed, elements: count, ..Applied::default() };
        Plan { messages, capacity, applied, unpins: false }
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
