//! A backup is consistent, and a restored store is distinguishable from the original.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use super::super::{RESTORE_JUMP, restore};
use super::open;
use crate::storage::tests::contract::{committed, put, values};
use crate::storage::{Error, Memory, Store, Transaction, Write};

#[tokio::test]
async fn backup_is_consistent() {
    let home = tempfile::tempdir().unwrap();
    let store = Arc::new(open(&home.path().join("a")).await);
    let both = |n: u32| {
        let write = |key: &str| Write::Put { key: key.into(), value: n.to_string().into() };
        Transaction { compares: vec![], writes: vec![write("/left"), write("/right")] }
    };
    committed(store.commit(both(0)).await);
    let writer = {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 1..60 {
                committed(store.commit(both(n)).await);
            }
        })
    };
    let backup = home.path().join("backup");
    store.backup(&backup).await.unwrap();
    writer.await.unwrap();
    assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    let revision = restore(&backup, &home.path().join("b"), 0).unwrap();
    let restored = open(&home.path().join("b")).await;
    assert_eq!(restored.revision().await.unwrap(), revision);
    let left = restored.get("/left").await.unwrap().entry.unwrap();
    let right = restored.get("/right").await.unwrap().entry.unwrap();
    assert_eq!((&left.value, left.modified), (&right.value, right.modified));
    assert_eq!(left.modified + RESTORE_JUMP, revision);
}

#[tokio::test]
async fn restored_store_never_reuses_a_revision() {
    let home = tempfile::tempdir().unwrap();
    let store = open(&home.path().join("a")).await;
    let at = put(&store, "/a", "x").await;
    store.backup(&home.path().join("backup")).await.unwrap();
    let after = put(&store, "/b", "lost").await;
    restore(&home.path().join("backup"), &home.path().join("b"), 0).unwrap();
    let restored = open(&home.path().join("b")).await;
    assert_eq!(values(&restored, "/").await, ["/a=x"]);
    for seen in [at, after] {
        assert!(matches!(restored.watch(seen).await.err(), Some(Error::Compacted { .. })), "{seen}");
    }
    assert_eq!(put(&restored, "/b", "new").await, at + RESTORE_JUMP + 1);
}

#[tokio::test]
async fn backup_of_a_memory_store_can_be_restored_to_a_file() {
    let home = tempfile::tempdir().unwrap();
    let store = Memory::default();
    put(&store, "/a", "one").await;
    put(&store, "/b", "two").await;
    store.backup(&home.path().join("backup")).await.unwrap();
    restore(&home.path().join("backup"), &home.path().join("store"), 0).unwrap();
    assert_eq!(values(&open(&home.path().join("store")).await, "/").await, ["/a=one", "/b=two"]);
}

#[tokio::test]
async fn a_restore_overwrites_nothing() {
    let home = tempfile::tempdir().unwrap();
    let backup = home.path().join("backup");
    let (used, new) = (home.path().join("used"), home.path().join("new"));
    let store = open(&used).await;
    put(&store, "/a", "x").await;
    store.backup(&backup).await.unwrap();
    assert!(matches!(restore(&backup, &used, 0), Err(Error::Locked { .. })));
    drop(store);
    assert!(matches!(restore(&backup, &used, 0), Err(Error::Exists { .. })));
    assert_eq!(values(&open(&used).await, "/").await, ["/a=x"]);
    let missing = restore(&home.path().join("none"), &new, 0).unwrap_err();
    assert!(missing.to_string().contains("none"), "{missing}");
    let mut bytes = fs::read(&backup).unwrap();
    bytes.truncate(bytes.len() / 2);
    fs::write(&backup, bytes).unwrap();
    assert!(matches!(restore(&backup, &new, 0), Err(Error::Damaged { .. })));
    assert!(!new.exists(), "nothing was begun");
}
