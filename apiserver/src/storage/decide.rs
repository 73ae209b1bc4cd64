//! Evaluates a transaction against the current entries. All stores use this definition of compare, put and delete.

use std::sync::Arc;

use super::{Batch, Change, Entry, Event, Revision, Transaction, Write};

/// The result of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// An expectation failed.
    Conflict { key: Arc<str>, current: Option<Entry> },
    /// All expectations hold and nothing changes.
    Nothing,
    /// The transaction changes these keys.
    Change(Batch),
}

/// Evaluates a transaction that would get this revision. `current` looks up a key.
pub(super) fn decide<E>(
    transaction: &Transaction,
    revision: Revision,
    current: impl Fn(&str) -> Result<Option<Entry>, E>,
) -> Result<Decision, E> {
    for compare in &transaction.compares {
        let found = current(&compare.key)?;
        if !compare.expected.holds(found.as_ref()) {
            return Ok(Decision::Conflict { key: compare.key.clone(), current: found });
        }
    }
    let mut events = Vec::with_capacity(transaction.writes.len());
    for write in &transaction.writes {
        let before = current(write.key())?;
        let previous = before.as_ref().map(|entry| entry.modified);
        let change = match (write, before) {
            (Write::Put { value, .. }, before) => {
                Change::Put { value: value.clone(), created: before.map_or(revision, |entry| entry.created) }
            }
            (Write::Delete { .. }, Some(before)) => Change::Delete { last: before.value },
            (Write::Delete { .. }, None) => continue,
        };
        events.push(Event { key: write.key().clone(), change, previous });
    }
    Ok(if events.is_empty() { Decision::Nothing } else { Decision::Change(Batch { revision, events }) })
}
