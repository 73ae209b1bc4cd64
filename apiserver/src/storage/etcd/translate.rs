//! What is asked of a store in etcd's terms, and what etcd answers in the store's.

use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};

use super::messages::{
    Compare, DeleteRangeRequest, EVENT_DELETE, Event as EtcdEvent, Header, KeyValue, PutRequest,
    RangeRequest, RequestOp, ResponseOp, TARGET_MOD, TxnRequest, TxnResponse,
};
use crate::storage::{Change, Entry, Event, Expected, Outcome, Revision, Transaction, Write};

/// What became of a transaction of which an earlier attempt had no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// It is known.
    Known(Outcome),
    /// Somebody has written since, and whether this was written before that nobody can say.
    Unclear,
}

/// A revision as etcd writes it.
pub(super) fn number(revision: Revision) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}

/// The revision of an answer.
pub(super) fn revision(header: Option<&Header>) -> Revision {
    header.map_or(0, |header| positive(header.revision))
}

/// The first key that is asked for, and the one before which to stop.
pub(super) fn bounds(prefix: &str, after: Option<&str>) -> (Bytes, Bytes) {
    let from = match after {
        Some(after) if after >= prefix => {
            let mut next = BytesMut::with_capacity(after.len() + 1);
            next.put_slice(after.as_bytes());
            next.put_u8(0);
            next.freeze()
        }
        // An empty key is none to etcd; before this one lies only what `format` has written.
        _ if prefix.is_empty() => Bytes::from_static(&[1]),
        _ => Bytes::copy_from_slice(prefix.as_bytes()),
    };
    (from, end(prefix))
}

/// The first key behind all that begin with that; a zero byte means that there is none.
fn end(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    // No text holds a byte of 255, so the last one can be counted up.
    match end.last_mut() {
        Some(last) => *last = last.saturating_add(1),
        None => end.push(0),
    }
    end.into()
}

/// An entry; `None` when its key is no text and thus not ours.
pub(super) fn entry(found: KeyValue) -> Option<Entry> {
    let key: Arc<str> = std::str::from_utf8(&found.key).ok()?.into();
    let (created, modified) = (positive(found.create_revision), positive(found.mod_revision));
    Some(Entry { key, value: found.value, created, modified })
}

/// A transaction that answers with what stood in its way.
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

/// What became of a transaction.
///
/// Where an earlier attempt had no answer (`is_retry`), a conflict may be with its own writes.
pub(super) fn outcome(transaction: &Transaction, response: TxnResponse, is_retry: bool) -> Settled {
    if response.succeeded {
        return Settled::Known(Outcome::Committed { revision: revision(response.header.as_ref()) });
    }
    let current: Vec<Option<Entry>> = response.responses.into_iter().map(found).collect();
    if is_retry {
        match own(transaction, &current) {
            Own::Written(revision) => return Settled::Known(Outcome::Committed { revision }),
            Own::Perhaps => return Settled::Unclear,
        }
    }
    for (compare, current) in transaction.compares.iter().zip(current) {
        if !compare.expected.holds(current.as_ref()) {
            return Settled::Known(Outcome::Conflict { key: compare.key.clone(), current });
        }
    }
    Settled::Unclear
}

/// True when trying again can do no harm: whatever is written was expected to be as it was, so it happens once at most.
pub(super) fn happens_once(transaction: &Transaction) -> bool {
    transaction.writes.iter().all(|write| {
        let is_guard = |expected| matches!(expected, Expected::Absent | Expected::Modified(_));
        transaction.compares.iter().any(|compare| compare.key == *write.key() && is_guard(compare.expected))
    })
}

/// What happened to a key, under which revision; `None` when it says nothing, `Err` when the value before is forgotten.
pub(super) fn event(told: EtcdEvent) -> Option<Result<(Revision, Option<Event>), Forgotten>> {
    let now = told.kv?;
    let revision = positive(now.mod_revision);
    let Ok(key) = std::str::from_utf8(&now.key) else { return Some(Ok((revision, None))) };
    let key: Arc<str> = key.into();
    let is_deletion = told.kind == EVENT_DELETE;
    let created = positive(now.create_revision);
    let (change, previous) = match told.previous {
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

/// The log was cut off while an event was read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forgotten {
    pub(super) revision: Revision,
}

enum Own {
    /// All that is there now is what this transaction writes, as of that revision.
    Written(Revision),
    Perhaps,
}

/// Looks whether what stands in the way is what an earlier attempt wrote.
fn own(transaction: &Transaction, current: &[Option<Entry>]) -> Own {
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
            // That it is gone says nothing of who took it out.
            _ => return Own::Perhaps,
        }
    }
    match revisions.first() {
        Some(first) if revisions.iter().all(|revision| revision == first) => Own::Written(*first),
        _ => Own::Perhaps,
    }
}

fn found(response: ResponseOp) -> Option<Entry> {
    response.range?.kvs.into_iter().next().and_then(entry)
}

fn positive(number: i64) -> Revision {
    Revision::try_from(number).unwrap_or(0)
}
