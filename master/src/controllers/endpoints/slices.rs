//! The EndpointSlice controller: writes the endpoints of services with a selector, up to 100 per slice.

use std::collections::BTreeMap;

use async_trait::async_trait;
use client::{Client, Error, Kind};

use super::packing::{Group, Port, SliceMetadata, pack};
use super::pod::Pod;
use super::service::{Family, Service};
use super::{BATCH_PERIOD, HEADLESS, MANAGED_BY, SERVICE_NAME, WORKERS};
use crate::controllers::informers::{Change, SharedInformers};
use crate::controllers::rate_limited_queue::Action;
use crate::controllers::work_queue::{Controller, WorkQueue};
use crate::objects::{self, ObjectMeta};

/// The controller's name in `--controllers`.
pub const NAME: &str = "endpointslice-controller";
/// The `managed-by` label value of the controller's slices, as in stock Kubernetes.
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Maximum number of endpoints per slice, the default of the stock `--max-endpoints-per-slice`.
const MAX_ENDPOINTS_PER_SLICE: usize = 100;
/// The node label that holds the zone.
const ZONE: &str = "topology.kubernetes.io/zone";

#[derive(Debug)]
pub struct EndpointSliceController {
    client: Client,
    informers: SharedInformers,
}

impl EndpointSliceController {
    /// Creates the controller. It writes the slices of the services of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers }
    }

    /// Returns the zone of a node, or an empty text if it is unknown.
    fn zone(&self, node: &str) -> String {
        self.informers.get(&Kind::NODE, "", node).map(|node| node.label(ZONE).to_owned()).unwrap_or_default()
    }
}

/// Groups the endpoints of a service by address family and ports, because a slice has one of each. Each address family
/// has at least one group, which may be empty.
fn groups(service: &Service, pods: &[objects::Pod], zone: impl Fn(&str) -> String) -> Vec<Group> {
    let pods: Vec<Pod<'_>> = pods.iter().map(Pod).filter(Pod::has_endpoint).collect();
    let mut groups: BTreeMap<(Family, Vec<Port>), Group> = BTreeMap::new();
    let families = families(service, &pods);
    for pod in &pods {
        let (ports, zone) = (pod.ports(service), zone(pod.node()));
        let mut sorted = ports.clone();
        sorted.sort();
        for family in &families {
            let Some(endpoint) = pod.endpoint(service, *family, &zone) else { continue };
            let group = groups.entry((*family, sorted.clone()));
            let none = || Group { family: *family, ports: ports.clone(), endpoints: Vec::new() };
            group.or_insert_with(none).endpoints.push(endpoint);
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    for family in families {
        if groups.iter().all(|group| group.family != family) {
            groups.push(Group { family, ports: Vec::new(), endpoints: Vec::new() });
        }
    }
    groups
}

/// Returns the families of the service, or those of its pods if none are assigned.
fn families(service: &Service, pods: &[Pod<'_>]) -> Vec<Family> {
    let mut families = service.families.clone();
    if families.is_empty() {
        families.extend(pods.iter().flat_map(|pod| pod.addresses().map(Family::of).collect::<Vec<_>>()));
        families.sort_unstable();
        families.dedup();
    }
    if families.is_empty() {
        families.push(Family::V4);
    }
    families
}

fn head(service: &Service, of: &ObjectMeta) -> SliceMetadata {
    let labels = of.labels.iter().filter(|(name, _)| *name != HEADLESS);
    let own = [(SERVICE_NAME, service.name.as_str()), (MANAGED_BY, MANAGER)];
    let headless = service.is_headless.then_some((HEADLESS, ""));
    let owner = super::owner(&Kind::SERVICE, &of.name, &of.uid);
    let labels = labels.chain(own).chain(headless).collect();
    SliceMetadata { name: service.name.clone(), labels, annotations: None, owner }
}

#[async_trait]
impl Controller for EndpointSliceController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::POD) {
            super::enqueue_services_of_pod(&self.informers, change, queue);
        } else if change.kind.is(&Kind::ENDPOINT_SLICE) {
            super::enqueue_service_of_slice(change, MANAGER, queue);
        } else if change.kind.is(&Kind::SERVICE)
            && let Some(service) = &change.now
        {
            // The slices of a deleted service are garbage collected.
            queue.add_in(&service.key(), BATCH_PERIOD);
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let found = self.client.find_as::<objects::service::Service>(&Kind::SERVICE, namespace, name).await?;
        let Some(object) = found.filter(|found| !found.metadata.is_terminating()) else {
            return Ok(Action::AwaitChange);
        };
        let Some(service) = Service::of(&object) else { return Ok(Action::AwaitChange) };
        let pods = self.client.list_by_labels(&Kind::POD, namespace, &service.selector_labels()).await?;
        let found = super::slices_of(&self.client, namespace, name, MANAGER).await?;
        let groups = groups(&service, &pods, |node| self.zone(node));
        super::write(
            &self.client,
            namespace,
            pack(found, groups, &head(&service, &object.metadata), MAX_ENDPOINTS_PER_SLICE),
        )
        .await?;
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests;
