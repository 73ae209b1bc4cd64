//! The endpoints of a service that selects pods, in EndpointSlices of a hundred.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde_json::Value;

use super::fit::{Group, Head, Port, fit};
use super::pod::Pod;
use super::service::{Family, Service};
use super::{GATHER, HEADLESS, MANAGED_BY, SERVICE_NAME, WORKERS};
use crate::controllers::agenda::Next;
use crate::controllers::client::{Client, Error, Json, Kind};
use crate::controllers::queue::{Controller, Queue};
use crate::controllers::world::{Change, World};

/// Its name in `--controllers`.
pub const NAME: &str = "endpointslice-controller";
/// How it signs its slices; the stock controller's.
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Endpoints of a slice at most; the stock controller's `--max-endpoints-per-slice`.
const MOST: usize = 100;
/// The label of a node that tells its zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The controller.
#[derive(Debug)]
pub struct Slices {
    client: Client,
    world: World,
}

impl Slices {
    /// Writes through that client what it sees in that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world }
    }

    /// The zone of a node, as far as it is known.
    fn zone(&self, node: &str) -> String {
        self.world.get(&Kind::NODE, "", node).map(|node| node.label(ZONE).to_owned()).unwrap_or_default()
    }
}

/// The endpoints that a service has, in groups that can share slices; every family has one at least.
fn groups(service: &Service, pods: &[Json], zone: impl Fn(&str) -> String) -> Vec<Group> {
    let pods: Vec<Pod<'_>> = pods.iter().map(Pod).filter(Pod::is_there).collect();
    let mut groups: BTreeMap<(Family, Vec<Port>), Group> = BTreeMap::new();
    let families = families(service, &pods);
    for pod in &pods {
        let (ports, zone) = (pod.ports(service), zone(&pod.node()));
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

/// Those of the service; where nobody has decided, those of its pods.
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

fn head(service: &Service, object: &Json) -> Head {
    let mut labels = super::labels(object);
    labels.retain(|name, _| ![SERVICE_NAME, MANAGED_BY, HEADLESS].contains(&name.as_str()));
    labels.insert(SERVICE_NAME.to_owned(), service.name.as_str().into());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    if service.is_headless {
        labels.insert(HEADLESS.to_owned(), Value::from(""));
    }
    let owner = super::owner(&Kind::SERVICE, object);
    Head { name: service.name.clone(), labels, annotations: None, owner }
}

#[async_trait]
impl Controller for Slices {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if change.kind.is(&Kind::POD) {
            super::hear_pod(&self.world, change, queue);
        } else if change.kind.is(&Kind::ENDPOINT_SLICE) {
            super::hear_slice(change, MANAGER, queue);
        } else if change.kind.is(&Kind::SERVICE)
            && let Some(service) = &change.now
        {
            // One that is gone takes its slices along: it owns them.
            queue.add_in(&service.key(), GATHER);
        }
    }

    async fn look(&self, key: &str, _: &Queue) -> Result<Next, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(object) = self.client.find(&Kind::SERVICE, namespace, name).await? else {
            return Ok(Next::Change);
        };
        let Some(service) = Service::of(&object) else { return Ok(Next::Change) };
        if super::is_ending(&object) {
            return Ok(Next::Change);
        }
        let pods = self.client.labelled(&Kind::POD, namespace, &service.wanted_labels()).await?;
        let found = super::slices_of(&self.client, namespace, name, MANAGER).await?;
        let groups = groups(&service, &pods, |node| self.zone(node));
        super::write(&self.client, namespace, fit(found, groups, &head(&service, &object), MOST)).await?;
        Ok(Next::Change)
    }
}

#[cfg(test)]
mod tests;
