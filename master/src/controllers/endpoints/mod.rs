//! The endpoint controllers: they write the pod addresses of services to EndpointSlices and Endpoints.
//!
//! [`service`] and [`pod`] read objects. [`packing`] and [`subsets`] decide what to write. All four are pure. Three
//! controllers write: [`slices`] and [`legacy`] for services with a selector, [`mirroring`] for those without.

pub mod legacy;
pub mod mirroring;
mod packing;
mod pod;
mod service;
pub mod slices;
mod subsets;

use std::time::Duration;

use client::{Client, DeleteOptions, Error, Json, Kind};

use self::packing::{Changes, Slice};
use self::service::selects;
use super::fields::Fields;
use super::informers::{Change, SharedInformers};
use super::object::unreadable;
use super::work_queue::WorkQueue;
use crate::objects::OwnerReference;

/// The label that names the service of a slice.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label that names the controller of a slice.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label of headless services.
const HEADLESS: &str = "service.kubernetes.io/headless";
/// Batch period. Pod changes within it cause one reconciliation and one write.
const BATCH_PERIOD: Duration = Duration::from_millis(100);
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 5;

/// Enqueues the services whose selector matches a pod before or after its change.
fn enqueue_services_of_pod(informers: &SharedInformers, change: &Change, queue: &WorkQueue) {
    let Some(pod) = change.object() else { return };
    let states = [&change.before, &change.now];
    for service in informers.list(&Kind::SERVICE, &pod.namespace) {
        let Fields::Service { selector } = &service.fields else { continue };
        if states.into_iter().flatten().any(|pod| selects(selector, &pod.labels)) {
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
) -> Result<Vec<Slice>, Error> {
    let labels = [(SERVICE_NAME, service), (MANAGED_BY, manager)];
    let found: Vec<Json> = client.list_by_labels(&Kind::ENDPOINT_SLICE, namespace, &labels).await?;
    let slices: Result<_, _> = found.into_iter().map(Slice::read).collect();
    slices.map_err(|source| unreadable(client, source))
}

/// Applies the writes. Creates slices first, so that no endpoint is missing in between.
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
        let metadata = slice.fields.metadata;
        let how = DeleteOptions { uid: Some(&metadata.uid), ..DeleteOptions::default() };
        client.delete(&Kind::ENDPOINT_SLICE, namespace, &metadata.name, &how).await?;
    }
    Ok(())
}

/// Returns the owner reference from a slice to its service or Endpoints.
fn owner(kind: &Kind, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: kind.api_version().into(),
        kind: (&*kind.kind).into(),
        name: name.into(),
        uid: uid.into(),
        controller: true,
        block_owner_deletion: true,
    }
}
