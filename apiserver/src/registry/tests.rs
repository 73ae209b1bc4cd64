//! What is written is read back, by whoever asks next and after a restart, and comes to watchers once and in order.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::json;

use super::*;
use crate::store::Scope;

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
