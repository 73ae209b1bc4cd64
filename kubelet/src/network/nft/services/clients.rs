//! Deletes entries of session affinity that lead to removed endpoints, or that no client uses.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::Family;
use super::super::error::Error;
use super::super::expression::value;
use super::super::socket::{RequestError, Socket, transact};
use super::super::table::{self, INET, kind};
use super::super::wire::{Attributes, Message};
use super::ServiceRules;
use super::affinity::{AFFINITY_SIZE, stale};
use super::layout::{Set, SetKind};
use super::reader::read_set;

const DOING: &str = "delete entries of session affinity";
/// How often the entries are checked while a Service has session affinity. The kernel may omit elements of these sets
/// while it resizes them.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of tries. Each one fails if an entry expires between the list and the deletion.
const MAX_TRIES: usize = 5;
/// From this number of entries on, the set counts as full: the kernel also counts expired entries that it has not
/// deleted yet.
const NEARLY_FULL: usize = AFFINITY_SIZE as usize / 20 * 19;

/// The key of an entry.
type Key = Box<[u8]>;

/// What is known about the entries of clients.
#[derive(Debug, Default)]
pub struct Clients {
    /// When the entries were last checked. `None` if they may lead to removed endpoints.
    checked: Option<Instant>,
    /// The entries without a client at the last check.
    unclaimed: BTreeSet<(Family, Key)>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The number of deleted entries that led to removed endpoints.
    pub stale: usize,
    /// Whether there is no space for further clients.
    pub is_full: bool,
}

impl Clients {
    /// Whether entries may lead to removed endpoints, or the next check is due.
    pub fn must_check(&self, rules: &ServiceRules) -> bool {
        let has_affinity = || rules.groups.values().any(|group| group.affinity_seconds.is_some());
        self.checked.is_none_or(|checked| checked.elapsed() >= CHECK_INTERVAL && has_affinity())
    }

    /// Requires a check, because endpoints were removed.
    pub fn require_check(&mut self) {
        self.checked = None;
    }

    /// Deletes the entries that lead to removed endpoints, and those that had no client at the last check either.
    /// `generation` is that of the known rules, and follows the change.
    ///
    /// # Errors
    /// If the kernel rejects the change. The check is then still required.
    pub fn check(
        &mut self,
        socket: &mut Socket,
        table: &str,
        rules: &ServiceRules,
        generation: &mut u32,
    ) -> Result<Checked, Error> {
        self.checked = None;
        let mut checked = Checked::default();
        let mut unclaimed = BTreeSet::new();
        for family in Family::BOTH {
            let (found, before, after) = self.check_family(socket, table, rules, family)?;
            if *generation == before {
                *generation = after;
            }
            checked.stale += found.stale.len();
            checked.is_full |= found.count >= NEARLY_FULL;
            unclaimed.extend(found.unclaimed.into_iter().map(|key| (family, key)));
        }
        self.unclaimed = unclaimed;
        self.checked = Some(Instant::now());
        Ok(checked)
    }

    /// Also returns the generation of all rules before and after the change.
    fn check_family(
        &self,
        socket: &mut Socket,
        table: &str,
        rules: &ServiceRules,
        family: Family,
    ) -> Result<(Entries, u32, u32), Error> {
        let mut tries = 1..=MAX_TRIES;
        loop {
            let done = transact(socket, DOING, |socket| {
                let generation = socket.generation()?;
                let found = Entries::read(socket, table, rules, family)?;
                let was_unclaimed =
                    found.unclaimed.iter().filter(|key| self.unclaimed.contains(&(family, (*key).clone())));
                let messages = delete(table, family, found.stale.iter().chain(was_unclaimed));
                let after = if messages.is_empty() { generation } else { generation.wrapping_add(1) };
                Ok((messages, (found, generation, after)))
            });
            match done {
                Err(error) if error.is_missing_object() && tries.next().is_some() => {}
                done => return done,
            }
        }
    }
}

/// The entries of a family.
struct Entries {
    /// The keys of those that lead to removed endpoints.
    stale: Vec<Key>,
    /// The keys of the other ones without a client.
    unclaimed: Vec<Key>,
    /// The number of entries that stay, or of clients if there are more.
    count: usize,
}

impl Entries {
    fn read(
        socket: &mut Socket,
        table: &str,
        rules: &ServiceRules,
        family: Family,
    ) -> Result<Self, RequestError> {
        let mut read = |kind| Ok(read_set(socket, table, Set { kind, family })?.unwrap_or_default());
        // A rule adds the client after the entry, so an entry that is in use has a client when the clients are read.
        let (entries, clients) = (read(SetKind::Affinity)?, read(SetKind::Clients)?);
        let clients: BTreeSet<Key> = clients.into_iter().map(|(key, _)| key).collect();
        let keys: Vec<Key> = entries.iter().map(|(key, _)| key.clone()).collect();
        let stale = stale(rules, entries, family);
        let gone: BTreeSet<&Key> = stale.iter().collect();
        let unclaimed: Vec<Key> =
            keys.iter().filter(|key| !gone.contains(key) && !clients.contains(*key)).cloned().collect();
        let count = (keys.len() - stale.len()).max(clients.len());
        Ok(Self { stale, unclaimed, count })
    }
}

/// The messages that delete the entries that lead to removed endpoints, for a transaction that removes the endpoints.
pub fn delete_stale(
    socket: &mut Socket,
    table: &str,
    rules: &ServiceRules,
) -> Result<Vec<Message>, RequestError> {
    let mut messages = Vec::new();
    for family in Family::BOTH {
        let entries = read_set(socket, table, Set { kind: SetKind::Affinity, family })?.unwrap_or_default();
        messages.extend(delete(table, family, stale(rules, entries, family).iter()));
    }
    Ok(messages)
}

fn delete<'a>(table: &str, family: Family, keys: impl Iterator<Item = &'a Key>) -> Vec<Message> {
    let set = Set { kind: SetKind::Affinity, family };
    let elements: Vec<Attributes> = keys.map(|key| Attributes::new().nested(1, &value(key))).collect();
    table::elements_of(INET, kind::DELETE_ELEMENT, table, set.name(), &elements)
}
