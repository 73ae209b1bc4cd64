//! What is written is read back, by whoever asks next and after a restart, and comes to watchers once and in order.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::json;

use super::*;

const POD: Resource = Resource {
    group: "",
    version: "v1",
    kind: "Pod",
    plural: "pods",
    singular: "pod",
    namespaced: true,
    short_names: &[],
    categories: &[],
    verbs: &[],
    subresources: &[],
    fields: &["status.phase"],
    columns: api::table::NAME_AND_AGE,
    owner: |_| String::new(),
};
const RESOURCES: &[Resource] = &[POD];

fn pod(name: &str, phase: &str) -> Map<String, Value> {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
                     "status": {"phase": phase}});
    pod.as_object().unwrap().clone()
}

async fn open(store: &Arc<storage::Memory>) -> Arc<Registry> {
    Registry::open(store.clone(), RESOURCES).await.unwrap()
}

#[tokio::test]
async fn a_write_is_read_back_with_its_revision() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = open(&store).await;
    let made = registry.create(&POD, &pod("web", "Pending")).await.unwrap();
    let read = registry.cache().get("pods", "default", "web").unwrap();
    assert_eq!(read.json(), made.json());
    assert_eq!(read.decode()["metadata"]["resourceVersion"], made.revision().to_string());
    assert!(matches!(registry.create(&POD, &pod("web", "Pending")).await, Err(Error::Exists)));

    let changed = registry.replace(&POD, &made, &pod("web", "Running")).await.unwrap();
    assert!(changed.revision() > made.revision());
    assert!(matches!(registry.replace(&POD, &made, &pod("web", "Failed")).await, Err(Error::Changed)));
    let same = registry.replace(&POD, &changed, &pod("web", "Running")).await.unwrap();
    assert_eq!(same.revision(), changed.revision(), "nothing changed, so nothing was written");

    assert!(matches!(registry.delete(&POD, &made).await, Err(Error::Changed)));
    registry.delete(&POD, &changed).await.unwrap();
    assert!(registry.cache().get("pods", "default", "web").is_none());
}

#[tokio::test]
async fn another_registry_on_the_store_sees_the_same() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let first = open(&store).await;
    let made = first.create(&POD, &pod("web", "Pending")).await.unwrap();
    let second = open(&store).await;
    let read = second.cache().get("pods", "default", "web").unwrap();
    assert_eq!((read.json(), read.field("status.phase")), (made.json(), Some("Pending")));
    let changed = first.replace(&POD, &made, &pod("web", "Running")).await.unwrap();
    second.cache().reached(changed.revision()).await;
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
                registry.create(&POD, &pod(&name, "Pending")).await.unwrap();
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

#[tokio::test]
async fn a_log_that_moved_on_is_caught_up_with() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = open(&store).await;
    let kept = registry.create(&POD, &pod("kept", "Pending")).await.unwrap();
    let gone = registry.create(&POD, &pod("gone", "Pending")).await.unwrap();
    let mut follower = Follower {
        store: store.clone(),
        cache: Memory::new(1),
        resources: RESOURCES,
        revision: gone.revision(),
    };
    for (object, revision) in [("kept", kept.revision()), ("gone", gone.revision())] {
        follower.cache.load("pods", &Draft::new(&pod(object, "Pending"), POD.fields), revision);
    }
    follower.cache.follow_up_to(gone.revision());
    let mut watcher = follower.cache.watch("pods", Scope::All, gone.revision()).unwrap();

    registry.replace(&POD, &kept, &pod("kept", "Running")).await.unwrap();
    registry.create(&POD, &pod("new", "Pending")).await.unwrap();
    registry.delete(&POD, &gone).await.unwrap();
    store.compact(registry.cache().revision()).await.unwrap();
    assert!(matches!(follower.follow().await, Err(storage::Error::Compacted { .. })));
    follower.catch_up().await.unwrap();

    let names: Vec<String> =
        follower.cache.list("pods", &Scope::All).objects.iter().map(|o| o.name().to_owned()).collect();
    assert_eq!(names, ["kept", "new"]);
    assert_eq!(follower.cache.revision(), registry.cache().revision());
    let seen = watcher.next().await.unwrap();
    let seen: Vec<&str> = seen.iter().map(|change| change.object.name()).collect();
    assert_eq!(seen, ["kept", "new", "gone"]);
}
