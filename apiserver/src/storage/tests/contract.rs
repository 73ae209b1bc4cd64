//! Contract of all stores.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use tokio::time::timeout;

use super::late;
use crate::storage::transaction::{MAX_KEY_BYTES, MAX_PARTS, MAX_VALUE_BYTES};
use crate::storage::{
    Batch, Batches, Change, Compare, Error, Expected, Limits, Outcome, Revision, Store, Transaction, Write,
};

/// Time limit, never reached.
const DEADLINE: Duration = Duration::from_secs(30);

/// A short log.
pub(in crate::storage) const SHORT: Limits = Limits { revisions: 8, bytes: 1024 * 1024 };

/// All cases of the contract, each on a new store from `make`.
pub(in crate::storage) async fn contract(make: impl AsyncFn(Limits) -> Arc<dyn Store>) {
    let usual = Limits::default();
    keys_are_put_read_and_taken_out(&*make(usual).await).await;
    conflict_changes_nothing_and_returns_the_stored_value(&*make(usual).await).await;
    a_transaction_is_all_or_nothing(&*make(usual).await).await;
    what_changes_nothing_makes_no_revision(&*make(usual).await).await;
    what_can_never_be_done_is_refused(&*make(usual).await).await;
    one_revision_counts_all_keys(&*make(usual).await).await;
    ranges_are_of_one_prefix_in_pages(&*make(usual).await).await;
    a_page_is_bounded_in_bytes(&*make(usual).await).await;
    watch_from_any_revision_receives_the_remaining_events(&*make(usual).await).await;
    a_watch_waits_for_what_is_to_come(make(usual).await).await;
    watch_receives_puts_and_deletes(&*make(usual).await).await;
    late::a_late_write_is_seen_at_once(&*make(usual).await).await;
    late::what_is_late_and_what_is_not_come_in_one_order(&*make(usual).await).await;
    late::reopened_watch_receives_the_last_deferred_write(&*make(usual).await).await;
    late::a_backup_has_what_is_late(&*make(usual).await).await;
    for late in [false, true] {
        writers_that_count_one_key_lose_nothing(make(usual).await, late).await;
    }
    slow_watcher_is_closed_and_blocks_no_other(&*make(SHORT).await).await;
    a_watcher_that_keeps_up_outlives_the_log(&*make(SHORT).await).await;
    compaction_forgets_the_log_and_no_entry(&*make(usual).await).await;
    a_watch_ends_with_its_store(make(usual).await).await;
    a_backup_is_written_once(&*make(usual).await).await;
}

async fn keys_are_put_read_and_taken_out(store: &dyn Store) {
    let empty = store.get("/a").await.unwrap();
    assert_eq!((empty.entry, empty.revision), (None, store.revision().await.unwrap()));
    let created = put(store, "/a", "one").await;
    assert!(created >= 2, "a list at revision 0 or 1 means something else to clients");
    let changed = put(store, "/a", "two").await;
    let found = store.get("/a").await.unwrap();
    assert_eq!(found.revision, changed);
    let entry = found.entry.unwrap();
    assert_eq!((&*entry.key, &*entry.value), ("/a", b"two".as_slice()));
    assert_eq!((entry.created, entry.modified), (created, changed));
    let deleted = committed(store.commit(Transaction::delete("/a", Expected::Modified(changed))).await);
    assert!(deleted > changed);
    assert_eq!(store.get("/a").await.unwrap().entry, None);
    let again = put(store, "/a", "").await;
    let entry = store.get("/a").await.unwrap().entry.unwrap();
    assert_eq!((entry.created, entry.modified, entry.value.len()), (again, again, 0));
}

async fn conflict_changes_nothing_and_returns_the_stored_value(store: &dyn Store) {
    let revision = put(store, "/a", "one").await;
    let check = async |transaction: Transaction, key: &str, value: Option<&str>| {
        let Outcome::Conflict { key: at, current } = store.commit(transaction).await.unwrap() else {
            panic!("{key} is not as expected, and yet it was written");
        };
        assert_eq!(&*at, key);
        assert_eq!(current.map(|entry| entry.value), value.map(|value| Bytes::from(value.to_owned())));
        assert_eq!(store.revision().await.unwrap(), revision);
    };
    check(Transaction::create("/a", Bytes::new()), "/a", Some("one")).await;
    check(Transaction::put("/a", Expected::Modified(revision + 1), Bytes::new()), "/a", Some("one")).await;
    check(Transaction::put("/b", Expected::Modified(revision), Bytes::new()), "/b", None).await;
    check(Transaction::delete("/a", Expected::Modified(revision - 1)), "/a", Some("one")).await;
    check(Transaction::delete("/a", Expected::Absent), "/a", Some("one")).await;
}

async fn a_transaction_is_all_or_nothing(store: &dyn Store) {
    let first = put(store, "/a", "one").await;
    let both = |a: Expected, b: Expected| Transaction {
        compares: vec![compare("/a", a), compare("/b", b), compare("/c", Expected::Any)],
        writes: vec![write("/a", "two"), write("/b", "two"), Write::Delete { key: "/c".into() }],
    };
    let refused = store.commit(both(Expected::Modified(first), Expected::Modified(1))).await.unwrap();
    assert_eq!(refused, Outcome::Conflict { key: "/b".into(), current: None });
    assert_eq!(values(store, "/").await, ["/a=one"]);
    let revision = committed(store.commit(both(Expected::Modified(first), Expected::Absent)).await);
    assert_eq!(values(store, "/").await, ["/a=two", "/b=two"]);
    for key in ["/a", "/b"] {
        assert_eq!(store.get(key).await.unwrap().entry.unwrap().modified, revision);
    }
    // Watchers get one batch.
    let batch = next(&mut store.watch(first).await.unwrap()).await.unwrap();
    assert_eq!(described(&batch), format!("{revision}: /a=two({first}) /b=two(new)"));
}

async fn what_changes_nothing_makes_no_revision(store: &dyn Store) {
    let revision = put(store, "/a", "one").await;
    let check = async |transaction: Transaction| {
        assert_eq!(store.commit(transaction).await.unwrap(), Outcome::Committed { revision });
        assert_eq!(store.revision().await.unwrap(), revision);
    };
    check(Transaction::default()).await;
    check(Transaction { compares: vec![compare("/a", Expected::Modified(revision))], writes: vec![] }).await;
    check(Transaction::delete("/b", Expected::Any)).await;
    // Writing the same value again is a write.
    assert_eq!(put(store, "/a", "one").await, revision + 1);
}

async fn what_can_never_be_done_is_refused(store: &dyn Store) {
    let check = async |transaction: Transaction, expected: &str| {
        let error = store.commit(transaction).await.unwrap_err();
        assert!(matches!(&error, Error::Invalid(why) if why.contains(expected)), "{error} / {expected}");
    };
    let big = Bytes::from(vec![0; MAX_VALUE_BYTES + 1]);
    let half = Bytes::from(vec![0; MAX_VALUE_BYTES]);
    check(Transaction::create("", Bytes::new()), "a key is empty").await;
    check(Transaction::create(&"k".repeat(MAX_KEY_BYTES + 1), Bytes::new()), "make it shorter").await;
    check(Transaction::create("/a", big), "make it smaller").await;
    let many = (0..=MAX_PARTS).map(|n| write(&format!("/{n}"), "")).collect();
    check(Transaction { compares: vec![], writes: many }, "split it").await;
    let put = |n: usize| Write::Put { key: format!("/{n}").into(), value: half.clone() };
    check(Transaction { compares: vec![], writes: (0..3).map(put).collect() }, "split it").await;
    let twice = vec![write("/a", "one"), Write::Delete { key: "/a".into() }];
    check(Transaction { compares: vec![], writes: twice }, "/a twice").await;
    let error = store.compact(store.revision().await.unwrap() + 1).await.unwrap_err();
    assert!(error.to_string().contains("is in the future"), "{error}");
    assert_eq!(values(store, "").await, [""; 0]);
}

async fn one_revision_counts_all_keys(store: &dyn Store) {
    let mut last = store.revision().await.unwrap();
    for n in 0..20 {
        let revision = put(store, &format!("/{}", n % 7), "x").await;
        assert_eq!(revision, last + 1);
        assert_eq!(store.revision().await.unwrap(), revision);
        last = revision;
    }
}

async fn ranges_are_of_one_prefix_in_pages(store: &dyn Store) {
    for key in ["/a", "/a/", "/a/1", "/a/2", "/a/2/x", "/a0", "/ab/1", "/b", "/é", "a"] {
        put(store, key, "").await;
    }
    let check = async |prefix: &str, after: Option<&str>, limit: usize, expected: &[&str], more: bool| {
        let page = store.range(prefix, after, limit).await.unwrap();
        let keys: Vec<&str> = page.entries.iter().map(|entry| &*entry.key).collect();
        assert_eq!(keys, expected, "{prefix} after {after:?}");
        assert_eq!(page.more, more, "{prefix} after {after:?}");
        assert_eq!(page.revision, store.revision().await.unwrap());
    };
    let slash = ["/a/", "/a/1", "/a/2", "/a/2/x"];
    check("/a/", None, 100, &slash, false).await;
    check("/a/", None, 4, &slash, false).await;
    check("/a/", None, 3, &slash[..3], true).await;
    check("/a/", Some("/a/2"), 3, &slash[3..], false).await;
    check("/a/", Some("/a/1x"), 1, &slash[2..3], true).await;
    check("/a/", Some("/"), 100, &slash, false).await;
    check("/a/", Some("/b"), 100, &[], false).await;
    check("/a/", Some("/a/2/x"), 100, &[], false).await;
    check("/a", None, 100, &["/a", "/a/", "/a/1", "/a/2", "/a/2/x", "/a0", "/ab/1"], false).await;
    check("/é", None, 100, &["/é"], false).await;
    check("/a/", None, 0, &[], true).await;
    check("/c", None, 0, &[], false).await;
    assert_eq!(store.range("", None, 100).await.unwrap().entries.len(), 10);
}

async fn a_page_is_bounded_in_bytes(store: &dyn Store) {
    let value = Bytes::from(vec![7; 3 * 1024 * 1024]);
    for n in 0..4 {
        committed(store.commit(Transaction::create(&format!("/{n}"), value.clone())).await);
    }
    let page = store.range("/", None, 100).await.unwrap();
    assert_eq!((page.entries.len(), page.more), (3, true));
    let rest = store.range("/", Some("/2"), 100).await.unwrap();
    assert_eq!((rest.entries.len(), rest.more), (1, false));
    assert_eq!(rest.entries[0].value, value);
}

async fn watch_from_any_revision_receives_the_remaining_events(store: &dyn Store) {
    let first = store.revision().await.unwrap();
    let mut expected = Vec::new();
    for n in 0..6 {
        let revision = put(store, &format!("/{n}"), "x").await;
        expected.push(format!("{revision}: /{n}=x(new)"));
    }
    for from in first..=store.revision().await.unwrap() {
        let mut watch = store.watch(from).await.unwrap();
        for expected in &expected[(from - first) as usize..] {
            assert_eq!(&described(&next(&mut watch).await.unwrap()), expected);
        }
        assert!(watch.next().now_or_never().is_none(), "there is no more");
    }
}

async fn a_watch_waits_for_what_is_to_come(store: Arc<dyn Store>) {
    let now = store.revision().await.unwrap();
    let mut watch = store.watch(now).await.unwrap();
    let mut later = store.watch(now + 2).await.unwrap();
    let writer = store.clone();
    let writing = tokio::spawn(async move {
        for n in 0..20 {
            put(&*writer, &format!("/{n}"), "x").await;
        }
    });
    for n in 1..=20 {
        assert_eq!(next(&mut watch).await.unwrap().revision, now + n);
    }
    for n in 3..=20 {
        assert_eq!(next(&mut later).await.unwrap().revision, now + n);
    }
    writing.await.unwrap();
}

async fn watch_receives_puts_and_deletes(store: &dyn Store) {
    let start = store.revision().await.unwrap();
    let created = put(store, "/a", "one").await;
    let changed = put(store, "/a", "two").await;
    let deleted = committed(store.commit(Transaction::delete("/a", Expected::Any)).await);
    let mut watch = store.watch(start).await.unwrap();
    assert_eq!(described(&next(&mut watch).await.unwrap()), format!("{created}: /a=one(new)"));
    let batch = next(&mut watch).await.unwrap();
    assert_eq!(described(&batch), format!("{changed}: /a=two({created})"));
    let entry = batch.events[0].entry(batch.revision).unwrap();
    assert_eq!((entry.created, entry.modified, &*entry.value), (created, changed, b"two".as_slice()));
    let batch = next(&mut watch).await.unwrap();
    assert_eq!(described(&batch), format!("{deleted}: /a=two gone({changed})"));
    assert_eq!(batch.events[0].entry(batch.revision), None);
}

async fn writers_that_count_one_key_lose_nothing(store: Arc<dyn Store>, late: bool) {
    const WRITERS: u64 = 6;
    const TIMES: u64 = 10;
    let count = |store: Arc<dyn Store>| async move {
        for _ in 0..TIMES {
            add_one(&*store, "/counter", late).await;
        }
    };
    let start = store.revision().await.unwrap();
    let writers: Vec<_> = (0..WRITERS).map(|_| tokio::spawn(count(store.clone()))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let entry = store.get("/counter").await.unwrap().entry.unwrap();
    assert_eq!(&*entry.value, (WRITERS * TIMES).to_string().as_bytes());
    // Conflicts create no revisions.
    assert_eq!(store.revision().await.unwrap(), start + WRITERS * TIMES);
    let mut watch = store.watch(start).await.unwrap();
    for n in 1..=WRITERS * TIMES {
        let batch = next(&mut watch).await.unwrap();
        assert_eq!(batch.events[0].entry(batch.revision).unwrap().value, n.to_string());
    }
}

async fn slow_watcher_is_closed_and_blocks_no_other(store: &dyn Store) {
    let start = put(store, "/a", "0").await;
    let mut watch = store.watch(start).await.unwrap();
    for n in 0..3 * SHORT.revisions {
        put(store, "/a", &n.to_string()).await;
    }
    let newest = store.revision().await.unwrap();
    let oldest = newest - SHORT.revisions as u64;
    let error = loop {
        match next(&mut watch).await {
            Ok(_) => continue,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Compacted { oldest: at, .. } if at == oldest), "{error}");
    assert!(watch.next().await.is_none(), "an error is the end");
    let refused = store.watch(oldest - 1).await.err().unwrap();
    assert!(
        matches!(refused, Error::Compacted { requested, oldest: at } if (requested, at) == (oldest - 1, oldest))
    );
    assert_eq!(next(&mut store.watch(oldest).await.unwrap()).await.unwrap().revision, oldest + 1);
}

async fn a_watcher_that_keeps_up_outlives_the_log(store: &dyn Store) {
    let start = store.revision().await.unwrap();
    let mut watch = store.watch(start).await.unwrap();
    for _ in 0..2 * SHORT.revisions {
        let revision = put(store, "/a", "x").await;
        assert_eq!(next(&mut watch).await.unwrap().revision, revision);
    }
    // A batch larger than the log still reaches its watchers.
    let value = Bytes::from(vec![1; 2 * SHORT.bytes]);
    let revision = committed(store.commit(Transaction::put("/b", Expected::Any, value)).await);
    assert_eq!(next(&mut watch).await.unwrap().revision, revision);
}

async fn compaction_forgets_the_log_and_no_entry(store: &dyn Store) {
    for n in 0..10 {
        put(store, &format!("/{n}"), "x").await;
    }
    let newest = store.revision().await.unwrap();
    let mut early = store.watch(newest - 9).await.unwrap();
    store.compact(newest - 3).await.unwrap();
    assert!(matches!(next(&mut early).await, Err(Error::Compacted { .. })));
    assert!(matches!(store.watch(newest - 4).await.err(), Some(Error::Compacted { .. })));
    assert_eq!(next(&mut store.watch(newest - 3).await.unwrap()).await.unwrap().revision, newest - 2);
    // Compacting to an earlier revision has no effect.
    store.compact(newest - 3).await.unwrap();
    store.compact(1).await.unwrap();
    store.compact(newest).await.unwrap();
    assert!(matches!(store.watch(newest - 1).await.err(), Some(Error::Compacted { .. })));
    let mut watch = store.watch(newest).await.unwrap();
    assert_eq!(values(store, "/").await.len(), 10);
    assert_eq!(store.revision().await.unwrap(), newest);
    let revision = put(store, "/a", "x").await;
    assert_eq!((revision, next(&mut watch).await.unwrap().revision), (newest + 1, newest + 1));
}

async fn a_watch_ends_with_its_store(store: Arc<dyn Store>) {
    let start = store.revision().await.unwrap();
    let revision = put(&*store, "/a", "x").await;
    let mut watch = store.watch(start).await.unwrap();
    drop(store);
    assert_eq!(next(&mut watch).await.unwrap().revision, revision);
    assert!(matches!(next(&mut watch).await, Err(Error::Closed)));
    assert!(watch.next().await.is_none());
}

async fn a_backup_is_written_once(store: &dyn Store) {
    put(store, "/a", "x").await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("backup");
    store.backup(&path).await.unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = store.backup(&path).await.unwrap_err();
    assert!(matches!(error, Error::Exists { .. }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left lying about");
}

/// Increments a number, retrying on conflicts.
async fn add_one(store: &dyn Store, key: &str, late: bool) {
    let mut current = store.get(key).await.unwrap().entry;
    loop {
        let text = current.as_ref().map_or("0", |entry| std::str::from_utf8(&entry.value).unwrap());
        let next = text.parse::<u64>().unwrap() + 1;
        let expected = current.as_ref().map_or(Expected::Absent, |entry| Expected::Modified(entry.modified));
        let transaction = Transaction::put(key, expected, next.to_string().into());
        let outcome =
            if late { store.commit_deferred(transaction).await } else { store.commit(transaction).await };
        match outcome.unwrap() {
            Outcome::Committed { .. } => return,
            Outcome::Conflict { current: found, .. } => current = found,
        }
    }
}

/// Writes unconditionally.
pub(in crate::storage) async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    committed(store.commit(Transaction::put(key, Expected::Any, value.to_owned().into())).await)
}

/// As [`put`], deferred.
pub(in crate::storage) async fn put_late(store: &dyn Store, key: &str, value: &str) -> Revision {
    committed(store.commit_deferred(Transaction::put(key, Expected::Any, value.to_owned().into())).await)
}

/// Revision of a transaction that must succeed.
pub(in crate::storage) fn committed(outcome: Result<Outcome, Error>) -> Revision {
    match outcome.unwrap() {
        Outcome::Committed { revision } => revision,
        Outcome::Conflict { key, current } => panic!("{key} is {current:?}"),
    }
}

/// All `key=value` under a prefix, read in pages.
pub(in crate::storage) async fn values(store: &dyn Store, prefix: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut after: Option<Arc<str>> = None;
    loop {
        let page = store.range(prefix, after.as_deref(), 3).await.unwrap();
        let text = |value: &Bytes| String::from_utf8_lossy(value).into_owned();
        values.extend(page.entries.iter().map(|entry| format!("{}={}", entry.key, text(&entry.value))));
        if !page.more {
            return values;
        }
        after = page.entries.last().map(|entry| entry.key.clone());
    }
}

/// The next batch of a watch, or its error.
pub(in crate::storage) async fn next(watch: &mut Batches) -> Result<Arc<Batch>, Error> {
    timeout(DEADLINE, watch.next()).await.unwrap().unwrap()
}

/// A batch as a line: `7: /a=one(new) /b=two gone(5)`, with the previous revision in parentheses.
pub(super) fn described(batch: &Batch) -> String {
    let events = batch.events.iter().map(|event| {
        let what = match &event.change {
            Change::Put { value, .. } => format!("={}", String::from_utf8_lossy(value)),
            Change::Delete { last } => format!("={} gone", String::from_utf8_lossy(last)),
        };
        let previous = event.previous.map_or("new".to_owned(), |revision| revision.to_string());
        format!("{}{what}({previous})", event.key)
    });
    format!("{}: {}", batch.revision, events.collect::<Vec<_>>().join(" "))
}

fn compare(key: &str, expected: Expected) -> Compare {
    Compare { key: key.into(), expected }
}

fn write(key: &str, value: &str) -> Write {
    Write::Put { key: key.into(), value: value.to_owned().into() }
}
