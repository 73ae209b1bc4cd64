//! Serving, status and deletion of custom resource definitions.

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
use crate::watch_cache::{Object, Scope};
use crate::{kinds, write};

/// Time limit of a wait.
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

/// Waits until the definition matches, or `None` if it does not exist.
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
async fn crd_is_served_in_all_versions_and_after_a_restart() {
    let store = memory();
    let first = registry(&store).await;
    write::ensure(&first, "customresourcedefinitions", definition("cars", "Car")).await.unwrap();
    until(&first, "cars.example.com", |seen| seen.is_some_and(crd::is_established)).await;
    // An established definition is served.
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
    assert_eq!(
        beta.conversion.as_ref().unwrap().to_served(object.decode())["apiVersion"],
        "example.com/v1beta1"
    );
}

#[tokio::test]
async fn crd_names_belong_to_the_first_crd_until_its_deletion() {
    let registry = registry(&memory()).await;
    for (plural, kind) in [("cars", "Car"), ("vans", "Van")] {
        write::ensure(&registry, "customresourcedefinitions", definition(plural, kind)).await.unwrap();
        let is_settled = |seen: Option<&Map<String, Value>>| {
            seen.is_some_and(|seen| seen["status"]["conditions"].is_array())
        };
        until(&registry, &format!("{plural}.example.com"), is_settled).await;
    }
    let rows = registry.rows();
    assert!(
        rows.find("example.com", "v1", "cars").is_some() && rows.find("example.com", "v1", "vans").is_none()
    );

    let cars = registry.cache().get(DEFINITIONS, "", "cars.example.com").unwrap();
    let mut terminating = cars.decode();
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    registry.replace(&row(&registry), &cars, &terminating).await.unwrap();
    until(&registry, "cars.example.com", |seen| seen.is_none()).await;
    until(&registry, "vans.example.com", |seen| seen.is_some_and(crd::is_established)).await;
}

/// A definition that wants a name of a built-in kind, and claims to have it.
fn impostor(plural: &str, kind: &str) -> Map<String, Value> {
    let mut definition = definition(plural, kind);
    definition["metadata"]["name"] = format!("{plural}.apps").into();
    definition["spec"]["group"] = "apps".into();
    definition["spec"]["names"]["shortNames"] = json!([]);
    definition["spec"]["names"]["singular"] = "odd".into();
    definition["spec"]["names"]["listKind"] = "Odds".into();
    for (version, name) in [(0, "v1"), (1, "v7")] {
        definition["spec"]["versions"][version]["name"] = name.into();
    }
    let accepted = definition["spec"]["names"].clone();
    let conditions = [("NamesAccepted", "True"), ("Established", "True")].map(|(kind, is)| {
        json!({"type": kind, "status": is, "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "r", "message": ""})
    });
    let status = json!({"acceptedNames": accepted, "storedVersions": ["v1"], "conditions": conditions});
    definition.insert("status".to_owned(), status);
    definition
}

#[tokio::test]
async fn definition_cannot_use_the_name_of_a_built_in_kind() {
    let registry = registry(&memory()).await;
    let deployments = registry.rows().find("apps", "v1", "deployments").unwrap().clone();
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "default"}});
    registry.create(&deployments, deployment.as_object().unwrap()).await.unwrap();
    let condition = |seen: &Map<String, Value>, kind: &str| -> (Value, Value) {
        let all = seen.get("status").and_then(|status| status["conditions"].as_array().cloned());
        let found = all.into_iter().flatten().find(|condition| condition["type"] == kind).unwrap_or_default();
        (found["status"].clone(), found["reason"].clone())
    };
    for (plural, kind, reason) in
        [("deployments", "Thing", "PluralConflict"), ("things", "Deployment", "KindConflict")]
    {
        let name = format!("{plural}.apps");
        let definition = impostor(plural, kind);
        registry.create(&row(&registry), &definition).await.unwrap();
        let refused = ("False".into(), reason.into());
        until(&registry, &name, |seen| seen.is_some_and(|seen| condition(seen, "NamesAccepted") == refused))
            .await;
        let there = registry.cache().get(DEFINITIONS, "", &name).unwrap();
        assert!(!crd::is_established(&there.decode()), "{name}");
        assert!(registry.rows().find("apps", "v7", plural).is_none(), "{name}");
        // Even a definition that claims the name in its status does not cause built-in objects to be deleted.
        let mut terminating = definition;
        terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        registry.replace(&row(&registry), &there, &terminating).await.unwrap();
        until(&registry, &name, |seen| seen.is_none()).await;
    }
    assert!(registry.cache().get("deployments.apps", "default", "a").is_some());
}

#[tokio::test]
async fn crd_deletion_marks_objects_with_finalizers_as_deleted() {
    let registry = registry(&memory()).await;
    write::ensure(&registry, "customresourcedefinitions", definition("cars", "Car")).await.unwrap();
    until(&registry, "cars.example.com", |seen| seen.is_some_and(crd::is_established)).await;
    let car = json!({"apiVersion": "example.com/v1", "kind": "Car", "metadata": {
        "name": "a", "namespace": "default", "generation": 1, "finalizers": ["example.com/wait"]}});
    let cars = registry.rows().find("example.com", "v1", "cars").unwrap().clone();
    let seen = registry.create(&cars, car.as_object().unwrap()).await.unwrap().revision();
    let mut watcher = registry.cache().watch(cars.stored(), Scope::All, seen).unwrap();
    let definition = registry.cache().get(DEFINITIONS, "", "cars.example.com").unwrap();
    let mut terminating = definition.decode();
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    registry.replace(&row(&registry), &definition, &terminating).await.unwrap();
    timeout(DEADLINE, watcher.next()).await.unwrap().unwrap();
    let car = registry.cache().get(cars.stored(), "default", "a").unwrap().decode();
    assert!(car["metadata"]["deletionTimestamp"].is_string(), "{car:?}");
    let marks = (&car["metadata"]["generation"], &car["metadata"]["deletionGracePeriodSeconds"]);
    assert_eq!(marks, (&json!(2), &json!(0)));
}
