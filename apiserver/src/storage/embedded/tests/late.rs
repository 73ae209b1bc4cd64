//! Deferred writes: only the latest ones may be lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{sleep, timeout};

use super::super::deferred::RESERVE;
use super::super::{Embedded, revision};
use super::disk::{Disk, Fault};
use super::{open, seeds};
use crate::storage::tests::contract::{SHORT, committed, next, put, put_late, values};
use crate::storage::{Advice, Error, Expected, Limits, Outcome, Store, Transaction};

const DEADLINE: Duration = Duration::from_secs(30);

/// A store with two keys, and its revision.
async fn two_keys(disk: &Disk, limits: Limits) -> (Embedded, u64) {
    let store = disk.open_with(limits).unwrap();
    put(&store, "/a", "0").await;
    let revision = put(&store, "/beat", "0").await;
    (store, revision)
}

#[tokio::test]
async fn deferred_write_reaches_the_disk_with_the_next_commit() {
    let disk = Disk::with_store();
    let (store, _) = two_keys(&disk, Limits::default()).await;
    // The first deferred write reserves revisions.
    put_late(&store, "/beat", "1").await;
    let before = disk.bytes();
    for n in 2..100 {
        put_late(&store, "/beat", &n.to_string()).await;
    }
    assert!(disk.bytes() == before, "they are in memory alone");
    assert_eq!(values(&disk.after_kill().open().unwrap(), "/").await, ["/a=0", "/beat=1"]);
    put(&store, "/a", "1").await;
    assert_eq!(values(&disk.after_kill().open().unwrap(), "/").await, ["/a=1", "/beat=99"]);
    put_late(&store, "/beat", "100").await;
    drop(store);
    assert_eq!(values(&disk.open().unwrap(), "/").await, ["/a=1", "/beat=100"], "it was closed");
}

#[tokio::test]
async fn deferred_writes_are_persisted_without_a_flush() {
    let disk = Disk::with_store();
    let store = disk.open_late_for(Limits::default(), Duration::ZERO).unwrap();
    put(&store, "/beat", "0").await;
    for n in 1..4 {
        put_late(&store, "/beat", &n.to_string()).await;
    }
    let look = async || {
        while values(&disk.after_kill().open().unwrap(), "/").await != ["/beat=3"] {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(DEADLINE, look()).await.unwrap();
}

#[tokio::test]
async fn deferred_writes_respect_the_history_limits() {
    let disk = Disk::with_store();
    let (store, _) = two_keys(&disk, Limits { revisions: 20, bytes: 100_000 }).await;
    let mut watch = store.watch(store.revision().await.unwrap()).await.unwrap();
    for n in 0..100 {
        let revision = put_late(&store, "/beat", &n.to_string()).await;
        assert_eq!(next(&mut watch).await.unwrap().revision, revision);
        let kept = disk.after_kill().open().unwrap().get("/beat").await.unwrap().entry.unwrap();
        assert!(revision - kept.modified <= 10, "half of what watchers find in memory");
    }
    let big = "x".repeat(60_000);
    put_late(&store, "/beat", &big).await;
    assert!(values(&disk.after_kill().open().unwrap(), "/beat").await == [format!("/beat={big}")]);
}

#[tokio::test]
async fn served_revision_is_never_reused() {
    let disk = Disk::with_store();
    let (store, start) = two_keys(&disk, Limits::default()).await;
    let mut shown = start;
    for n in 0..50 {
        shown = put_late(&store, "/beat", &n.to_string()).await;
    }
    let killed = disk.after_kill();
    drop(store);
    let store = killed.open().unwrap();
    let now = store.revision().await.unwrap();
    assert!(now > shown && now <= shown + RESERVE + 1, "{now} after {shown}");
    for seen in [start, shown, now - 1] {
        let refused = store.watch(seen).await.err();
        assert!(
            matches!(refused, Some(Error::Compacted { oldest, .. }) if oldest == now),
            "{seen}: {refused:?}"
        );
    }
    let mut watch = store.watch(now).await.unwrap();
    assert_eq!(put_late(&store, "/beat", "x").await, now + 1);
    assert_eq!(next(&mut watch).await.unwrap().revision, now + 1);
    // A closed store continues at its revision, as do its watches.
    drop(store);
    let store = killed.open().unwrap();
    assert_eq!(store.revision().await.unwrap(), now + 1);
    assert_eq!(next(&mut store.watch(now).await.unwrap()).await.unwrap().revision, now + 1);
}

#[tokio::test]
async fn a_restore_continues_after_every_revision_that_was_served() {
    let home = tempfile::tempdir().unwrap();
    let store = open(&home.path().join("a")).await;
    put(&store, "/beat", "0").await;
    put_late(&store, "/beat", "1").await;
    let shown = put_late(&store, "/beat", "2").await;
    // The state after a kill.
    std::fs::create_dir(home.path().join("b")).unwrap();
    std::fs::copy(home.path().join("a/store.redb"), home.path().join("b/store.redb")).unwrap();
    assert!(revision(&home.path().join("b")).unwrap().unwrap() >= shown);
}

#[tokio::test]
async fn heartbeats_do_not_displace_durable_writes_from_the_log() {
    let disk = Disk::with_store();
    let (store, start) = two_keys(&disk, SHORT).await;
    let once = put(&store, "/once", "x").await;
    for n in 0..20 * SHORT.revisions {
        put_late(&store, "/beat", &n.to_string()).await;
    }
    let mut watch = store.watch(start).await.unwrap();
    assert_eq!(next(&mut watch).await.unwrap().revision, once);
    let newest = store.revision().await.unwrap();
    let mut seen = once;
    while seen < newest {
        let batch = next(&mut watch).await.unwrap();
        assert!(batch.revision > seen && &*batch.events[0].key == "/beat");
        seen = batch.revision;
    }
    // Previous values are gone, so watches from earlier revisions list again.
    store.compact(once).await.unwrap();
    assert!(
        matches!(store.watch(start).await.err(), Some(Error::Compacted { oldest, .. }) if oldest == once)
    );
    assert_eq!(next(&mut store.watch(once).await.unwrap()).await.unwrap().revision, newest);
}

#[tokio::test]
async fn many_deferred_writes_do_not_grow_the_file() {
    const NODES: usize = 100;
    let disk = Disk::with_store();
    let store = disk.open_with(Limits { revisions: 2000, bytes: 4 * 1024 * 1024 }).unwrap();
    let key = |n: usize| format!("/leases/{}", n % NODES);
    for n in 0..NODES {
        put(&store, &key(n), "").await;
    }
    let value = "x".repeat(500);
    let mut sizes = Vec::new();
    for n in 0..20_000 {
        put_late(&store, &key(n), &value).await;
        if n % 5000 == 4999 {
            sizes.push(disk.bytes().len());
        }
    }
    assert!(sizes.iter().all(|size| size == &sizes[0]), "{sizes:?}");
}

#[tokio::test]
async fn disk_faults_do_not_lose_deferred_writes() {
    for fault in [Fault::Full, Fault::Sync, Fault::Gone] {
        for once in [false, true] {
            sweep(fault, once).await;
        }
    }
}

/// A deferred and a durable write per operation that may fail, on one store.
async fn sweep(fault: Fault, once: bool) {
    const OPERATIONS: usize = 60;
    let disk = Disk::with_store();
    let (store, mut last) = two_keys(&disk, Limits::default()).await;
    let mut watch = store.watch(last).await.unwrap();
    let mut lasting = Vec::new();
    for countdown in 0..OPERATIONS {
        let case = format!("{fault:?} after {countdown}, once: {once}");
        let beat = Transaction::put("/beat", Expected::Any, countdown.to_string().into());
        let key = format!("/{countdown:02}");
        if countdown % 2 == 0 {
            // Together with the next write, it precedes the fault.
            last = put_late(&store, "/beat", "before").await;
        }
        if once {
            disk.fail_once(fault, countdown)
        } else {
            disk.fail(fault, countdown)
        };
        let outcomes = [
            ("/beat", store.commit_deferred(beat).await),
            (key.as_str(), store.commit(Transaction::create(&key, Bytes::new())).await),
        ];
        disk.reopen_only();
        let is_reported = |key: &str| outcomes.iter().any(|(of, outcome)| *of == key && outcome.is_ok());
        for (key, outcome) in &outcomes {
            match outcome {
                Ok(Outcome::Committed { revision }) => {
                    assert!(*revision > last, "{case}: {key} at {revision} after {last}");
                    last = *revision;
                    let found = store.get(key).await.unwrap();
                    assert_eq!(found.entry.map(|entry| entry.modified), Some(*revision), "{case}: {key}");
                }
                Ok(Outcome::Conflict { .. }) => panic!("{case}"),
                Err(error) => {
                    assert!(
                        matches!(error.advice(), Advice::Retry | Advice::ReadAgain | Advice::MakeRoom),
                        "{case}"
                    );
                }
            }
        }
        match store.get(&key).await.unwrap().entry {
            Some(entry) => lasting.push((entry.modified, key.clone())),
            None => assert!(!is_reported(&key), "{case}: {key} is lost"),
        }
        last = store.revision().await.unwrap();
    }
    assert!(lasting.len() < OPERATIONS, "something failed");
    let end = put(&store, "/last", "").await;
    lasting.push((end, "/last".to_owned()));
    let (mut seen, mut events) = (0, Vec::new());
    while seen < end {
        let batch = next(&mut watch).await.unwrap();
        assert!(batch.revision > seen);
        seen = batch.revision;
        events.extend(
            batch.events.iter().filter(|event| &*event.key != "/beat").map(|e| (seen, e.key.to_string())),
        );
    }
    assert_eq!(events, lasting, "{fault:?}, once: {once}");
    let held = values(&store, "/").await;
    drop(store);
    assert_eq!(values(&disk.open().unwrap(), "/").await, held, "{fault:?}, once: {once}");
}

/// A history of deferred and durable writes: the state at a revision results from its first steps.
#[derive(Clone, Copy, Debug)]
struct Step {
    key: u64,
    late: bool,
}

fn state(steps: &[Step]) -> Vec<String> {
    let mut state = BTreeMap::new();
    for (number, step) in steps.iter().enumerate() {
        state.insert(step.key, number);
    }
    state.iter().map(|(key, number)| format!("/{key}={}", text(*number))).collect()
}

fn text(number: usize) -> String {
    format!("{number},").repeat(300)
}

#[tokio::test]
async fn store_after_a_power_cut_equals_one_revision() {
    const STEPS: usize = 24;
    for seed in 0..seeds() {
        let mut chance = fastrand::Rng::with_seed(seed);
        let steps: Vec<Step> =
            (0..STEPS).map(|_| Step { key: chance.u64(..4), late: chance.u32(..3) > 0 }).collect();
        let disk = Disk::with_store();
        let acknowledged = Arc::new(AtomicU64::new(1));
        let store = disk.open_with(Limits { revisions: 6, bytes: 1024 * 1024 }).unwrap();
        disk.film(seed, acknowledged.clone());
        for (number, step) in steps.iter().enumerate() {
            let (key, value) = (format!("/{}", step.key), text(number));
            let revision = match step.late {
                true => put_late(&store, &key, &value).await,
                false => put(&store, &key, &value).await,
            };
            assert_eq!(revision, number as u64 + 2);
            acknowledged.store(revision, Ordering::SeqCst);
        }
        for cut in disk.cuts() {
            check(&cut.disk, cut.acknowledged, &steps, seed).await;
        }
    }
}

/// A step's revision is its index plus two.
async fn check(disk: &Disk, acknowledged: u64, steps: &[Step], seed: u64) {
    let store = disk.open().unwrap();
    let revision = store.revision().await.unwrap();
    assert!(revision >= acknowledged, "seed {seed}: {revision} after {acknowledged}");
    let done = acknowledged as usize - 1;
    let safe = steps[..done].iter().rposition(|step| !step.late).map_or(0, |last| last + 1);
    let held = values(&store, "/").await;
    let at = (safe..=(done + 1).min(steps.len())).find(|at| state(&steps[..*at]) == held);
    let at = at.unwrap_or_else(|| {
        panic!("seed {seed}: acknowledged {acknowledged}, it is at no revision: {held:?}")
    });
    if at < done {
        // Watches from lost revisions get an error.
        let mut watch = store.watch(acknowledged).await.err();
        assert!(matches!(watch.take(), Some(Error::Compacted { .. })), "seed {seed}: {acknowledged}");
    }
    assert_eq!(
        committed(store.commit(Transaction::put("/0", Expected::Any, Bytes::new())).await),
        revision + 1
    );
    let mut watch = store.watch(revision).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().revision, revision + 1);
}
