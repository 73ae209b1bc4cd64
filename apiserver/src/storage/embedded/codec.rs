//! How entries and batches lie in the rows of the file: little-endian numbers, lengths before bytes.

use std::sync::Arc;

use bytes::Bytes;

use crate::storage::{Batch, Change, Entry, Event, Revision};

const PUT: u8 = 1;
const DELETE: u8 = 2;
/// Two revisions before the value of an entry.
const ENTRY_HEAD_BYTES: usize = 16;

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
pub(super) fn batch_row(events: &[Event]) -> Vec<u8> {
    let mut row = Vec::new();
    for event in events {
        let (kind, created, value) = match &event.change {
            Change::Put { value, created } => (PUT, *created, value.as_ref()),
            Change::Delete { last } => (DELETE, 0, last.as_ref()),
        };
        row.push(kind);
        row.extend_from_slice(&event.previous.unwrap_or(0).to_le_bytes());
        row.extend_from_slice(&created.to_le_bytes());
        put_bytes(&mut row, event.key.as_bytes());
        put_bytes(&mut row, value);
    }
    row
}

/// Reads what happened at that revision; none when the row is not such a thing.
pub(super) fn batch(revision: Revision, row: &[u8]) -> Option<Batch> {
    let mut rest = row;
    let mut events = Vec::new();
    while !rest.is_empty() {
        let (kind, after) = rest.split_first()?;
        rest = after;
        // No write has revision 0, so it can say that there was none.
        let previous = Some(take_number(&mut rest)?).filter(|revision| *revision != 0);
        let created = take_number(&mut rest)?;
        let key: Arc<str> = std::str::from_utf8(take_bytes(&mut rest)?).ok()?.into();
        let value = take_bytes(&mut rest)?;
        let change = match *kind {
            PUT => Change::Put { value: Bytes::copy_from_slice(value), created },
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
