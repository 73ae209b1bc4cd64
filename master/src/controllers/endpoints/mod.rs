//! The endpoint controllers: they write the pod addresses of services to EndpointSlices and Endpoints.
//!
//! [`service`] and [`pod`] read objects; [`packing`] and [`subsets`] decide, all of them purely. Three controllers
//! write: [`slices`] and [`legacy`] for services with a selector, [`mirroring`] for those without.

pub mod legacy;
pub mod mirroring;
mod packing;
mod pod;
mod service;
pub mod slices;
mod subsets;

use std::time::Duration;

use client::{Client, DeleteOptions, Error, Json, Kind};
use serde_json::{Map, Value, json};

use self::packing::Changes;
use self::service::selects;
use super::informers::{Change, SharedInformers};
use super::object::{at, text};
use super::work_queue::WorkQueue;

/// The label that names the service of a slice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that names the controller of a slice.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label of headless services.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Batch period: pod changes within it cause one reconciliation and one write.
const BATCH_PERIOD: Duration = Duration::from_millis(100);
/// Concurrent reconciliations; the stock default.
const WORKERS: usize = 5;

/// Enqueues the services whose selector matches a pod before or after its change.
fn enqueue_services_of_pod(informers: &SharedInformers, change: &Change, queue: &WorkQueue) {
    let Some(pod) = change.object() else { return };
    let none = Map::new();
    let labels = [&change.before, &change.now].map(|pod| {
        let labels = pod.as_ref().and_then(|pod| pod.field("/metadata/labels"));
        labels.and_then(Value::as_object).unwrap_or(&none)
    });
    for service in informers.list(&Kind::SERVICE, &pod.namespace) {
        let selector = service.field("/spec/selector").and_then(Value::as_object).unwrap_or(&none);
        if labels.iter().any(|labels| selects(selector, labels)) {
            queue.add_in(&service.key(), BATCH_PERIOD);
        }
    }
}

/// Enqueues the service of a slice that `manager` writes or wrote.
fn enqueue_service_of_slice(change: &Change, manager: &str, queue: &WorkQueue) {
    for slice in [&change.before, &change.now].into_iter().flatten() {
        if slice.label(MANAGED_BY) == manager && !slice.label(SERVICE_NAME).is_empty() {
            queue.add_in(&format!("{}/{}", slice.namespace, slice.label(SERVICE_NAME)), BATCH_PERIOD);
        }
    }
}

/// Lists the slices of a service that `manager` writes.
async fn slices_of(
    client: &Client,
    namespace: &str,
    service: &str,
    manager: &str,
) -> Result<Vec<Json>, Error> {
    let labels = [(SERVICE_NAME, service), (MANAGED_BY, manager)];
    client.list_by_labels(&Kind::ENDPOINT_SLICE, namespace, &labels).await
}

/// Applies the writes: creates first, so that no endpoint is missing in between.
async fn write(client: &Client, namespace: &str, changes: Changes) -> Result<(), Error> {
    for slice in changes.create {
        super::service_accounts::ignore_existing(
            client.create(&Kind::ENDPOINT_SLICE, namespace, slice).await,
        )?;
    }
    for slice in changes.update {
        client.update(&Kind::ENDPOINT_SLICE, "", slice).await?;
    }
    for slice in changes.delete {
        let [uid, name] = ["/metadata/uid", "/metadata/name"].map(|path| text(at(&slice, path)));
        let how = DeleteOptions { uid: Some(&uid), ..DeleteOptions::default() };
        client.delete(&Kind::ENDPOINT_SLICE, namespace, &name, &how).await?;
    }
    Ok(())
}

/// The owner reference from a slice to its service or Endpoints.
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

/// Whether the object is being deleted.
fn is_terminating(object: &Json) -> bool {
    at(object, "/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

fn labels(object: &Json) -> Json {
    at(object, "/metadata/labels").and_then(Value::as_object).cloned().unwrap_or_default()
}
