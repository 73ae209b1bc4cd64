//! The log in the file: what the last revisions did, and how much it holds.
//!
//! Everything after its oldest revision is in it, but for late writes that a later one of the same key has made
//! worthless: a watch that goes on hears of the last of those. So what is written again and again does not push out what
//! is written once.

use redb::{ReadableTable, ReadableTableMetadata, Table};

use super::codec::{Kind, batch_row, row_kind};
use super::tables::{LOG_BYTES, OLDEST, fact};
use crate::storage::{Batch, Limits, Revision};

/// The table of facts, where the log's own stand too.
pub(super) type Facts<'a> = Table<'a, &'static str, u64>;

/// The log of one write transaction.
pub(super) struct Logbook<'a> {
    table: Table<'a, u64, &'static [u8]>,
    bytes: u64,
    oldest: Revision,
}

impl<'a> Logbook<'a> {
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

    /// Adds a late write of a key, in place of the one that wrote the value before it, if that was late too.
    pub(super) fn add_late(&mut self, batch: &Batch, before: Revision) -> Result<(), redb::Error> {
        let is_late = |row: &[u8]| row_kind(row) == Some(Kind::Late);
        if self.table.get(before)?.is_some_and(|row| is_late(row.value()))
            && let Some(row) = self.table.remove(before)?
        {
            self.bytes = self.bytes.saturating_sub(row.value().len() as u64);
        }
        self.add(batch, Kind::Late)
    }

    /// Forgets everything up to that revision; false when that was forgotten before.
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

    /// Forgets what is too much; the newest stays in any case, for its watchers.
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
