//! How entries and batches lie in the rows of the file: little-endian numbers, lengths before bytes.

use std::sync::Arc;

use bytes::Bytes;

use crate::storage::{Batch, Change, Entry, Event, Revision};

const PUT: u8 = 1;
const DELETE: u8 = 2;
/// A put that was late; since format 2.
const LATE: u8 = 3;
/// Two revisions before the value of an entry.
const ENTRY_HEAD_BYTES: usize = 16;

/// What the row of a batch is worth to the log once its key is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As much as before.
    Lasting,
    /// Nothing.
    Late,
}

/// The row of an entry beside its key.
pub(super) fn entry_row(created: Revision, modified: Revision, value: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(ENTRY_HEAD_BYTES + value.len());
    row.extend_from_slice(&created.to_le_bytes());
    row.extend_from_slice(&modified.to_le_bytes());
    row.extend_from_slice(value);
    row
}

/// Reads the row of an entry; none when it is not one.
pub(super) fn entry(key: &str, row: &[u8]) -> Option<Entry> {
    let mut rest = row;
    let created = take_number(&mut rest)?;
    let modified = take_number(&mut rest)?;
    Some(Entry { key: key.into(), value: Bytes::copy_from_slice(rest), created, modified })
}

/// The row of what happened at one revision.
pub(super) fn batch_row(events: &[Event], kind: Kind) -> Vec<u8> {
    let mut row = Vec::new();
    for event in events {
        let (tag, created, value) = match (&event.change, kind) {
            (Change::Put { value, created }, Kind::Lasting) => (PUT, *created, value.as_ref()),
            (Change::Put { value, created }, Kind::Late) => (LATE, *created, value.as_ref()),
            (Change::Delete { last }, _) => (DELETE, 0, last.as_ref()),
        };
        row.push(tag);
        row.extend_from_slice(&event.previous.unwrap_or(0).to_le_bytes());
        row.extend_from_slice(&created.to_le_bytes());
        put_bytes(&mut row, event.key.as_bytes());
        put_bytes(&mut row, value);
    }
    row
}

/// The kind of the row of a batch; none when there is nothing in it.
pub(super) fn row_kind(row: &[u8]) -> Option<Kind> {
    row.first().map(|tag| if *tag == LATE { Kind::Late } else { Kind::Lasting })
}

/// Reads what happened at that revision; none when the row is not such a thing.
pub(super) fn batch(revision: Revision, row: &[u8]) -> Option<Batch> {
    let mut rest = row;
    let mut events = Vec::new();
    while !rest.is_empty() {
        let (tag, after) = rest.split_first()?;
        rest = after;
        // No write has revision 0, so it can say that there was none.
        let previous = Some(take_number(&mut rest)?).filter(|revision| *revision != 0);
        let created = take_number(&mut rest)?;
        let key: Arc<str> = std::str::from_utf8(take_bytes(&mut rest)?).ok()?.into();
        let value = take_bytes(&mut rest)?;
        let change = match *tag {
            PUT | LATE => Change::Put { value: Bytes::copy_from_slice(value), created },
            DELETE => Change::Delete { last: Bytes::copy_from_slice(value) },
            _ => return None,
        };
        events.push(Event { key, change, previous });
    }
    Some(Batch { revision, events })
}

fn put_bytes(row: &mut Vec<u8>, bytes: &[u8]) {
    row.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    row.extend_from_slice(bytes);
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}
