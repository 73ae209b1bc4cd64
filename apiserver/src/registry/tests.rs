//! Writes are read back, also by other servers and after a restart, and watched once and in order.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Map, Value, json};

use super::*;
use crate::resource::Field;
use crate::watch_cache::Scope;

fn row() -> Resource {
    Resource::new("", "v1", "Pod", "pods", "pod").fields(&[Field::path("status.phase")])
}

fn pod(name: &str, phase: &str) -> Map<String, Value> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
                     "status": {"phase": phase}});
    pod.as_object().unwrap().clone()
}

async fn open(store: &Arc<storage::Memory>) -> Arc<Registry> {
    Registry::open(store.clone(), Catalog::new([row()])).await.unwrap()
}

#[tokio::test]
async fn write_is_readable_with_its_revision() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = open(&store).await;
    let made = registry.create(&row(), &pod("web", "Pending")).await.unwrap();
    let read = registry.cache().get("pods", "default", "web").unwrap();
    assert_eq!(read.json(), made.json());
    assert_eq!(read.decode()["metadata"]["resourceVersion"], made.revision().to_string());
    assert!(matches!(registry.create(&row(), &pod("web", "Pending")).await, Err(Error::Exists)));

    let changed = registry.replace(&row(), &made, &pod("web", "Running")).await.unwrap();
    assert!(changed.revision() > made.revision());
    assert!(matches!(registry.replace(&row(), &made, &pod("web", "Failed")).await, Err(Error::Changed)));
    let same = registry.replace(&row(), &changed, &pod("web", "Running")).await.unwrap();
    assert_eq!(same.revision(), changed.revision(), "nothing changed, so nothing was written");

    assert!(matches!(registry.delete(&row(), &made).await, Err(Error::Changed)));
    registry.delete(&row(), &changed).await.unwrap();
    assert!(registry.cache().get("pods", "default", "web").is_none());
}

#[tokio::test]
async fn registries_that_share_a_store_see_the_same_objects() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let first = open(&store).await;
    let made = first.create(&row(), &pod("web", "Pending")).await.unwrap();
    let second = open(&store).await;
    let read = second.cache().get("pods", "default", "web").unwrap();
    assert_eq!((read.json(), read.field("status.phase")), (made.json(), Some("Pending")));
    let changed = first.replace(&row(), &made, &pod("web", "Running")).await.unwrap();
    second.cache().wait_for_revision(changed.revision()).await;
    assert_eq!(second.cache().get("pods", "default", "web").unwrap().revision(), changed.revision());
}

#[tokio::test]
async fn watchers_see_every_write_once_and_in_order() {
    let registry = open(&Arc::new(storage::Memory::new(storage::Limits::default()))).await;
    let mut watcher = registry.cache().watch("pods", Scope::All, registry.cache().revision()).unwrap();
    let writers = (0..8).map(|writer| {
        let registry = registry.clone();
        tokio::spawn(async move {
            for count in 0..20 {
                let name = format!("p{writer}-{count}");
                registry.create(&row(), &pod(&name, "Pending")).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let mut revisions = Vec::new();
    while revisions.len() < 160 {
        revisions.extend(watcher.next().await.unwrap().iter().map(|change| change.revision));
    }
    let mut sorted = revisions.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(revisions, sorted);
}

/// Several objects that are deleted in one transaction, or while nothing is followed, have one revision.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_receives_every_event_of_a_collection_delete() {
    const MANY: usize = 100;
    for _ in 0..20 {
        let store = Arc::new(storage::Memory::new(storage::Limits::default()));
        let registry = open(&store).await;
        let mut gone = Transaction::default();
        for count in 0..MANY {
            let object = registry.create(&row(), &pod(&format!("p{count}"), "Pending")).await.unwrap();
            let one = Transaction::delete(
                &key::of("pods", "default", object.name()),
                Expected::Modified(object.revision()),
            );
            gone.compares.extend(one.compares);
            gone.writes.extend(one.writes);
        }
        let cache = registry.cache();
        let mut watcher = cache.watch("pods", Scope::All, cache.revision()).unwrap();
        let watching = std::thread::spawn(move || {
            // A busy loop, to read while deletions arrive.
            while !watcher.has_changes() {}
            let mut seen = 0;
            loop {
                match watcher.ready().unwrap().len() {
                    0 => return seen,
                    more => seen += more,
                }
            }
        });
        store.commit(gone).await.unwrap();
        assert_eq!(watching.join().unwrap(), MANY);
    }
}

#[tokio::test]
async fn cache_updater_lists_again_after_compaction() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = open(&store).await;
    let kept = registry.create(&row(), &pod("kept", "Pending")).await.unwrap();
    let gone = registry.create(&row(), &pod("gone", "Pending")).await.unwrap();
    let catalog = Catalog::new([row()]);
    let mut updater = CacheUpdater {
        store: store.clone(),
        cache: WatchCache::new(1),
        handoff: Handoff::default(),
        rows: catalog.rows(),
        catalog,
        revision: gone.revision(),
        updates: mpsc::channel(UPDATES).1,
        waiting: None,
    };
    for object in [&kept, &gone] {
        updater.cache.load("pods", object.clone());
    }
    updater.cache.apply(gone.revision(), []);
    let mut watcher = updater.cache.watch("pods", Scope::All, gone.revision()).unwrap();

    registry.replace(&row(), &kept, &pod("kept", "Running")).await.unwrap();
    registry.create(&row(), &pod("new", "Pending")).await.unwrap();
    registry.delete(&row(), &gone).await.unwrap();
    store.compact(registry.cache().revision()).await.unwrap();
    assert!(matches!(updater.follow().await, Err(storage::Error::Compacted { .. })));
    updater.resync().await.unwrap();

    let names: Vec<String> =
        updater.cache.list("pods", &Scope::All).objects.iter().map(|o| o.name().to_owned()).collect();
    assert_eq!(names, ["kept", "new"]);
    assert_eq!(updater.cache.revision(), registry.cache().revision());
    let seen = watcher.next().await.unwrap();
    let seen: Vec<&str> = seen.iter().map(|change| change.object.name()).collect();
    assert_eq!(seen, ["kept", "new", "gone"]);
}

fn widgets() -> Resource {
    Resource::new("example.com", "v1", "Widget", "widgets", "widget").fields(&[Field::path("spec.color")])
}

fn widget(name: &str, color: &str) -> Map<String, Value> {
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
                        "metadata": {"namespace": "default", "name": name}, "spec": {"color": color}});
    widget.as_object().unwrap().clone()
}

#[tokio::test]
async fn resource_can_be_added_with_stored_objects_and_removed() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let first = open(&store).await;
    first.serve("widgets", vec![widgets()]).await.unwrap();
    let made = first.create(&widgets(), &widget("a", "red")).await.unwrap();

    let second = open(&store).await;
    assert!(second.rows().find("example.com", "v1", "widgets").is_none());
    assert!(second.cache().get("widgets.example.com", "default", "a").is_none());
    second.serve("widgets", vec![widgets()]).await.unwrap();
    assert!(second.rows().find("example.com", "v1", "widgets").is_some());
    let read = second.cache().get("widgets.example.com", "default", "a").unwrap();
    assert_eq!((read.json(), read.field("spec.color")), (made.json(), Some("red")));

    let mut watcher = second.cache().watch("widgets.example.com", Scope::All, made.revision()).unwrap();
    let changed = first.replace(&widgets(), &made, &widget("a", "blue")).await.unwrap();
    assert_eq!(watcher.next().await.unwrap()[0].object.json(), changed.json());

    second.serve("widgets", Vec::new()).await.unwrap();
    assert!(second.rows().find("example.com", "v1", "widgets").is_none());
    assert!(
        watcher.next().await.is_err() && second.cache().get("widgets.example.com", "default", "a").is_none()
    );
    second.serve("widgets", vec![widgets()]).await.unwrap();
    assert_eq!(second.cache().list("widgets.example.com", &Scope::All).objects.len(), 1);
}

#[tokio::test]
async fn new_resource_serves_concurrent_writes_of_other_servers() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let (writer, reader) = (open(&store).await, open(&store).await);
    let writes = tokio::spawn(async move {
        for at in 0..50 {
            writer.create(&widgets(), &widget(&format!("w{at}"), "red")).await.unwrap();
        }
    });
    for _ in 0..5 {
        reader.serve("widgets", vec![widgets()]).await.unwrap();
        let seen = reader.cache().list("widgets.example.com", &Scope::All).objects;
        let held = store.range("/registry/widgets.example.com/", None, 1000).await.unwrap();
        assert!(seen.len() <= held.entries.len());
        reader.serve("widgets", Vec::new()).await.unwrap();
    }
    writes.await.unwrap();
    reader.serve("widgets", vec![widgets()]).await.unwrap();
    assert_eq!(reader.cache().list("widgets.example.com", &Scope::All).objects.len(), 50);
}

#[tokio::test]
async fn cache_updater_reuses_the_encoded_bytes_of_the_writer() {
    let registry = open(&Arc::new(storage::Memory::new(storage::Limits::default()))).await;
    let made = registry.create(&row(), &pod("web", "Pending")).await.unwrap();
    let kept = registry.cache().get("pods", "default", "web").unwrap();
    assert!(std::ptr::eq(made.json().as_ptr(), kept.json().as_ptr()), "it was encoded once");
}

#[tokio::test]
async fn registry_rejects_creates_in_a_terminating_namespace() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let namespaces = || Resource::new("", "v1", "Namespace", NAMESPACES, "namespace").cluster();
    let open = async || Registry::open(store.clone(), Catalog::new([row(), namespaces()])).await.unwrap();
    let namespace = |metadata: Value| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}).as_object().unwrap().clone()
    };
    let (first, second) = (open().await, open().await);
    let made = first.create(&namespaces(), &namespace(json!({"name": "default"}))).await.unwrap();
    second.cache().wait_for_revision(made.revision()).await;
    // The other server may not know of the change and detects it when it writes.
    let labelled = namespace(json!({"name": "default", "labels": {"a": "b"}}));
    let labelled = first.replace(&namespaces(), &made, &labelled).await.unwrap();
    second.create(&row(), &pod("web", "Pending")).await.unwrap();
    assert!(matches!(second.create(&row(), &pod("web", "Pending")).await, Err(Error::Exists)));
    let going = namespace(json!({"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}));
    let going = first.replace(&namespaces(), &labelled, &going).await.unwrap();
    assert!(matches!(second.create(&row(), &pod("late", "Pending")).await, Err(Error::NamespaceTerminating)));
    first.delete(&namespaces(), &going).await.unwrap();
    assert!(second.cache().get("pods", "default", "late").is_none());
}
