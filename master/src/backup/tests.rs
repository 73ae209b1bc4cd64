//! Tests of backups through the socket and of restores.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use apiserver::storage::{Embedded, Expected, Limits, Memory, Outcome, Store, Transaction};
use jiff::Timestamp;
use tokio::sync::watch;

use super::{BackupSocket, fetch, restore, router};
use crate::data_dir::DataDir;

async fn put(store: &dyn Store, key: &str, value: &'static str) -> u64 {
    match store.commit(Transaction::put(key, Expected::Any, value.into())).await.unwrap() {
        Outcome::Committed { revision } => revision,
        conflict => panic!("{conflict:?}"),
    }
}

/// A backup of a store with one object.
async fn backed_up(folder: &Path, value: &'static str) -> std::path::PathBuf {
    let store = Memory::default();
    put(&store, "/registry/a", value).await;
    let file = folder.join(value);
    store.backup(&file).await.unwrap();
    file
}

async fn value(data_dir: &Path) -> (String, u64) {
    let store = Embedded::open(data_dir.join("store"), Limits::default()).await.unwrap();
    let found = store.get("/registry/a").await.unwrap();
    (String::from_utf8(found.entry.unwrap().value.to_vec()).unwrap(), found.revision)
}

#[tokio::test]
async fn a_data_directory_with_a_path_too_long_for_the_socket_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let of_length =
        |length: usize| folder.path().join("d".repeat(length - folder.path().as_os_str().len() - 1));
    // With `/master.sock`, the path has 107 bytes.
    let (fits, long) = (of_length(95), of_length(96));
    fs::create_dir(&fits).unwrap();
    fs::create_dir(&long).unwrap();
    drop(BackupSocket::open(&fits).unwrap());
    let file = folder.path().join("backup");
    let text = [
        BackupSocket::open(&long).unwrap_err().to_string(),
        fetch(&long, &file).await.unwrap_err().to_string(),
    ];
    for text in text {
        assert!(text.contains("/master.sock has 108 bytes") && text.contains("--data-dir"), "{text}");
    }
}

#[tokio::test]
async fn backup_is_read_through_the_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, file) = (folder.path().join("m"), folder.path().join("backup"));
    let no_master = fetch(&directory, &file).await.unwrap_err();
    assert!(no_master.to_string().contains("no master runs on"), "{no_master}");
    fs::create_dir(&directory).unwrap();
    let store = Arc::new(Memory::default());
    put(&*store, "/registry/a", "one").await;
    let (socket, listener) = BackupSocket::open(&directory).unwrap();
    let mode = fs::metadata(directory.join("master.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (stop, stopped) = watch::channel(false);
    let serving = tokio::spawn(apiserver::serve(listener, router(store, &directory), stopped));
    let text = fetch(&directory, &file).await.unwrap();
    assert!(text.contains("revision 2"), "{text}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let again = fetch(&directory, &file).await.unwrap_err();
    assert!(again.to_string().contains("not overwritten"), "{again}");
    let elsewhere = fetch(&directory, Path::new("/nowhere/at/all")).await.unwrap_err();
    assert!(elsewhere.to_string().contains("/nowhere/at/all"), "{elsewhere}");
    stop.send_replace(true);
    serving.await.unwrap();
    drop(socket);
    let mut left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["backup", "m"], "nothing is left lying about");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    let restored = folder.path().join("r");
    restore(&restored, &file, false, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(value(&restored).await.0, "one");
}

#[tokio::test]
async fn a_restore_replaces_a_store_only_with_the_flag_and_keeps_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("m");
    let (one, two) = (backed_up(folder.path(), "one").await, backed_up(folder.path(), "two").await);
    restore(&directory, &one, false, Timestamp::UNIX_EPOCH).unwrap();
    let (_, first) = value(&directory).await;
    let refused = restore(&directory, &two, false, Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(refused.to_string().contains("add --replace"), "{refused}");
    assert_eq!(value(&directory).await, ("one".to_owned(), first));
    let text = restore(&directory, &two, true, Timestamp::UNIX_EPOCH).unwrap();
    assert!(text.contains("store.19700101T000000Z"), "{text}");
    let (now, second) = value(&directory).await;
    assert!(now == "two" && second > first, "revisions never go back: {second} after {first}");
    assert!(directory.join("store.19700101T000000Z/store.redb").exists());
    fs::write(&two, "no backup").unwrap();
    assert!(restore(&directory, &two, true, Timestamp::UNIX_EPOCH).is_err());
    assert_eq!(value(&directory).await, ("two".to_owned(), second), "a bad backup changes nothing");
    let lock = DataDir::at(&directory).take().unwrap();
    let running = restore(&directory, &one, true, Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(running.to_string().contains("another master is running on"), "{running}");
    drop(lock);
}
