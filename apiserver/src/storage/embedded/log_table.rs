//! The event log in the file: recent revisions, with a size limit.
//!
//! The log is complete after its oldest revision, with one exception. A deferred write is dropped when a later one
//! replaces it, so a watch that resumes sees only the last one. Frequent heartbeats therefore do not displace other
//! events.

use redb::{ReadableTable, ReadableTableMetadata, Table};

use super::codec::{Kind, batch_row, row_kind};
use super::tables::{LOG_BYTES, OLDEST, fact};
use crate::storage::{Batch, Limits, Revision};

/// Table of named integers.
pub(super) type Facts<'a> = Table<'a, &'static str, u64>;

/// The log within a write transaction.
pub(super) struct LogTable<'a> {
    table: Table<'a, u64, &'static [u8]>,
    bytes: u64,
    oldest: Revision,
}

impl<'a> LogTable<'a> {
    pub(super) fn open(table: Table<'a, u64, &'static [u8]>, facts: &Facts<'_>) -> Result<Self, redb::Error> {
        Ok(Self { table, bytes: fact(facts, LOG_BYTES)?, oldest: fact(facts, OLDEST)? })
    }

    pub(super) fn close(self, facts: &mut Facts<'_>) -> Result<(), redb::Error> {
        facts.insert(LOG_BYTES, self.bytes)?;
        facts.insert(OLDEST, self.oldest)?;
        Ok(())
    }

    pub(super) fn add(&mut self, batch: &Batch, kind: Kind) -> Result<(), redb::Error> {
        let row = batch_row(&batch.events, kind);
        self.table.insert(batch.revision, row.as_slice())?;
        self.bytes += row.len() as u64;
        Ok(())
    }

    /// Adds a deferred write, and removes the one that it replaces.
    pub(super) fn add_deferred(&mut self, batch: &Batch, before: Revision) -> Result<(), redb::Error> {
        let is_deferred = |row: &[u8]| row_kind(row) == Some(Kind::Deferred);
        if self.table.get(before)?.is_some_and(|row| is_deferred(row.value()))
            && let Some(row) = self.table.remove(before)?
        {
            self.bytes = self.bytes.saturating_sub(row.value().len() as u64);
        }
        self.add(batch, Kind::Deferred)
    }

    /// Drops all revisions up to and including `upto`. Returns false if they were dropped before.
    pub(super) fn forget(&mut self, upto: Revision) -> Result<bool, redb::Error> {
        if upto <= self.oldest {
            return Ok(false);
        }
        while self.table.first()?.is_some_and(|(revision, _)| revision.value() <= upto) {
            self.forget_first()?;
        }
        self.oldest = upto;
        Ok(true)
    }

    /// Drops the oldest revisions beyond the limits. The newest one always stays, for its watchers.
    pub(super) fn bound(&mut self, limits: Limits) -> Result<(), redb::Error> {
        let (revisions, bytes) = (limits.revisions as u64, limits.bytes as u64);
        loop {
            let rows = self.table.len()?;
            if rows <= 1 || (rows <= revisions && self.bytes <= bytes) {
                return Ok(());
            }
            self.forget_first()?;
        }
    }

    fn forget_first(&mut self) -> Result<(), redb::Error> {
        if let Some((revision, row)) = self.table.pop_first()? {
            self.bytes = self.bytes.saturating_sub(row.value().len() as u64);
            self.oldest = self.oldest.max(revision.value());
        }
        Ok(())
    }
}
