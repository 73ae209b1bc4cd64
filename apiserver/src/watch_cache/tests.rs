//! Watch cache behavior.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::cache::HISTORY_CHANGES;
use super::{Change, ChangeKind, Content, Draft, Put, Scope, StorageEvent, TooOld, WatchCache, Watcher};
use crate::resource::{Field, Fields};

fn draft(namespace: &str, name: &str, color: &str) -> Draft {
    let object = json!({
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "7"},
        "spec": {"color": color},
    });
    let Value::Object(object) = object else { unreachable!() };
    Draft::new(&object, &Fields::from([Field::path("spec.color")]))
}

fn names(objects: &[super::Object]) -> Vec<String> {
    objects
        .iter()
        .map(|o| format!("{}/{}={}", o.namespace(), o.name(), o.field("spec.color").unwrap()))
        .collect()
}

async fn next(watcher: &mut Watcher) -> Result<Vec<Arc<Change>>, TooOld> {
    timeout(Duration::from_secs(5), watcher.next()).await.unwrap()
}

#[test]
fn object_has_the_resource_version_of_its_write() {
    let store = WatchCache::new(99);
    let put = store.put("pods", &draft("a", "x", "red"));
    assert!(matches!(put, Put::Created(_)));
    assert_eq!(put.object().revision(), 100);
    let text = std::str::from_utf8(put.object().json()).unwrap();
    assert_eq!(
        text,
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"a","uid":"x","resourceVersion":"100"},"spec":{"color":"red"}}"#
    );
    assert_eq!(put.object().uid(), "x");
}

#[test]
fn unchanged_put_keeps_the_revision() {
    let store = WatchCache::new(9);
    store.put("pods", &draft("a", "x", "red"));
    // The second revision has one digit more.
    assert!(matches!(store.put("pods", &draft("a", "x", "red")), Put::Unchanged(_)));
    assert_eq!(store.revision(), 10);
    assert!(matches!(store.put("pods", &draft("a", "x", "blue")), Put::Updated(_)));
    assert_eq!(store.revision(), 11);
}

#[test]
fn lists_are_sorted_and_scoped() {
    let store = WatchCache::new(0);
    for (namespace, name) in [("b", "x"), ("a", "z"), ("a", "y")] {
        store.put("pods", &draft(namespace, name, "red"));
    }
    store.put("secrets", &draft("a", "s", "red"));
    assert_eq!(names(&store.list("pods", &Scope::All).objects), ["a/y=red", "a/z=red", "b/x=red"]);
    let scope = Scope::Namespace("a".to_owned());
    let listing = store.list("pods", &scope);
    assert_eq!(
        (names(&listing.objects), listing.revision),
        (vec!["a/y=red".to_owned(), "a/z=red".to_owned()], 4)
    );
    assert!(store.get("pods", "a", "x").is_none());
    assert!(store.list("nodes", &Scope::All).objects.is_empty());
}

#[test]
fn past_revision_can_be_listed() {
    let store = WatchCache::new(0);
    store.put("pods", &draft("a", "x", "red"));
    store.put("pods", &draft("a", "y", "red"));
    store.put("pods", &draft("a", "x", "blue"));
    store.delete("pods", "a", "y");
    store.put("pods", &draft("a", "z", "red"));
    let at = |revision| {
        let snapshot = store.snapshot_at("pods", revision).unwrap();
        names(&snapshot.after(&Scope::All, None).cloned().collect::<Vec<_>>())
    };
    assert!(at(0).is_empty());
    assert_eq!(at(1), ["a/x=red"]);
    assert_eq!(at(2), ["a/x=red", "a/y=red"]);
    assert_eq!(at(3), ["a/x=blue", "a/y=red"]);
    assert_eq!(at(4), ["a/x=blue"]);
    assert_eq!(at(5), ["a/x=blue", "a/z=red"]);
}

#[tokio::test]
async fn a_watch_sees_every_change_in_order() {
    let store = WatchCache::new(0);
    store.put("pods", &draft("a", "x", "red"));
    let mut watcher = store.watch("pods", Scope::All, 1).unwrap();
    store.put("pods", &draft("a", "x", "blue"));
    store.put("secrets", &draft("a", "s", "red"));
    store.delete("pods", "a", "x");
    let changes = next(&mut watcher).await.unwrap();
    let seen: Vec<_> = changes.iter().map(|c| (c.revision, c.kind, c.object.revision())).collect();
    assert_eq!(seen, [(2, ChangeKind::Put, 2), (4, ChangeKind::Deleted, 4)]);
    let deleted: Value = serde_json::from_slice(changes[1].object.json()).unwrap();
    assert_eq!(deleted["metadata"]["resourceVersion"], "4");
    assert_eq!(deleted["spec"]["color"], "blue");
    assert_eq!(watcher.bookmark_revision(), 4);
}

#[tokio::test]
async fn namespaced_watch_receives_only_its_namespace() {
    let store = WatchCache::new(0);
    let mut watcher = store.watch("pods", Scope::Namespace("b".to_owned()), 0).unwrap();
    store.put("pods", &draft("a", "x", "red"));
    let waiting = tokio::spawn(async move { next(&mut watcher).await.unwrap().len() });
    tokio::task::yield_now().await;
    store.put("pods", &draft("b", "x", "red"));
    assert_eq!(waiting.await.unwrap(), 1);
}

#[tokio::test]
async fn slow_watcher_gets_an_error() {
    let store = WatchCache::new(0);
    let mut watcher = store.watch("pods", Scope::All, 0).unwrap();
    for round in 0..=HISTORY_CHANGES {
        store.put("pods", &draft("a", "x", &round.to_string()));
    }
    assert_eq!(next(&mut watcher).await.unwrap_err(), TooOld { requested: 0, oldest: 1 });
    assert!(store.watch("pods", Scope::All, 0).is_err());
    assert!(store.snapshot_at("pods", 0).is_err());
    assert!(store.watch("pods", Scope::All, 1).is_ok());
}

#[test]
fn history_is_bounded_in_bytes() {
    let store = WatchCache::new(0);
    let fat = "x".repeat(300 * 1024);
    for round in 0..8 {
        store.put("pods", &draft("a", "x", &format!("{round}{fat}")));
    }
    // Three superseded objects fit into 1 MiB; the first change superseded none.
    assert!(store.watch("pods", Scope::All, 4).is_err());
    assert!(store.watch("pods", Scope::All, 5).is_ok());
}

#[test]
fn a_new_store_does_not_resume_an_old_one() {
    let store = WatchCache::new(1000);
    assert!(store.watch("pods", Scope::All, 400).is_err());
    assert!(store.watch("pods", Scope::All, 1000).is_ok());
}

#[tokio::test]
async fn changes_of_one_revision_are_delivered_together() {
    let store = WatchCache::new(0);
    for at in 0..300 {
        store.put("pods", &draft("a", &format!("p{at:03}"), "red"));
    }
    let mut watcher = store.watch("pods", Scope::All, 300).unwrap();
    store.apply(
        301,
        (0..300).map(|at| StorageEvent::Delete {
            resource: "pods".to_owned(),
            namespace: "a".to_owned(),
            name: format!("p{at:03}"),
        }),
    );
    let seen = next(&mut watcher).await.unwrap();
    assert_eq!((seen.len(), seen[299].revision), (300, 301));
}

#[tokio::test]
async fn watches_end_with_their_resource() {
    let store = WatchCache::new(0);
    store.put("pods", &draft("a", "x", "red"));
    let mut watcher = store.watch("pods", Scope::All, 1).unwrap();
    let mut other = store.watch("pods", Scope::All, 1).unwrap();
    let waiting = tokio::spawn(async move { next(&mut watcher).await.is_err() });
    tokio::task::yield_now().await;
    store.remove_resource("pods");
    assert!(waiting.await.unwrap() && store.list("pods", &Scope::All).objects.is_empty());
    // A replaced resource closes its watches.
    store.replace_resource("pods", vec![draft("a", "y", "red").at(5)], 5);
    assert!(next(&mut other).await.is_err());
    assert_eq!(names(&store.list("pods", &Scope::All).objects), ["a/y=red"]);
    assert!(store.watch("pods", Scope::All, 4).is_err() && store.watch("pods", Scope::All, 5).is_ok());
}

#[test]
fn managed_fields_are_split_off_at_any_position() {
    let record = json!([{"manager": "a", "fieldsV1": {"f:metadata": {"f:labels": {}}}}]);
    let with = |mut object: Value| {
        object["metadata"]["managedFields"] = record.clone();
        object
    };
    for bare in [
        json!({"kind": "Pod", "metadata": {"name": "a", "labels": {"x": "\"managedFields\":["}}, "spec": {"a": [1]}}),
        json!({"metadata": {}}),
    ] {
        let fields = Fields::from([]);
        let whole = with(bare.clone());
        let (text, none) = (record.to_string(), "");
        let inside = Draft::new(whole.as_object().unwrap(), &fields);
        let content = Content { object: bare.as_object().unwrap(), record: text.as_bytes() };
        let beside = Draft::new(content, &fields);
        let without = Draft::new(bare.as_object().unwrap(), &fields);
        assert_eq!(inside.stored(), beside.stored());
        for (draft, whole, record) in
            [(inside, &whole, &*text), (beside, &whole, &*text), (without, &bare, none)]
        {
            let object = draft.at(12);
            assert_eq!(std::str::from_utf8(object.record()), Ok(record));
            for (read, expected) in
                [(object.decode(), whole), (object.decode_without_managed_fields(), &bare)]
            {
                let mut expected = expected.clone();
                expected["metadata"]["resourceVersion"] = "12".into();
                assert_eq!(Value::Object(read), expected);
            }
        }
    }
}
