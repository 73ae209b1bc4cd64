//! A full or failing disk affects only the commits that hit it, and the reported outcomes are true.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::disk::{Disk, Fault};
use crate::storage::tests::contract::{committed, next, put, values};
use crate::storage::{Advice, Error, Expected, Outcome, Store, Transaction};

/// More operations than a commit and a reopen take.
const OPERATIONS: usize = 60;

#[tokio::test]
async fn a_full_disk_is_an_error_of_that_commit() {
    let disk = Disk::with_store();
    let store = disk.open().unwrap();
    let first = put(&store, "/a", "one").await;
    disk.fail(Fault::Full, 0);
    for _ in 0..3 {
        let error = store.commit(Transaction::create("/b", Bytes::new())).await.unwrap_err();
        assert!(matches!(error, Error::Full { .. }), "{error}");
        assert!(error.to_string().contains("or delete objects"), "{error}");
        assert_eq!(error.advice(), Advice::MakeRoom);
        assert!(error.to_string().contains("/a/disk/in/memory: the disk is full"), "{error}");
    }
    disk.reopen_only();
    assert_eq!(values(&store, "/").await, ["/a=one"]);
    assert_eq!(put(&store, "/b", "two").await, first + 1);
}

#[tokio::test]
async fn a_file_that_cannot_grow_still_takes_what_fits() {
    let disk = Disk::with_store();
    let store = disk.open().unwrap();
    put(&store, "/a", "one").await;
    disk.fail(Fault::CannotGrow, 0);
    let big = Bytes::from(vec![1; 8 * 1024 * 1024]);
    let error = store.commit(Transaction::create("/b", big.clone())).await.unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    put(&store, "/a", "two").await;
    disk.reopen_only();
    committed(store.commit(Transaction::create("/b", big)).await);
}

#[tokio::test]
async fn disk_faults_never_cause_a_false_response() {
    for fault in [Fault::Full, Fault::Sync, Fault::Gone] {
        for once in [false, true] {
            sweep(fault, once).await;
        }
    }
}

/// One write per operation that may fail, on one store.
async fn sweep(fault: Fault, once: bool) {
    let disk = Disk::with_store();
    let store = disk.open().unwrap();
    let mut watch = store.watch(1).await.unwrap();
    let mut expected = BTreeMap::new();
    let mut last = 1;
    for countdown in 0..OPERATIONS {
        let (key, case) = (format!("/{countdown:02}"), format!("{fault:?} after {countdown}, once: {once}"));
        if once {
            disk.fail_once(fault, countdown);
        } else {
            disk.fail(fault, countdown);
        }
        let outcome = store.commit(Transaction::create(&key, key.clone().into())).await;
        disk.reopen_only();
        let there = store.get(&key).await.unwrap().entry;
        match &outcome {
            Ok(Outcome::Committed { revision }) => {
                assert_eq!(there.as_ref().map(|entry| entry.modified), Some(*revision), "{case}");
            }
            Ok(Outcome::Conflict { .. }) => panic!("{case}"),
            Err(Error::Full { .. } | Error::Failed { .. }) => assert_eq!(there, None, "{case}"),
            Err(Error::Unknown { .. }) => {}
            Err(error) => panic!("{case}: {error}"),
        }
        if let Some(entry) = there {
            assert_eq!(entry.modified, last + 1, "{case}");
            last = entry.modified;
            expected.insert(entry.modified, key);
        }
    }
    assert!(expected.len() < OPERATIONS, "something failed");
    let key = "/last".to_owned();
    expected.insert(put(&store, &key, "x").await, key);
    for (revision, key) in &expected {
        let batch = next(&mut watch).await.unwrap();
        assert_eq!((batch.revision, &*batch.events[0].key), (*revision, key.as_str()));
    }
    drop(store);
    let store = disk.open().unwrap();
    let found = store.range("/", None, 1000).await.unwrap();
    let found: BTreeMap<u64, String> =
        found.entries.iter().map(|entry| (entry.modified, entry.key.to_string())).collect();
    assert_eq!(found, expected, "{fault:?}, once: {once}");
}

#[tokio::test]
async fn store_recovers_when_the_disk_returns() {
    let disk = Disk::with_store();
    let store = disk.open().unwrap();
    let revision = put(&store, "/a", "one").await;
    disk.fail(Fault::Gone, 0);
    let error = store.commit(Transaction::create("/b", Bytes::new())).await.unwrap_err();
    assert!(matches!(error.advice(), Advice::Retry | Advice::ReadAgain), "{error}");
    let error = store.get("/a").await.unwrap_err();
    assert_eq!(error.advice(), Advice::Retry, "{error}");
    disk.reopen_only();
    assert_eq!(values(&store, "/").await, ["/a=one"]);
    assert_eq!(store.get("/a").await.unwrap().revision, revision);
}

#[tokio::test]
async fn a_disk_that_loses_synced_data_is_detected() {
    let disk = Disk::with_store();
    let before = disk.bytes();
    let store = disk.open().unwrap();
    put(&store, "/a", "one").await;
    disk.fail(Fault::Gone, 0);
    let outcome = store.commit(Transaction::put("/a", Expected::Any, Bytes::new())).await;
    assert!(matches!(outcome, Err(Error::Unknown { .. })), "{outcome:?}");
    disk.become_holding(before);
    disk.reopen_only();
    let error = store.get("/a").await.unwrap_err();
    assert!(
        matches!(&error, Error::Damaged { reason, .. } if reason.contains("its revision is 1, but revision 2")),
        "{error}"
    );
}
