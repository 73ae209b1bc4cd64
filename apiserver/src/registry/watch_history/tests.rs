//! A watch that resumes from before a restart gets the same events as without the restart.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use axum::body::Body;
use futures_util::FutureExt as _;
use http::Request;
use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};
use tower::ServiceExt as _;

use super::super::Registry;
use super::*;
use crate::resource::{Field, Resource};
use crate::storage::{Limits, Transaction};
use crate::watch_cache::{Scope, TooOld};
use crate::{Api, Catalog, VERSION};

const PODS: &str = "pods";

fn row() -> Resource {
    Resource::new("", "v1", "Pod", PODS, "pod").fields(&[Field::path("status.phase")])
}

fn pod(name: &str, phase: &str) -> Map<String, Json> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a", "name": name, "labels": {"l": "v"}},
                     "status": {"phase": phase}});
    pod.as_object().unwrap().clone()
}

async fn open(store: &Arc<storage::Memory>) -> Arc<Registry> {
    Registry::open(store.clone(), Catalog::new([row()])).await.unwrap()
}

/// Writes or deletes an object.
async fn write(registry: &Registry, name: &str, phase: Option<u8>) {
    let there = registry.cache().get(PODS, "a", name);
    let phase = phase.map(|phase| pod(name, &phase.to_string()));
    match (there, phase) {
        (Some(there), Some(pod)) => drop(registry.replace(&row(), &there, &pod).await.unwrap()),
        (Some(there), None) => drop(registry.delete(&row(), &there).await.unwrap()),
        (None, Some(pod)) => drop(registry.create(&row(), &pod).await.unwrap()),
        (None, None) => {}
    }
}

/// Events of a watch from that revision; the previous object precedes a colon.
fn changes_since(cache: &WatchCache, from: u64) -> Result<Vec<String>, TooOld> {
    let mut watcher = cache.watch(PODS, Scope::All, from)?;
    let mut texts = Vec::new();
    loop {
        let changes = watcher.ready()?;
        if changes.is_empty() {
            return Ok(texts);
        }
        texts.extend(changes.iter().map(|change| {
            let before = match &change.before {
                Before::Nothing => "nothing".to_owned(),
                Before::Object(object) => String::from_utf8_lossy(object.json()).into_owned(),
                Before::Forgotten => "?".to_owned(),
            };
            let now = String::from_utf8_lossy(change.object.json());
            format!("{before}: {} {:?} {now}", change.revision, change.kind)
        }));
    }
}

/// True when two lists differ only in previous objects that are unknown.
fn agree(changes: &[String], known: &[String]) -> bool {
    changes.len() == known.len()
        && changes.iter().zip(known).all(|(changes, known)| {
            let (before, now) = changes.split_once(": ").unwrap();
            let (known_before, known_now) = known.split_once(": ").unwrap();
            now == known_now && (before == known_before || (before == "?" && known_before != "nothing"))
        })
}

proptest! {
    #[test]
    fn loaded_history_has_the_original_events(
        steps in prop::collection::vec((0..5_u8, prop::option::of(0..3_u8)), 1..40),
        kept in 1..60_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let limits = Limits { revisions: kept, ..Limits::default() };
            let store = Arc::new(storage::Memory::new(limits));
            let old = open(&store).await;
            for (name, phase) in &steps {
                write(&old, &name.to_string(), *phase).await;
            }
            let new = open(&store).await;
            // A watch creates the table.
            drop(new.cache().watch(PODS, Scope::All, 0));
            prop_assert!(new.load_history(PODS).await);
            prop_assert!(!new.load_history(PODS).await, "it has been looked for");
            write(&new, "after", Some(0)).await;
            let revision = new.cache().revision();
            old.cache().wait_for_revision(revision).await;
            let mut is_too_old = false;
            for from in (1..=revision).rev() {
                let known = changes_since(old.cache(), from).unwrap();
                match changes_since(new.cache(), from) {
                    Ok(changes) => {
                        prop_assert!(!is_too_old && agree(&changes, &known), "from {from}: {changes:#?}\nnot {known:#?}");
                    }
                    Err(_) => is_too_old = true,
                }
            }
            prop_assert!(kept < steps.len() + 1 || !is_too_old, "the cache has every change of the log");
            Ok(())
        })?;
    }
}

/// The first lines of a watch, or its error code.
async fn watch(router: &axum::Router, query: &str) -> Result<String, u16> {
    let uri = format!("/api/v1/namespaces/a/pods?watch=true&{query}");
    let request = Request::get(uri).body(Body::empty()).unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    if response.status() != 200 {
        return Err(response.status().as_u16());
    }
    let first = response.into_body().into_data_stream().next().now_or_never();
    Ok(first.map_or(String::new(), |chunk| String::from_utf8(chunk.unwrap().unwrap().to_vec()).unwrap()))
}

#[tokio::test]
async fn only_watches_older_than_the_history_list_again() {
    let store = Arc::new(storage::Memory::new(Limits::default()));
    let old = open(&store).await;
    write(&old, "web", Some(0)).await;
    let before = old.cache().revision();
    write(&old, "web", Some(1)).await;
    write(&old, "other", Some(1)).await;
    store.compact(before).await.unwrap();
    let new = open(&store).await;
    let api = Api::writable(new, Vec::new(), VERSION).router();
    let types = |lines: &str| -> Vec<String> {
        let read = lines.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        read.map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    };
    for (query, expected) in [
        ("", vec!["MODIFIED", "ADDED"]),
        ("&fieldSelector=metadata.name%3Dweb", vec!["MODIFIED"]),
        ("&fieldSelector=metadata.name%3Dother", vec!["ADDED"]),
        ("&fieldSelector=status.phase%3D1", vec!["ERROR"]),
        ("&labelSelector=l%3Dv", vec!["ERROR"]),
    ] {
        let lines = watch(&api, &format!("resourceVersion={before}{query}")).await.unwrap();
        assert_eq!(types(&lines), expected, "{query}: {lines}");
        assert!(!lines.contains("ERROR") || lines.contains("\"code\":410"), "{lines}");
    }
    assert_eq!(watch(&api, &format!("resourceVersion={}", before - 1)).await, Err(410));
}

#[tokio::test]
async fn watches_start_after_a_deletion_without_its_last_value() {
    let put = |value: &str| storage::Change::Put { value: value.to_owned().into(), created: 1 };
    let gone = storage::Change::Delete { last: Bytes::new() };
    let event =
        |name: &str, change, previous| Event { key: key::of(PODS, "a", name).into(), change, previous };
    let json = |name: &str| Json::Object(pod(name, "0")).to_string();
    let mut past = PastWrites::of(BTreeMap::from([(PODS.to_owned(), 9)]), 3);
    for (revision, event) in [
        (4, event("x", put(&json("x")), None)),
        (5, event("old", gone.clone(), Some(2))),
        (6, event("y", put(&json("y")), None)),
        (7, event("x", gone, Some(4))),
        (8, event("z", put("no object"), None)),
        (9, event("y", put(&json("y")), Some(6))),
    ] {
        past.note(&Batch { revision, events: vec![event] });
    }
    let cache = WatchCache::new(9);
    drop(cache.watch(PODS, Scope::All, 9));
    past.load_into(&cache, &Catalog::new([row()]).rows());
    assert!(changes_since(&cache, 7).is_err(), "the change at revision 8 is not available");
    assert_eq!(changes_since(&cache, 8).unwrap().len(), 1);
}

#[tokio::test]
async fn waiters_do_not_repeat_a_failed_load_of_the_history() {
    let store = Arc::new(storage::Memory::new(Limits::default()));
    write(&*open(&store).await, "web", Some(0)).await;
    let registry = open(&store).await;
    drop(registry.cache().watch(PODS, Scope::All, 0));
    // Another task is reading and fails.
    let reading = registry.loading_history.lock().await;
    let mut waiting = Box::pin(futures_util::future::join_all((0..3).map(|_| registry.load_history(PODS))));
    assert!((&mut waiting).now_or_never().is_none());
    drop(reading);
    assert_eq!(waiting.await, [false; 3]);
    assert!(registry.load_history(PODS).await, "a later watch loads the history");
}

#[tokio::test]
async fn resource_adopted_later_has_a_watch_history() {
    let store = Arc::new(storage::Memory::new(Limits::default()));
    let made = |name: &str| {
        let object = json!({"metadata": {"namespace": "a", "name": name}}).to_string();
        Transaction::put(&key::of("crontabs.x.io", "a", name), storage::Expected::Any, object.into())
    };
    store.commit(made("one")).await.unwrap();
    let starts_at = store.revision().await.unwrap();
    store.commit(made("two")).await.unwrap();
    let registry = open(&store).await;
    store.commit(made("three")).await.unwrap();
    let crontabs = Resource::new("x.io", "v1", "CronTab", "crontabs", "crontab");
    registry.serve("crontabs", vec![crontabs]).await.unwrap();
    let cache = registry.cache();
    assert!(cache.watch("crontabs.x.io", Scope::All, starts_at).is_err());
    assert!(registry.load_history("crontabs.x.io").await);
    let mut watcher = cache.watch("crontabs.x.io", Scope::All, starts_at).unwrap();
    let names: Vec<String> = watcher.ready().unwrap().iter().map(|c| c.object.name().to_owned()).collect();
    assert_eq!(names, ["two", "three"]);
}

/// A store with a full log that other clients write to before every watch: each write evicts the oldest
/// entry.
struct Busy {
    store: Arc<storage::Memory>,
    writes_before_watch: usize,
}

#[async_trait::async_trait]
impl Store for Busy {
    async fn get(&self, key: &str) -> Result<storage::Found, storage::Error> {
        self.store.get(key).await
    }

    async fn range(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<storage::Page, storage::Error> {
        self.store.range(prefix, after, limit).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<storage::Outcome, storage::Error> {
        self.store.commit(transaction).await
    }

    async fn commit_deferred(&self, transaction: Transaction) -> Result<storage::Outcome, storage::Error> {
        self.store.commit_deferred(transaction).await
    }

    async fn flush(&self) -> Result<(), storage::Error> {
        self.store.flush().await
    }

    async fn watch(&self, from: Revision) -> Result<storage::Batches, storage::Error> {
        for _ in 0..self.writes_before_watch {
            let value = Json::Object(pod("busy", "0")).to_string();
            self.store
                .commit(Transaction::put(&key::of(PODS, "a", "busy"), storage::Expected::Any, value.into()))
                .await?;
        }
        self.store.watch(from).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), storage::Error> {
        self.store.compact(revision).await
    }

    async fn revision(&self) -> Result<Revision, storage::Error> {
        self.store.revision().await
    }

    async fn check_health(&self) -> Result<(), storage::Error> {
        self.store.check_health().await
    }

    async fn backup(&self, path: &std::path::Path) -> Result<(), storage::Error> {
        self.store.backup(path).await
    }
}

#[tokio::test]
async fn a_full_log_is_read_while_writers_trim_it() {
    for writes_before_watch in [1, 3, 10] {
        let store = Arc::new(storage::Memory::new(Limits { revisions: 100, ..Limits::default() }));
        let old = open(&store).await;
        for round in 0..150 {
            write(&old, "web", Some(u8::try_from(round % 2).unwrap())).await;
        }
        let revision = store.revision().await.unwrap();
        let busy = Busy { store, writes_before_watch };
        let registry = Registry::open(Arc::new(busy), Catalog::new([row()])).await.unwrap();
        drop(registry.cache().watch(PODS, Scope::All, 0));
        assert!(registry.load_history(PODS).await, "{writes_before_watch}");
        let changes = changes_since(registry.cache(), revision - 20);
        assert!(changes.is_ok_and(|changes| changes.len() >= 20), "{writes_before_watch}");
    }
}
