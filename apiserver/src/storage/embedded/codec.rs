//! Encodes the rows of entries and batches: little-endian integers, length-prefixed bytes.

use std::sync::Arc;

use bytes::Bytes;

use crate::storage::{Batch, Change, Entry, Event, Revision};

const PUT: u8 = 1;
const DELETE: u8 = 2;
/// The tag of a deferred put; since format 2.
const DEFERRED: u8 = 3;
/// Size of the two revisions before an entry's value.
const ENTRY_HEAD_BYTES: usize = 16;

/// Whether a log row is kept after its key is written again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The row is kept.
    Durable,
    /// The row may be dropped.
    Deferred,
}

/// Encodes an entry, without its key.
pub(super) fn entry_row(created: Revision, modified: Revision, value: &[u8]) -> Vec<u8> {
    let mut row = Vec::with_capacity(ENTRY_HEAD_BYTES + value.len());
    row.extend_from_slice(&created.to_le_bytes());
    row.extend_from_slice(&modified.to_le_bytes());
    row.extend_from_slice(value);
    row
}

/// Decodes an entry. Returns `None` if it is invalid.
pub(super) fn entry(key: &str, row: &[u8]) -> Option<Entry> {
    let mut rest = row;
    let created = take_number(&mut rest)?;
    let modified = take_number(&mut rest)?;
    Some(Entry { key: key.into(), value: Bytes::copy_from_slice(rest), created, modified })
}

/// Encodes the events of a revision.
pub(super) fn batch_row(events: &[Event], kind: Kind) -> Vec<u8> {
    let mut row = Vec::new();
    for event in events {
        let (tag, created, value) = match (&event.change, kind) {
            (Change::Put { value, created }, Kind::Durable) => (PUT, *created, value.as_ref()),
            (Change::Put { value, created }, Kind::Deferred) => (DEFERRED, *created, value.as_ref()),
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

/// The kind of a log row, or `None` if the row is empty.
pub(super) fn row_kind(row: &[u8]) -> Option<Kind> {
    row.first().map(|tag| if *tag == DEFERRED { Kind::Deferred } else { Kind::Durable })
}

/// Decodes the events of a revision. Returns `None` if they are invalid.
pub(super) fn batch(revision: Revision, row: &[u8]) -> Option<Batch> {
    let mut rest = row;
    let mut events = Vec::new();
    while !rest.is_empty() {
        let (tag, after) = rest.split_first()?;
        rest = after;
        // Revision 0 encodes "no previous value".
        let previous = Some(take_number(&mut rest)?).filter(|revision| *revision != 0);
        let created = take_number(&mut rest)?;
        let key: Arc<str> = std::str::from_utf8(take_bytes(&mut rest)?).ok()?.into();
        let value = take_bytes(&mut rest)?;
        let change = match *tag {
            PUT | DEFERRED => Change::Put { value: Bytes::copy_from_slice(value), created },
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
