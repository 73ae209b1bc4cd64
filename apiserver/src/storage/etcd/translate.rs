//! Translates between store operations and etcd messages.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::messages::{
    Compare, DeleteRangeRequest, EVENT_DELETE, Event as EtcdEvent, Header, KeyValue, PutRequest,
    RangeRequest, RequestOp, ResponseOp, TARGET_MOD, TxnRequest, TxnResponse,
};
use crate::storage::{Change, Entry, Event, Expected, Outcome, Revision, Transaction, Write};

/// The outcome of a transaction, which may be a retry of an attempt without a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CommitResult {
    /// etcd committed or rejected the transaction.
    Known(Outcome),
    /// The outcome is unknown: a later write hides whether an earlier attempt took effect.
    Unclear,
}

/// Converts a revision to the type that etcd uses.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

/// The revision in a response header.
pub(super) fn revision(header: Option<&Header>) -> Revision {
    header.map_or(0, |header| positive(header.revision))
}

/// Start and end key of a range.
pub(super) fn bounds(prefix: &str, after: Option<&str>) -> (Bytes, Bytes) {
    let from = match after {
        Some(after) if after >= prefix => {
            let mut next = BytesMut::with_capacity(after.len() + 1);
            next.put_slice(after.as_bytes());
            next.put_u8(0);
            next.freeze()
        }
        // etcd does not accept an empty key. Only the format marker sorts before this one.
        _ if prefix.is_empty() => Bytes::from_static(&[1]),
        _ => Bytes::copy_from_slice(prefix.as_bytes()),
    };
    (from, end(prefix))
}

/// The end key of a prefix range. A zero byte means that the range has no end.
fn end(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    // UTF-8 text has no 0xff byte, so the last byte can be incremented.
    match end.last_mut() {
        Some(last) => *last = last.saturating_add(1),
        None => end.push(0),
    }
    end.into()
}

/// Converts a key-value pair to an entry. Returns `None` if the key is not text.
pub(super) fn entry(found: KeyValue) -> Option<Entry> {
    let key: Arc<str> = std::str::from_utf8(&found.key).ok()?.into();
    let (created, modified) = (positive(found.create_revision), positive(found.mod_revision));
    Some(Entry { key, value: found.value, created, modified })
}

/// Converts a transaction to an etcd transaction. If the transaction fails, etcd returns the current values.
pub(super) fn request(transaction: &Transaction) -> TxnRequest {
    let key = |key: &Arc<str>| Bytes::copy_from_slice(key.as_bytes());
    let expected = transaction.compares.iter().filter_map(|compare| {
        let revision = match compare.expected {
            Expected::Absent => 0,
            Expected::Modified(revision) => revision,
            Expected::Any => return None,
        };
        let mod_revision = Some(number(revision));
        Some(Compare { target: TARGET_MOD, key: key(&compare.key), mod_revision })
    });
    let writes = transaction.writes.iter().map(|write| match write {
        Write::Put { value, .. } => {
            let put = PutRequest { key: key(write.key()), value: value.clone() };
            RequestOp { put: Some(put), ..RequestOp::default() }
        }
        Write::Delete { .. } => {
            let delete_range = Some(DeleteRangeRequest { key: key(write.key()) });
            RequestOp { delete_range, ..RequestOp::default() }
        }
    });
    let reads = transaction.compares.iter().map(|compare| {
        let range = Some(RangeRequest { key: key(&compare.key), ..RangeRequest::default() });
        RequestOp { range, ..RequestOp::default() }
    });
    TxnRequest { compare: expected.collect(), success: writes.collect(), failure: reads.collect() }
}

/// Returns the outcome of a transaction.
///
/// With `is_retry`, a conflict may come from an earlier attempt of the same transaction.
pub(super) fn outcome(transaction: &Transaction, response: TxnResponse, is_retry: bool) -> CommitResult {
    if response.succeeded {
        return CommitResult::Known(Outcome::Committed { revision: revision(response.header.as_ref()) });
    }
    let current: Vec<Option<Entry>> = response.responses.into_iter().map(found).collect();
    if is_retry {
        match own_write(transaction, &current) {
            OwnWrite::Written(revision) => return CommitResult::Known(Outcome::Committed { revision }),
            OwnWrite::Perhaps => return CommitResult::Unclear,
        }
    }
    for (compare, current) in transaction.compares.iter().zip(current) {
        if !compare.expected.holds(current.as_ref()) {
            return CommitResult::Known(Outcome::Conflict { key: compare.key.clone(), current });
        }
    }
    CommitResult::Unclear
}

/// True if a retry is safe. Each written key must be compared with an expected revision, so that the transaction
/// takes effect at most once.
pub(super) fn is_idempotent(transaction: &Transaction) -> bool {
    transaction.writes.iter().all(|write| {
        let is_guard = |expected| matches!(expected, Expected::Absent | Expected::Modified(_));
        transaction.compares.iter().any(|compare| compare.key == *write.key() && is_guard(compare.expected))
    })
}

/// Converts an etcd event. Returns `None` for an event without a key, and `Err` if the previous value was
/// compacted.
pub(super) fn event(etcd_event: EtcdEvent) -> Option<Result<(Revision, Option<Event>), Forgotten>> {
    let now = etcd_event.kv?;
    let revision = positive(now.mod_revision);
    let Ok(key) = std::str::from_utf8(&now.key) else { return Some(Ok((revision, None))) };
    let key: Arc<str> = key.into();
    let is_deletion = etcd_event.kind == EVENT_DELETE;
    let created = positive(now.create_revision);
    let (change, previous) = match etcd_event.previous {
        Some(before) => {
            let put = Change::Put { value: now.value, created };
            let change = if is_deletion { Change::Delete { last: before.value } } else { put };
            (change, Some(positive(before.mod_revision)))
        }
        None if is_deletion || now.version > 1 => return Some(Err(Forgotten { revision })),
        None => (Change::Put { value: now.value, created }, None),
    };
    Some(Ok((revision, Some(Event { key, change, previous }))))
}

/// The error for an event whose previous value was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forgotten {
    pub(super) revision: Revision,
}

enum OwnWrite {
    /// All keys have the values that this transaction writes, at one revision.
    Written(Revision),
    Perhaps,
}

/// Checks whether an earlier attempt wrote the conflicting values.
fn own_write(transaction: &Transaction, current: &[Option<Entry>]) -> OwnWrite {
    let here = |key: &str| {
        let found = transaction.compares.iter().zip(current).find(|(compare, _)| *compare.key == *key);
        found.and_then(|(_, entry)| entry.as_ref())
    };
    let mut revisions = Vec::new();
    for write in &transaction.writes {
        match (write, here(write.key())) {
            (Write::Put { value, .. }, Some(entry)) if entry.value == *value => {
                revisions.push(entry.modified)
            }
            // A missing key does not show which writer deleted it.
            _ => return OwnWrite::Perhaps,
        }
    }
    match revisions.first() {
        Some(first) if revisions.iter().all(|revision| revision == first) => OwnWrite::Written(*first),
        _ => OwnWrite::Perhaps,
    }
}

fn found(response: ResponseOp) -> Option<Entry> {
    response.range?.kvs.into_iter().next().and_then(entry)
}

fn positive(number: i64) -> Revision {
    Revision::try_from(number).unwrap_or(0)
}
