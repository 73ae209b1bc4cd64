//! Files in the store directory: permissions, persistence, and rejected files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bytes::Bytes;
use redb::TableDefinition;

use super::super::{Embedded, tables};
use super::disk::Disk;
use super::open;
use crate::storage::tests::contract::{next, put, put_late, values};
use crate::storage::{Error, Expected, Limits, Store, Transaction};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn reopened_store_has_all_data() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path()).await;
    for n in 0..10 {
        put(&store, &format!("/{}", n % 4), &n.to_string()).await;
    }
    store.commit(Transaction::delete("/0", Expected::Any)).await.unwrap();
    store.compact(5).await.unwrap();
    let (revision, held) = (store.revision().await.unwrap(), values(&store, "/").await);
    drop(store);
    let store = open(home.path()).await;
    assert_eq!((store.revision().await.unwrap(), values(&store, "/").await), (revision, held));
    let entry = store.get("/1").await.unwrap().entry.unwrap();
    assert_eq!((entry.created, entry.modified), (3, 11));
    // Watches resume where they were.
    assert!(matches!(store.watch(4).await.err(), Some(Error::Compacted { requested: 4, oldest: 5 })));
    let mut watch = store.watch(5).await.unwrap();
    assert_eq!(put(&store, "/a", "x").await, revision + 1);
    for expected in 6..=revision + 1 {
        assert_eq!(next(&mut watch).await.unwrap().revision, expected);
    }
}

#[tokio::test]
async fn store_file_is_readable_only_by_its_owner() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("new/store");
    let file = directory.join("store.redb");
    drop(open(&directory).await);
    assert_eq!((mode(&home.path().join("new")), mode(&directory)), (0o700, 0o700));
    assert_eq!((mode(&file), mode(&directory.join("lock"))), (0o600, 0o600));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    drop(open(&directory).await);
    assert_eq!(mode(&file), 0o600);
}

#[tokio::test]
async fn second_process_cannot_open_a_locked_store() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path()).await;
    let error = Embedded::open(home.path(), Limits::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Locked { directory } if directory == home.path()), "{error}");
    put(&store, "/a", "x").await;
    // An open watcher does not keep the store.
    let _watch = store.watch(1).await.unwrap();
    drop(store);
    assert_eq!(values(&open(home.path()).await, "/").await, ["/a=x"]);
}

#[tokio::test]
async fn hard_linked_store_file_is_opened_once() {
    let home = tempfile::tempdir().unwrap();
    let (one, two) = (home.path().join("one"), home.path().join("two"));
    let store = open(&one).await;
    put(&store, "/a", "x").await;
    fs::create_dir(&two).unwrap();
    fs::hard_link(one.join("store.redb"), two.join("store.redb")).unwrap();
    let error = Embedded::open(&two, Limits::default()).await.unwrap_err();
    assert!(matches!(&error, Error::Locked { directory } if *directory == two), "{error}");
    assert!(error.to_string().contains("is in use by another process"), "{error}");
    drop(store);
    let store = open(&two).await;
    assert_eq!(values(&store, "/").await, ["/a=x"]);
    assert!(Embedded::open(&one, Limits::default()).await.is_err());
}

#[tokio::test]
async fn removed_or_replaced_store_file_is_detected() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("store.redb");
    let store = open(home.path()).await;
    put(&store, "/a", "x").await;
    store.check_health().await.unwrap();
    let aside = home.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    let error = store.check_health().await.unwrap_err();
    assert!(
        matches!(error, Error::Displaced { .. }) && error.to_string().contains("`master backup`"),
        "{error}"
    );
    fs::copy(&aside, &file).unwrap();
    assert!(matches!(store.check_health().await, Err(Error::Displaced { .. })), "another file of that name");
    fs::rename(&aside, &file).unwrap();
    store.check_health().await.unwrap();
    fs::remove_file(&file).unwrap();
    assert!(store.check_health().await.is_err());
    // The recovery procedure.
    let saved = home.path().join("saved");
    store.backup(&saved).await.unwrap();
    assert!(saved.exists());
}

#[tokio::test]
async fn store_removes_the_partial_file_of_a_killed_process() {
    let home = tempfile::tempdir().unwrap();
    let partial = home.path().join("store.redb.partial");
    fs::write(&partial, "half").unwrap();
    put(&open(home.path()).await, "/a", "x").await;
    assert!(!partial.exists());
}

#[tokio::test]
async fn heartbeats_do_not_grow_the_file() {
    let home = tempfile::tempdir().unwrap();
    let limits = Limits { revisions: 50, bytes: 1024 * 1024 };
    let store = Embedded::open(home.path(), limits).await.unwrap();
    let value = Bytes::from(vec![7; 16 * 1024]);
    for _ in 0..40 {
        let beat = |n: u32| store.commit(Transaction::put(&format!("/{n}"), Expected::Any, value.clone()));
        futures_util::future::join_all((0..50).map(beat)).await;
    }
    assert_eq!(store.revision().await.unwrap(), 2001);
    drop(store);
    let bytes = fs::metadata(home.path().join("store.redb")).unwrap().len();
    assert!(bytes < 12 * 1024 * 1024, "{bytes} bytes after writing 32 MB");
}

#[tokio::test]
async fn open_rejects_and_preserves_a_foreign_file() {
    let home = tempfile::tempdir().unwrap();
    put(&open(home.path()).await, "/a", &"x".repeat(10_000)).await;
    let file = home.path().join("store.redb");
    let good = fs::read(&file).unwrap();
    let check = async |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let error = Embedded::open(home.path(), Limits::default()).await.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Damaged { .. }), "{text}");
        assert!(text.contains("store.redb") && text.contains("restore a backup"), "{text}");
        assert!(fs::read(&file).unwrap() == bytes, "{text}");
    };
    check(b"").await;
    check(b"apiVersion: v1\nkind: Pod\n").await;
    check(&[0; 100_000]).await;
    check(&good[..100]).await;
    check(&good[..good.len() / 2]).await;
    check(&other_database(home.path())).await;
    fs::write(&file, &good).unwrap();
    assert_eq!(values(&open(home.path()).await, "/").await.len(), 1);
}

/// A database that is not a store.
fn other_database(home: &Path) -> Vec<u8> {
    let path = home.join("other.redb");
    let database = redb::Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<&str, &str>::new("songs")).unwrap();
    transaction.commit().unwrap();
    drop(database);
    fs::read(path).unwrap()
}

#[tokio::test]
async fn a_flipped_bit_is_found_or_harmless() {
    let disk = Disk::with_store();
    let store = disk.open().unwrap();
    for n in 0..20 {
        put(&store, &format!("/{n:02}"), &n.to_string().repeat(500)).await;
    }
    let held = values(&store, "/").await;
    drop(store);
    let good = disk.bytes();
    let mut chance = fastrand::Rng::with_seed(7);
    const HEAD_BYTES: usize = 320;
    let mut found = 0;
    for flip in 0..200 {
        // Half of the flips hit the file header.
        let end = if flip % 2 == 0 { HEAD_BYTES } else { good.len() };
        let (at, bit) = (chance.usize(..end), chance.u8(..8));
        let mut bytes = good.clone();
        bytes[at] ^= 1 << bit;
        let flipped = Disk::holding(bytes.clone());
        match flipped.open() {
            Ok(store) => assert!(values(&store, "/").await == held, "bit {bit} of byte {at}"),
            Err(error) => {
                assert!(matches!(error, Error::Damaged { .. }), "bit {bit} of byte {at}: {error}");
                assert!(flipped.bytes() == bytes, "bit {bit} of byte {at}");
                found += 1;
            }
        }
    }
    assert!(found > 50, "{found}");
}

/// Damage by another program.
#[derive(Clone, Copy, Debug)]
enum Damage {
    /// Truncated.
    Cut,
    /// Extended with random bytes.
    Longer,
    /// Partly overwritten with random bytes.
    Scribbled,
    /// Partly zeroed, as after a lost write.
    Zeroed,
    /// Partly overwritten with another part.
    Misplaced,
}

/// Applies damage at a random place.
fn damaged(good: &[u8], damage: Damage, chance: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = good.to_vec();
    let at = chance.usize(..bytes.len());
    let most = (bytes.len() - at).min(1 << chance.u32(..14));
    let length = 1 + chance.usize(..most);
    match damage {
        Damage::Cut => bytes.truncate(at),
        Damage::Longer => bytes.extend((0..length).map(|_| chance.u8(..))),
        Damage::Scribbled => bytes[at..at + length].fill_with(|| chance.u8(..)),
        Damage::Zeroed => bytes[at..at + length].fill(0),
        Damage::Misplaced => bytes.copy_within(at..at + length, chance.usize(..=good.len() - length)),
    }
    bytes
}

#[tokio::test]
async fn damaged_store_never_returns_wrong_values() {
    let disk = Disk::with_store();
    let store = disk.open().unwrap();
    for n in 0..40 {
        put(&store, &format!("/{:02}", n % 25), &n.to_string().repeat(700)).await;
        put_late(&store, "/00", &n.to_string()).await;
    }
    put(&store, "/last", "x").await;
    let held = values(&store, "/").await;
    // After a kill, opening repairs the header.
    let good = disk.bytes();
    let used = good.iter().rposition(|byte| *byte != 0).unwrap();
    let mut found = 0;
    for seed in 0..120 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let all = [Damage::Cut, Damage::Longer, Damage::Scribbled, Damage::Zeroed, Damage::Misplaced];
        let damage = all[seed as usize % all.len()];
        // Half of the damage hits used space.
        let (head, tail) = good.split_at(if chance.bool() { used } else { good.len() });
        let bytes = [damaged(head, damage, &mut chance).as_slice(), tail].concat();
        let hurt = Disk::holding(bytes.clone());
        let case = format!("seed {seed}: {damage:?}");
        match hurt.open() {
            Ok(store) => assert!(values(&store, "/").await == held, "{case}"),
            Err(error) => {
                assert!(matches!(error, Error::Damaged { .. }), "{case}: {error}");
                assert!(hurt.bytes() == bytes, "{case}: it was touched");
                found += 1;
            }
        }
    }
    assert!(found > 40, "{found}");
}

/// Converts a store to format 1.
fn in_first_format(disk: &Disk) -> redb::Database {
    let database = tables::open(disk.backend()).unwrap();
    let transaction = database.begin_write().unwrap();
    let mut facts = transaction.open_table(tables::FACTS).unwrap();
    facts.insert("format", 1).unwrap();
    for name in [tables::OLDEST, tables::RESERVED] {
        facts.remove(name).unwrap();
    }
    drop(facts);
    transaction.commit().unwrap();
    database
}

#[tokio::test]
async fn store_of_the_first_format_is_readable() {
    let disk = Disk::with_store();
    let store = disk.open().unwrap();
    for n in 0..10 {
        put(&store, &format!("/{}", n % 4), &n.to_string()).await;
    }
    store.compact(5).await.unwrap();
    let held = values(&store, "/").await;
    drop(store);
    drop(in_first_format(&disk));
    let store = disk.open().unwrap();
    assert_eq!((values(&store, "/").await, store.revision().await.unwrap()), (held, 11));
    assert!(matches!(store.watch(4).await.err(), Some(Error::Compacted { oldest: 5, .. })));
    assert_eq!(next(&mut store.watch(5).await.unwrap()).await.unwrap().revision, 6);
    put(&store, "/0", "y").await;
    assert_eq!(put_late(&store, "/0", "z").await, 13);
    drop(store);
    assert_eq!(disk.open().unwrap().revision().await.unwrap(), 13);
}

#[tokio::test]
async fn newer_store_format_is_rejected_and_not_changed() {
    let disk = Disk::with_store();
    let database = tables::open(disk.backend()).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(tables::FACTS).unwrap().insert("format", 99).unwrap();
    // A future format may have other tables.
    transaction.delete_table(tables::LOG).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let before = disk.bytes();
    let error = disk.open().unwrap_err();
    assert!(matches!(error, Error::Newer { found: 99, known: tables::KNOWN_FORMAT, .. }), "{error}");
    assert!(disk.bytes() == before);
}

#[test]
fn older_store_format_is_migrated_step_by_step() {
    const NAMES: TableDefinition<u64, &str> = TableDefinition::new("names");
    let all: [tables::Migration; 3] = [
        |_| Err(redb::Error::Corrupted("it was at 2 already".to_owned())),
        |transaction| Ok(transaction.open_table(NAMES)?.insert(3, "three").map(|_| ())?),
        |transaction| Ok(transaction.open_table(NAMES)?.insert(4, "four").map(|_| ())?),
    ];
    let database = in_first_format(&Disk::with_store());
    let format =
        || tables::file_state(&redb::ReadableDatabase::begin_read(&database).unwrap()).unwrap().format;
    assert!(tables::migrate_by(&database, 1, &all).is_err());
    assert_eq!(format(), 1, "all or nothing");
    tables::migrate_by(&database, 2, &all).unwrap();
    assert_eq!(format(), 4);
    tables::migrate_by(&database, 4, &[]).unwrap();
    assert_eq!(format(), 4);
    let transaction = redb::ReadableDatabase::begin_read(&database).unwrap();
    assert_eq!(redb::ReadableTableMetadata::len(&transaction.open_table(NAMES).unwrap()).unwrap(), 2);
}
