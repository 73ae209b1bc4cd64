//! The EndpointSlice mirroring controller: copies Endpoints of services without a selector into EndpointSlices.

use std::collections::BTreeMap;
use std::net::IpAddr;

use async_trait::async_trait;
use client::{Client, Error, Kind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::packing::{Changes, Group, Port, Slice, SliceMetadata, pack};
use super::service::Family;
use super::{BATCH_PERIOD, MANAGED_BY, SERVICE_NAME, WORKERS};
use crate::controllers::informers::Change;
use crate::controllers::rate_limited_queue::Action;
use crate::controllers::work_queue::{Controller, WorkQueue};
use crate::objects::service::Service;
use crate::objects::{List, ObjectMeta, StringMap};

/// The controller's name in `--controllers`.
pub const NAME: &str = "endpointslice-mirroring-controller";
/// The `managed-by` label value of the controller's slices, as in stock Kubernetes.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// Maximum number of mirrored addresses per subset, the stock default.
const MAX_ENDPOINTS_PER_SUBSET: usize = 1000;
/// The label of Endpoints that must not be mirrored.
const SKIP_MIRROR_LABEL: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of Endpoints that are only a leader-election lock.
const LEADER_ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are not copied, because they describe only the original object.
const NOT_MIRRORED: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Endpoints {
    metadata: ObjectMeta<StringMap>,
    subsets: List<Subset>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Subset {
    addresses: List<Address>,
    not_ready_addresses: List<Address>,
    ports: List<Port>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Address {
    ip: Box<str>,
    hostname: Option<Box<str>>,
    node_name: Option<Box<str>>,
    /// The target reference, which is copied with all its fields.
    target_ref: Option<Value>,
}

#[derive(Debug)]
pub struct EndpointSliceMirroringController {
    client: Client,
}

impl EndpointSliceMirroringController {
    /// Creates the controller. It writes EndpointSlices with the given client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

/// Returns the writes for the mirrored slices, from the Endpoints and the service with the same name.
fn plan(endpoints: Option<&Endpoints>, service: Option<&Service>, found: Vec<Slice>) -> Changes {
    let mirrored = endpoints.filter(|endpoints| is_mirrored(endpoints, service));
    let Some(endpoints) = mirrored else { return Changes { delete: found, ..Changes::default() } };
    let metadata = &endpoints.metadata;
    let labels = metadata.labels.iter().chain([(SERVICE_NAME, &*metadata.name), (MANAGED_BY, MANAGER)]);
    let annotations = metadata.annotations.iter().filter(|(name, _)| !NOT_MIRRORED.contains(name));
    let head = SliceMetadata {
        name: metadata.name.to_string(),
        labels: labels.collect(),
        annotations: Some(annotations.collect()),
        owner: super::owner(&Kind::ENDPOINTS, &metadata.name, &metadata.uid),
    };
    pack(found, groups(endpoints), &head, MAX_ENDPOINTS_PER_SUBSET)
}

/// Whether a user maintains the Endpoints for an existing service without a selector.
fn is_mirrored(endpoints: &Endpoints, service: Option<&Service>) -> bool {
    let metadata = &endpoints.metadata;
    let is_lock = metadata.annotations.contains_key(LEADER_ANNOTATION);
    service.is_some_and(|service| service.spec.selector.is_empty())
        && !is_lock
        && metadata.label(SKIP_MIRROR_LABEL) != "true"
        && !metadata.is_terminating()
}

fn groups(endpoints: &Endpoints) -> Vec<Group> {
    let mut groups: BTreeMap<(Family, Vec<Port>), Group> = BTreeMap::new();
    for subset in &endpoints.subsets {
        let mut sorted = subset.ports.to_vec();
        sorted.sort();
        let ready = subset.addresses.iter().map(|address| (address, true));
        let all = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
        for (address, ready) in all.take(MAX_ENDPOINTS_PER_SUBSET) {
            let Some((family, endpoint)) = endpoint(address, ready) else { continue };
            let none = || Group { family, ports: subset.ports.to_vec(), endpoints: Vec::new() };
            groups.entry((family, sorted.clone())).or_insert_with(none).endpoints.push(endpoint);
        }
    }
    groups.into_values().collect()
}

fn endpoint(address: &Address, ready: bool) -> Option<(Family, Value)> {
    let ip: IpAddr = address.ip.parse().ok()?;
    let mut endpoint = json!({"addresses": [ip.to_string()], "conditions": {"ready": ready}});
    if let Some(hostname) = &address.hostname {
        endpoint["hostname"] = (&**hostname).into();
    }
    if let Some(node) = &address.node_name {
        endpoint["nodeName"] = (&**node).into();
    }
    if let Some(target) = &address.target_ref {
        endpoint["targetRef"] = target.clone();
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
        let endpoints = self.client.find_as(&Kind::ENDPOINTS, namespace, name).await?;
        let service = self.client.find_as(&Kind::SERVICE, namespace, name).await?;
        let found = super::slices_of(&self.client, namespace, name, MANAGER).await?;
        super::write(&self.client, namespace, plan(endpoints.as_ref(), service.as_ref(), found)).await?;
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests;
