//! The EndpointSlice mirroring controller: copies Endpoints of services without a selector into EndpointSlices.

use std::collections::BTreeMap;
use std::net::IpAddr;

use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use serde_json::{Value, json};

use super::packing::{Changes, Group, Port, SliceMetadata, pack};
use super::service::{Family, list};
use super::{BATCH_PERIOD, MANAGED_BY, SERVICE_NAME, WORKERS};
use crate::controllers::informers::Change;
use crate::controllers::object::{at, text};
use crate::controllers::rate_limited_queue::Action;
use crate::controllers::work_queue::{Controller, WorkQueue};

/// The controller's name in `--controllers`.
pub const NAME: &str = "endpointslice-mirroring-controller";
/// The `managed-by` label value of its slices; that of the stock controller.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// Maximum number of mirrored addresses per subset; the stock default.
const MAX_ENDPOINTS_PER_SUBSET: usize = 1000;
/// The label of Endpoints that must not be mirrored.
const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of Endpoints that are only a leader-election lock.
const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that describe only the object itself, and are not copied.
const NOT_MIRRORED: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

#[derive(Debug)]
pub struct EndpointSliceMirroringController {
    client: Client,
}

impl EndpointSliceMirroringController {
    /// Writes EndpointSlices with this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

/// The writes for the mirrored slices, from the Endpoints and the service of the same name.
fn plan(endpoints: Option<&Json>, service: Option<&Json>, found: Vec<Json>) -> Changes {
    let mirrored = endpoints.filter(|endpoints| is_mirrored(endpoints, service));
    let Some(endpoints) = mirrored else { return Changes { delete: found, ..Changes::default() } };
    let name = text(at(endpoints, "/metadata/name"));
    let mut labels = super::labels(endpoints);
    labels.insert(SERVICE_NAME.to_owned(), name.as_str().into());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    let annotations = at(endpoints, "/metadata/annotations").and_then(Value::as_object);
    let mut annotations = annotations.cloned().unwrap_or_default();
    annotations.retain(|name, _| !NOT_MIRRORED.contains(&name.as_str()));
    let owner = super::owner(&Kind::ENDPOINTS, endpoints);
    pack(
        found,
        groups(endpoints),
        &SliceMetadata { name, labels, annotations: Some(annotations), owner },
        MAX_ENDPOINTS_PER_SUBSET,
    )
}

/// Whether a user maintains these Endpoints for an existing service without a selector.
fn is_mirrored(endpoints: &Json, service: Option<&Json>) -> bool {
    let selector = |service: &Json| at(service, "/spec/selector").and_then(Value::as_object).cloned();
    let is_free = service.is_some_and(|service| selector(service).is_none_or(|selector| selector.is_empty()));
    let annotations = at(endpoints, "/metadata/annotations").and_then(Value::as_object);
    let is_lock = annotations.is_some_and(|annotations| annotations.contains_key(LEADER_ANNOTATION));
    let skips = super::labels(endpoints).get(SKIP_MIRROR_LABEL).is_some_and(|skip| skip == "true");
    is_free && !is_lock && !skips && !super::is_terminating(endpoints)
}

fn groups(endpoints: &Json) -> Vec<Group> {
    let mut groups: BTreeMap<(Family, Vec<Port>), Group> = BTreeMap::new();
    for subset in list(endpoints.get("subsets")) {
        let ports: Vec<Port> = list(subset.get("ports")).map(Port::of).collect();
        let mut sorted = ports.clone();
        sorted.sort();
        let both = [("addresses", true), ("notReadyAddresses", false)];
        let all = both.iter().flat_map(|(field, ready)| list(subset.get(field)).map(move |it| (it, *ready)));
        for (address, ready) in all.take(MAX_ENDPOINTS_PER_SUBSET) {
            let Some((family, endpoint)) = endpoint(address, ready) else { continue };
            let none = || Group { family, ports: ports.clone(), endpoints: Vec::new() };
            groups.entry((family, sorted.clone())).or_insert_with(none).endpoints.push(endpoint);
        }
    }
    groups.into_values().collect()
}

fn endpoint(address: &Value, ready: bool) -> Option<(Family, Value)> {
    let ip: IpAddr = address.get("ip")?.as_str()?.parse().ok()?;
    let mut endpoint = json!({"addresses": [ip.to_string()], "conditions": {"ready": ready}});
    for field in ["hostname", "nodeName", "targetRef"] {
        if let Some(value) = address.get(field).filter(|value| !value.is_null()) {
            endpoint[field] = value.clone();
        }
    }
    Some((Family::of(ip), endpoint))
}

#[async_trait]
impl Controller for EndpointSliceMirroringController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::ENDPOINT_SLICE) {
            super::enqueue_service_of_slice(change, MANAGER, queue);
        } else if change.kind.is(&Kind::ENDPOINTS) || change.kind.is(&Kind::SERVICE) {
            queue.add_in(&object.key(), BATCH_PERIOD);
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let endpoints = self.client.find(&Kind::ENDPOINTS, namespace, name).await?;
        let service = self.client.find(&Kind::SERVICE, namespace, name).await?;
        let found = super::slices_of(&self.client, namespace, name, MANAGER).await?;
        super::write(&self.client, namespace, plan(endpoints.as_ref(), service.as_ref(), found)).await?;
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests;
