//! The tables in the file of a store, the version of their format, and how such a file comes to be and is recognised.

use redb::{
    Builder, Database, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition,
    WriteTransaction,
};

use super::codec::entry_row;
use super::logbook::Facts;
use super::medium::{Boxed, Overlay};
use crate::storage::{Entry, Revision};

/// Facts of the store by name. Its name and type stay in every format, for it holds the format.
pub(super) const FACTS: TableDefinition<&str, u64> = TableDefinition::new("coracle");
/// The newest value of each key, see `codec`.
pub(super) const ENTRIES: TableDefinition<&str, &[u8]> = TableDefinition::new("entries");
/// What each of the last revisions did, see `codec` and `logbook`.
pub(super) const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

/// The fact that counts the writes.
pub(super) const REVISION: &str = "revision";
/// The fact that adds up the rows of the log.
pub(super) const LOG_BYTES: &str = "log_bytes";
/// The fact that says after which revision the log begins.
pub(super) const OLDEST: &str = "oldest";
/// The fact that says up to where revisions may have been given that the file knows nothing of; no more than the revision
/// when nothing was late.
pub(super) const RESERVED: &str = "reserved";
const FORMAT: &str = "format";

/// The format written here.
pub(super) const KNOWN_FORMAT: u64 = 1 + MIGRATIONS.len() as u64;
/// The first makes format 2 of format 1, and so on.
const MIGRATIONS: &[Migration] = &[late_writes];

/// Turns the tables of one format into the next one, all or nothing.
pub(super) type Migration = fn(&WriteTransaction) -> Result<(), redb::Error>;

/// Memory for pages of the file; whoever reads much keeps a cache above the store.
const CACHE_BYTES: usize = 16 * 1024 * 1024;

/// What a file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Its format.
    pub(super) format: u64,
    /// Its newest revision.
    pub(super) revision: Revision,
    /// Up to where revisions may have been given beyond that.
    pub(super) reserved: Revision,
}

impl Standing {
    /// No revision after this one was ever given.
    pub(super) fn newest_given(self) -> Revision {
        self.revision.max(self.reserved)
    }
}

/// Makes a store of an empty file.
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

/// Opens the file of a store.
pub(super) fn open(backend: Box<dyn StorageBackend>) -> Result<Database, redb::Error> {
    if backend.len()? == 0 {
        // It would be taken for a new one.
        return Err(redb::Error::Corrupted("the file is empty".to_owned()));
    }
    Ok(builder().create_with_backend(Boxed(backend))?)
}

/// How closely a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Every page is read and checked.
    Whole,
    /// What it says of itself is believed.
    Glance,
}

/// Looks at a file without changing it.
pub(super) fn examine(backend: Box<dyn StorageBackend>, look: Look) -> Result<Standing, redb::Error> {
    if backend.len()? == 0 {
        return Err(redb::Error::Corrupted("the file is empty".to_owned()));
    }
    let overlay = Overlay::new(backend)?;
    let database = builder().set_check_integrity_on_open(look == Look::Whole).create_with_backend(overlay)?;
    let transaction = database.begin_read()?;
    let standing = standing(&transaction)?;
    if standing.format == KNOWN_FORMAT {
        transaction.open_table(ENTRIES)?;
        transaction.open_table(LOG)?;
    }
    Ok(standing)
}

/// What a file says of itself.
pub(super) fn standing(transaction: &ReadTransaction) -> Result<Standing, redb::Error> {
    let facts = transaction.open_table(FACTS)?;
    // Format 1 reserves nothing.
    let reserved = facts.get(RESERVED)?.map_or(0, |value| value.value());
    Ok(Standing { format: fact(&facts, FORMAT)?, revision: fact(&facts, REVISION)?, reserved })
}

/// A fact that every store has.
pub(super) fn fact(facts: &impl ReadableTable<&'static str, u64>, name: &str) -> Result<u64, redb::Error> {
    let value = facts.get(name)?.map(|value| value.value());
    value.ok_or_else(|| redb::Error::Corrupted(format!("it does not say its {name}")))
}

/// What an open file says of itself.
pub(super) fn standing_of(database: &Database) -> Result<Standing, redb::Error> {
    standing(&database.begin_read()?)
}

/// Brings a file of an older format up to the one that is known here.
pub(super) fn migrate(database: &Database, format: u64) -> Result<(), redb::Error> {
    migrate_by(database, format, MIGRATIONS)
}

/// The same, by these steps.
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

/// Sets a file to a revision with an empty log, so that every watch of its past is told to list again.
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

/// The facts of a store with an empty log.
fn begin_at(facts: &mut Facts<'_>, revision: Revision) -> Result<(), redb::Error> {
    for (name, value) in [(REVISION, revision), (OLDEST, revision), (LOG_BYTES, 0), (RESERVED, 0)] {
        facts.insert(name, value)?;
    }
    Ok(())
}

/// Format 2 has late writes: revisions that are set aside for them, and a log that says where it begins because late
/// writes may be missing from it.
fn late_writes(transaction: &WriteTransaction) -> Result<(), redb::Error> {
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
