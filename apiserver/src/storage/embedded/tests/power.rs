//! After a power failure at any moment all acknowledged writes exist, and none partially.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::Disk;
use super::seeds;
use crate::storage::tests::contract::{put, values};
use crate::storage::{Limits, Store};

const WRITES: u64 = 12;
const KEYS: u64 = 5;

#[tokio::test]
async fn acknowledged_writes_survive_a_power_cut() {
    for seed in 0..seeds() {
        let disk = Disk::with_store();
        let acknowledged = Arc::new(AtomicU64::new(1));
        let store = disk.open_with(Limits { revisions: 3, bytes: 1024 * 1024 }).unwrap();
        disk.film(seed, acknowledged.clone());
        for n in 0..WRITES {
            let revision = put(&store, &key(n), &value(n)).await;
            acknowledged.store(revision, Ordering::SeqCst);
        }
        let cuts = disk.cuts();
        assert!(!cuts.is_empty(), "seed {seed}");
        for cut in cuts {
            check(&cut.disk, cut.acknowledged, seed).await;
        }
    }
}

/// Each revision determines the state, so a store is consistent if it has the state of its revision.
async fn check(disk: &Disk, acknowledged: u64, seed: u64) {
    let store = disk.open().unwrap();
    let revision = store.revision().await.unwrap();
    assert!(
        (acknowledged..=acknowledged + 1).contains(&revision),
        "seed {seed}: acknowledged {acknowledged}, found {revision}"
    );
    let mut expected = std::collections::BTreeMap::new();
    for n in 0..revision - 1 {
        expected.insert(key(n), value(n));
    }
    let expected: Vec<String> = expected.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert!(values(&store, "/").await == expected, "seed {seed}: revision {revision} is not whole");
    assert_eq!(put(&store, "/more", "x").await, revision + 1);
}

fn key(n: u64) -> String {
    format!("/{}", n % KEYS)
}

fn value(n: u64) -> String {
    format!("{n},").repeat(1000)
}
