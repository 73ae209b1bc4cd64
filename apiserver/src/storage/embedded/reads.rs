//! Reads from a consistent snapshot of the file, combined with deferred writes.

use std::ops::Bound;
use std::sync::Arc;

use redb::{ReadTransaction, ReadableTable};

use super::codec;
use super::deferred::Deferred;
use super::tables::{ENTRIES, FACTS, LOG, OLDEST, REVISION, fact};
use crate::storage::history::{READ_BATCHES, READ_BYTES};
use crate::storage::transaction::PAGE_BYTES;
use crate::storage::{Batch, Entry, Found, Page, Revision};

/// Reads the newest value of a key.
pub(super) fn get(
    transaction: &ReadTransaction,
    deferred: &Deferred,
    key: &str,
) -> Result<Found, redb::Error> {
    let on_disk = fact(&transaction.open_table(FACTS)?, REVISION)?;
    let deferred = deferred.beside(on_disk);
    let entry = match deferred.and_then(|deferred| deferred.entry(key)) {
        Some(entry) => Some(entry),
        None => entry(&transaction.open_table(ENTRIES)?, key)?,
    };
    Ok(Found { entry, revision: deferred.map_or(on_disk, Deferred::revision) })
}

/// Reads the value of a key in the file.
pub(super) fn entry(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    key: &str,
) -> Result<Option<Entry>, redb::Error> {
    table.get(key)?.map(|row| decode(key, row.value())).transpose()
}

/// Reads a page of the newest values.
pub(super) fn page(
    transaction: &ReadTransaction,
    deferred: &Deferred,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Result<Page, redb::Error> {
    let on_disk = fact(&transaction.open_table(FACTS)?, REVISION)?;
    let deferred = deferred.beside(on_disk);
    let revision = deferred.map_or(on_disk, Deferred::revision);
    let mut page = Page { entries: Vec::new(), revision, more: false };
    let from = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let table = transaction.open_table(ENTRIES)?;
    let mut bytes = 0;
    for found in table.range::<&str>((from, Bound::Unbounded))? {
        let (key, row) = found?;
        if !key.value().starts_with(prefix) {
            break;
        }
        if page.entries.len() >= limit || bytes >= PAGE_BYTES {
            page.more = true;
            break;
        }
        bytes += row.value().len();
        let entry = match deferred.and_then(|deferred| deferred.entry(key.value())) {
            Some(entry) => entry,
            None => decode(key.value(), row.value())?,
        };
        page.entries.push(entry);
    }
    Ok(page)
}

/// Reads all entries of the file, in key order.
pub(super) fn entries(
    transaction: &ReadTransaction,
) -> Result<impl Iterator<Item = Result<Entry, redb::Error>>, redb::Error> {
    let all = transaction.open_table(ENTRIES)?.range_owned::<&str>(..)?;
    Ok(all.map(|found| {
        let (key, row) = found?;
        decode(key.value(), row.value())
    }))
}

/// Reads the events after a revision, up to the read limit, and the oldest revision of the log.
pub(super) fn log_after(
    transaction: &ReadTransaction,
    seen: Revision,
) -> Result<(Vec<Arc<Batch>>, Revision), redb::Error> {
    let oldest = fact(&transaction.open_table(FACTS)?, OLDEST)?;
    let log = transaction.open_table(LOG)?;
    let mut batches = Vec::new();
    let mut bytes = 0;
    for row in log.range((Bound::Excluded(seen), Bound::Unbounded))? {
        let (revision, row) = row?;
        let (revision, row) = (revision.value(), row.value());
        let batch = codec::batch(revision, row)
            .ok_or_else(|| redb::Error::Corrupted(format!("invalid log entry at revision {revision}")))?;
        batches.push(Arc::new(batch));
        bytes += row.len();
        if batches.len() >= READ_BATCHES || bytes >= READ_BYTES {
            break;
        }
    }
    Ok((batches, oldest))
}

fn decode(key: &str, row: &[u8]) -> Result<Entry, redb::Error> {
    codec::entry(key, row).ok_or_else(|| redb::Error::Corrupted(format!("invalid entry of key {key}")))
}
