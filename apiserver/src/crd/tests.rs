//! What follows of a definition: rows, a status, and an end in the right order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use api::crd;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{DEFINITIONS, start};
use crate::catalog::Catalog;
use crate::registry::Registry;
use crate::resource::Resource;
use crate::storage;
use crate::store::{Object, Scope};
use crate::{kinds, write};

/// Longest wait for something that is under way.
const DEADLINE: Duration = Duration::from_secs(10);

fn definition(plural: &str, kind: &str) -> Map<String, Value> {
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "integer"}}}}}}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com"), "finalizers": [crd::CLEANUP]},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{kind}List"), "shortNames": ["x"]},
            "versions": [version("v1", true), version("v1beta1", false)],
        },
    });
    definition.as_object().cloned().unwrap()
}

fn memory() -> Arc<storage::Memory> {
    Arc::new(storage::Memory::new(storage::Limits::default()))
}

async fn registry(store: &Arc<storage::Memory>) -> Arc<Registry> {
    let registry = Registry::open(store.clone(), Catalog::new(kinds::all())).await.unwrap();
    start(&registry).await.unwrap();
    registry
}

/// The row of definitions.
fn row(registry: &Registry) -> Arc<Resource> {
    registry.rows().find("apiextensions.k8s.io", "v1", "customresourcedefinitions").unwrap().clone()
}

/// Waits until the definition of that name is as wanted, `None` when it is gone.
async fn until(registry: &Registry, name: &str, wanted: impl Fn(Option<&Map<String, Value>>) -> bool) {
    let look = async {
        loop {
            let seen = registry.cache().list(DEFINITIONS, &Scope::All);
            let mut watcher = registry.cache().watch(DEFINITIONS, Scope::All, seen.revision).unwrap();
            let found = seen.objects.iter().find(|object| object.name() == name).map(Object::decode);
            if wanted(found.as_ref()) {
                return;
            }
            drop(watcher.next().await);
        }
    };
    timeout(DEADLINE, look).await.unwrap_or_else(|_| panic!("{name} does not come to be as wanted"));
}

#[tokio::test]
async fn a_definition_is_served_in_all_its_versions_and_again_after_a_restart() {
    let store = memory();
    let first = registry(&store).await;
    write::ensure(&first, "customresourcedefinitions", definition("cars", "Car")).await.unwrap();
    until(&first, "cars.example.com", |seen| seen.is_some_and(crd::is_established)).await;
    // Whoever reads that it is established finds it.
    for version in ["v1", "v1beta1"] {
        assert!(first.rows().find("example.com", version, "cars").is_some(), "{version}");
    }
    let car = json!({"apiVersion": "example.com/v1", "kind": "Car", "metadata": {"name": "a", "namespace": "default"}});
    let cars = first.rows().find("example.com", "v1", "cars").unwrap().clone();
    first.create(&cars, car.as_object().unwrap()).await.unwrap();
    drop(first);

    let second = registry(&store).await;
    let beta = second.rows().find("example.com", "v1beta1", "cars").unwrap().clone();
    let object = second.cache().get(beta.stored(), "default", "a").unwrap();
    assert_eq!(beta.view.as_ref().unwrap().shown(object.decode())["apiVersion"], "example.com/v1beta1");
}

#[tokio::test]
async fn names_go_to_the_first_and_are_free_when_it_is_gone() {
    let registry = registry(&memory()).await;
    for (plural, kind) in [("cars", "Car"), ("vans", "Van")] {
        write::ensure(&registry, "customresourcedefinitions", definition(plural, kind)).await.unwrap();
        let has_status =
            |seen: Option<&Map<String, Value>>| seen.is_some_and(|seen| seen.contains_key("status"));
        until(&registry, &format!("{plural}.example.com"), has_status).await;
    }
    let rows = registry.rows();
    assert!(
        rows.find("example.com", "v1", "cars").is_some() && rows.find("example.com", "v1", "vans").is_none()
    );

    let cars = registry.cache().get(DEFINITIONS, "", "cars.example.com").unwrap();
    let mut doomed = cars.decode();
    doomed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    registry.replace(&row(&registry), &cars, &doomed).await.unwrap();
    until(&registry, "cars.example.com", |seen| seen.is_none()).await;
    until(&registry, "vans.example.com", |seen| seen.is_some_and(crd::is_established)).await;
}
