//! The tables of the store file: their format version, creation and migration.

use redb::{
    Builder, Database, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
    WriteTransaction,
};

use super::codec::entry_row;
use super::log_table::Facts;
use super::medium::{Boxed, Overlay};
use crate::storage::{Entry, Revision};

/// Table of named integers. Its name and type never change, because it contains the format version.
pub(super) const FACTS: TableDefinition<&str, u64> = TableDefinition::new("coracle");
/// Table of the newest value of each key; see `codec`.
pub(super) const ENTRIES: TableDefinition<&str, &[u8]> = TableDefinition::new("entries");
/// Table of the events of recent revisions; see `codec` and `log_table`.
pub(super) const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

/// Name of the current revision.
pub(super) const REVISION: &str = "revision";
/// Name of the total size of the log rows.
pub(super) const LOG_BYTES: &str = "log_bytes";
/// Name of the revision after which the log begins.
pub(super) const OLDEST: &str = "oldest";
/// Name of the upper bound of the revisions that deferred writes use. It does not exceed the current revision if
/// there were none.
pub(super) const RESERVED: &str = "reserved";
const FORMAT: &str = "format";

/// Format version of new files.
pub(super) const KNOWN_FORMAT: u64 = 1 + MIGRATIONS.len() as u64;
/// Migrations: the first one converts format 1 to 2, and so on.
const MIGRATIONS: &[Migration] = &[deferred_writes];

/// Converts a file from one format to the next, atomically.
pub(super) type Migration = fn(&WriteTransaction) -> Result<(), redb::Error>;

/// Page cache size in bytes. It is small, because the watch cache serves frequent reads.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Format and revisions of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    /// Format version.
    pub(super) format: u64,
    /// Current revision.
    pub(super) revision: Revision,
    /// Upper bound of the reserved revisions.
    pub(super) reserved: Revision,
}

impl FileState {
    /// The highest revision that may have been used.
    pub(super) fn newest_given(self) -> Revision {
        self.revision.max(self.reserved)
    }
}

/// Creates a store in an empty file.
pub(super) fn create(
    backend: Box<dyn StorageBackend>,
    revision: Revision,
    entries: impl Iterator<Item = Result<Entry, redb::Error>>,
) -> Result<(), redb::Error> {
    let database = builder().create_with_backend(Boxed(backend))?;
    let transaction = database.begin_write()?;
    {
        let mut facts = transaction.open_table(FACTS)?;
        facts.insert(FORMAT, KNOWN_FORMAT)?;
        begin_at(&mut facts, revision)?;
        transaction.open_table(LOG)?;
        let mut table = transaction.open_table(ENTRIES)?;
        for entry in entries {
            let entry = entry?;
            table.insert(&*entry.key, entry_row(entry.created, entry.modified, &entry.value).as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(database.close()?)
}

/// Opens a store file.
pub(super) fn open(backend: Box<dyn StorageBackend>) -> Result<Database, redb::Error> {
    if backend.len()? == 0 {
        // redb would initialize it as a new database.
        return Err(redb::Error::Corrupted("the file is empty".to_owned()));
    }
    Ok(builder().create_with_backend(Boxed(backend))?)
}

/// How thoroughly a file is inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Every page is verified.
    Full,
    /// The header of the file is trusted.
    Quick,
}

/// Inspects a file without modifying it.
pub(super) fn examine(backend: Box<dyn StorageBackend>, look: Look) -> Result<FileState, redb::Error> {
    if backend.len()? == 0 {
        return Err(redb::Error::Corrupted("the file is empty".to_owned()));
    }
    let overlay = Overlay::new(backend)?;
    let database = builder().set_check_integrity_on_open(look == Look::Full).create_with_backend(overlay)?;
    let transaction = database.begin_read()?;
    let file_state = file_state(&transaction)?;
    if file_state.format == KNOWN_FORMAT {
        transaction.open_table(ENTRIES)?;
        transaction.open_table(LOG)?;
    }
    Ok(file_state)
}

/// Reads the format and the revisions within a transaction.
pub(super) fn file_state(transaction: &ReadTransaction) -> Result<FileState, redb::Error> {
    let facts = transaction.open_table(FACTS)?;
    // Format 1 has no reserved revisions.
    let reserved = facts.get(RESERVED)?.map_or(0, |value| value.value());
    Ok(FileState { format: fact(&facts, FORMAT)?, revision: fact(&facts, REVISION)?, reserved })
}

/// Reads a named integer that every store has.
pub(super) fn fact(facts: &impl ReadableTable<&'static str, u64>, name: &str) -> Result<u64, redb::Error> {
    let value = facts.get(name)?.map(|value| value.value());
    value.ok_or_else(|| redb::Error::Corrupted(format!("it does not contain its {name}")))
}

/// Reads the format and the revisions of an open file.
pub(super) fn file_state_of(database: &Database) -> Result<FileState, redb::Error> {
    file_state(&database.begin_read()?)
}

/// Migrates a file to the current format.
pub(super) fn migrate(database: &Database, format: u64) -> Result<(), redb::Error> {
    migrate_by(database, format, MIGRATIONS)
}

/// Does the same as [`migrate`], with the given list of migrations.
pub(super) fn migrate_by(database: &Database, format: u64, all: &[Migration]) -> Result<(), redb::Error> {
    let done = usize::try_from(format.saturating_sub(1)).unwrap_or(usize::MAX);
    let steps = all.get(done..).unwrap_or_default();
    if steps.is_empty() {
        return Ok(());
    }
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    for step in steps {
        step(&transaction)?;
    }
    transaction.open_table(FACTS)?.insert(FORMAT, 1 + all.len() as u64)?;
    Ok(transaction.commit()?)
}

/// Sets the revision and clears the log, so that all earlier watches must list again.
pub(super) fn set_revision(database: &Database, revision: Revision) -> Result<(), redb::Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    transaction.delete_table(LOG)?;
    {
        transaction.open_table(LOG)?;
        begin_at(&mut transaction.open_table(FACTS)?, revision)?;
    }
    Ok(transaction.commit()?)
}

/// Writes the initial integers of a store with an empty log.
fn begin_at(facts: &mut Facts<'_>, revision: Revision) -> Result<(), redb::Error> {
    for (name, value) in [(REVISION, revision), (OLDEST, revision), (LOG_BYTES, 0), (RESERVED, 0)] {
        facts.insert(name, value)?;
    }
    Ok(())
}

/// Converts to format 2, which adds deferred writes: reserved revisions, and an explicit start of the log, which
/// may lack deferred writes.
fn deferred_writes(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    let first = transaction.open_table(LOG)?.first()?.map(|(revision, _)| revision.value());
    let mut facts = transaction.open_table(FACTS)?;
    let revision = fact(&facts, REVISION)?;
    facts.insert(OLDEST, first.map_or(revision, |first| first.saturating_sub(1)))?;
    facts.insert(RESERVED, 0)?;
    Ok(())
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}
