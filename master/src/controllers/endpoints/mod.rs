//! What stands behind services: the addresses of their pods, in EndpointSlices and in the older Endpoints.
//!
//! [`service`] and [`pod`] read what is there, [`fit`] and [`subsets`] decide what is to be there, all of them purely. Three
//! controllers look and write: [`slices`] and [`legacy`] for services that select pods, [`mirror`] for those that do not.

mod fit;
pub mod legacy;
pub mod mirror;
mod pod;
mod service;
pub mod slices;
mod subsets;

use std::time::Duration;

use serde_json::{Map, Value, json};

use self::fit::Changes;
use self::service::selects;
use super::client::{Client, Delete, Error, Json, Kind};
use super::object::{at, text};
use super::queue::Queue;
use super::world::{Change, World};

/// Which service a slice is of.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Who writes a slice.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The service has no address of its own.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Pods change together: what comes within this time is one look and one write.
const GATHER: Duration = Duration::from_millis(100);
/// Services that are looked at at once; the stock controllers'.
const WORKERS: usize = 5;

/// Notes the services of a pod that has changed: those that select it, and those that did before.
fn hear_pod(world: &World, change: &Change, queue: &Queue) {
    let Some(pod) = change.object() else { return };
    let none = Map::new();
    let labels = [&change.before, &change.now].map(|pod| {
        let labels = pod.as_ref().and_then(|pod| pod.kept("/metadata/labels"));
        labels.and_then(Value::as_object).unwrap_or(&none)
    });
    for service in world.list(&Kind::SERVICE, &pod.namespace) {
        let selector = service.kept("/spec/selector").and_then(Value::as_object).unwrap_or(&none);
        if labels.iter().any(|labels| selects(selector, labels)) {
            queue.add_in(&service.key(), GATHER);
        }
    }
}

/// Notes the service of a slice that `manager` writes, or wrote.
fn hear_slice(change: &Change, manager: &str, queue: &Queue) {
    for slice in [&change.before, &change.now].into_iter().flatten() {
        if slice.label(MANAGED_BY) == manager && !slice.label(SERVICE_NAME).is_empty() {
            queue.add_in(&format!("{}/{}", slice.namespace, slice.label(SERVICE_NAME)), GATHER);
        }
    }
}

/// The slices of a service that `manager` writes.
async fn slices_of(
    client: &Client,
    namespace: &str,
    service: &str,
    manager: &str,
) -> Result<Vec<Json>, Error> {
    let labels = [(SERVICE_NAME, service), (MANAGED_BY, manager)];
    client.labelled(&Kind::ENDPOINT_SLICE, namespace, &labels).await
}

/// Carries out what is to become of slices: first those that come, so that no endpoint is ever missing.
async fn write(client: &Client, namespace: &str, changes: Changes) -> Result<(), Error> {
    for slice in changes.create {
        super::accounts::made(client.create(&Kind::ENDPOINT_SLICE, namespace, slice).await)?;
    }
    for slice in changes.update {
        client.update(&Kind::ENDPOINT_SLICE, "", slice).await?;
    }
    for slice in changes.delete {
        let [uid, name] = ["/metadata/uid", "/metadata/name"].map(|path| text(at(&slice, path)));
        let how = Delete { uid: Some(&uid), ..Delete::default() };
        client.delete(&Kind::ENDPOINT_SLICE, namespace, &name, &how).await?;
    }
    Ok(())
}

/// What ties a slice to the object that it follows from, and takes it along.
fn owner(kind: &Kind, object: &Json) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": at(object, "/metadata/name"),
        "uid": at(object, "/metadata/uid"),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// An object is on its way out.
fn is_ending(object: &Json) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// The labels of an object.
fn labels(object: &Json) -> Json {
    at(object, "/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default()
}
