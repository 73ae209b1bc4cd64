//! Contract of deferred writes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};

use super::contract::{committed, described, next, put, put_late, values};
use crate::storage::embedded::{self, Embedded};
use crate::storage::{Error, Expected, Limits, Outcome, Revision, Store, Transaction};

pub(super) async fn a_late_write_is_seen_at_once(store: &dyn Store) {
    let created = put(store, "/a", "0").await;
    put(store, "/b", "x").await;
    let mut watch = store.watch(created + 1).await.unwrap();
    let mut before = created;
    for n in 1..=5 {
        let revision = put_late(store, "/a", &n.to_string()).await;
        assert_eq!(revision, created + 1 + n);
        let found = store.get("/a").await.unwrap();
        assert_eq!((found.revision, store.revision().await.unwrap()), (revision, revision));
        let entry = found.entry.unwrap();
        assert_eq!(
            (entry.created, entry.modified, &*entry.value),
            (created, revision, n.to_string().as_bytes())
        );
        assert_eq!(values(store, "/").await, [format!("/a={n}"), "/b=x".to_owned()]);
        assert_eq!(store.range("/b", None, 1).await.unwrap().revision, revision);
        assert_eq!(described(&next(&mut watch).await.unwrap()), format!("{revision}: /a={n}({before})"));
        before = revision;
    }
    let stale = Transaction::put("/a", Expected::Modified(created), Bytes::new());
    let Outcome::Conflict { current, .. } = store.commit_deferred(stale).await.unwrap() else {
        panic!("it is newer")
    };
    assert_eq!(current.unwrap().modified, before);
    assert_eq!(store.revision().await.unwrap(), before);
    let error = store.commit_deferred(Transaction::create("", Bytes::new())).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
}

pub(super) async fn what_is_late_and_what_is_not_come_in_one_order(store: &dyn Store) {
    let start = store.revision().await.unwrap();
    let mut watch = store.watch(start).await.unwrap();
    // Creates and deletes may be requested as deferred, too.
    let steps: [(bool, &str, Option<&str>); 10] = [
        (true, "/a", Some("1")),
        (true, "/a", Some("2")),
        (false, "/b", Some("1")),
        (true, "/b", Some("2")),
        (true, "/a", Some("3")),
        (false, "/a", Some("4")),
        (true, "/a", Some("5")),
        (true, "/a", None),
        (true, "/b", Some("3")),
        (false, "/b", None),
    ];
    let (mut revisions, mut last) = (BTreeMap::new(), BTreeMap::new());
    for (expected, (is_late, key, value)) in (start + 1..).zip(steps) {
        let transaction = match value {
            Some(value) => Transaction::put(key, Expected::Any, value.to_owned().into()),
            None => Transaction::delete(key, Expected::Any),
        };
        let outcome =
            if is_late { store.commit_deferred(transaction).await } else { store.commit(transaction).await };
        assert_eq!(committed(outcome), expected);
        let before: Option<Revision> = match value {
            Some(_) => revisions.insert(key, expected),
            None => revisions.remove(key),
        };
        let stood = last.insert(key, value).flatten().unwrap_or_default();
        let value = value.map_or_else(|| format!("={stood} gone"), |value| format!("={value}"));
        let before = before.map_or("new".to_owned(), |revision| revision.to_string());
        assert_eq!(
            described(&next(&mut watch).await.unwrap()),
            format!("{expected}: {key}{value}({before})")
        );
        let found = store.get(key).await.unwrap().entry;
        assert_eq!(found.map(|entry| entry.modified), revisions.get(key).copied());
    }
    assert_eq!(values(store, "/").await, [""; 0]);
    assert!(watch.next().now_or_never().is_none(), "there is no more");
}

pub(super) async fn reopened_watch_receives_the_last_deferred_write(store: &dyn Store) {
    let start = store.revision().await.unwrap();
    let mut expected = Vec::new();
    for n in 0..40 {
        put(store, "/beat", &n.to_string()).await;
        for at in 0..5 {
            put_late(store, "/beat", &format!("{n}-{at}")).await;
        }
        expected.push((put(store, &format!("/{n:02}"), "x").await, format!("/{n:02}")));
    }
    let last = put_late(store, "/beat", "last").await;
    for from in [start, start + 7, last - 3, last] {
        let mut watch = store.watch(from).await.unwrap();
        let (mut seen, mut received, mut beat) = (from, Vec::new(), None);
        while seen < last {
            let batch = next(&mut watch).await.unwrap();
            assert!(batch.revision > seen, "{} after {seen}", batch.revision);
            seen = batch.revision;
            let event = &batch.events[0];
            if &*event.key == "/beat" {
                beat = event.entry(seen);
            } else {
                received.push((seen, event.key.to_string()));
            }
        }
        let rest: Vec<_> = expected.iter().filter(|(revision, _)| *revision > from).cloned().collect();
        assert_eq!(received, rest, "every durable write is received from {from}");
        assert_eq!(beat.map(|beat| beat.value), (from < last).then(|| Bytes::from("last")));
    }
}

pub(super) async fn a_backup_has_what_is_late(store: &dyn Store) {
    put(store, "/a", "one").await;
    let revision = put_late(store, "/a", "two").await;
    let home = tempfile::tempdir().unwrap();
    let (backup, directory) = (home.path().join("backup"), home.path().join("store"));
    store.backup(&backup).await.unwrap();
    let restored = embedded::restore(&backup, &directory, 0).unwrap();
    assert!(restored > revision);
    let restored = Embedded::open(&directory, Limits::default()).await.unwrap();
    assert_eq!(values(&restored, "/").await, ["/a=two"]);
    assert_eq!(restored.get("/a").await.unwrap().entry.unwrap().modified, revision);
}
