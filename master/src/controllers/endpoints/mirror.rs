//! The Endpoints that somebody writes for a service without a selector, in EndpointSlices as well.

use std::collections::BTreeMap;
use std::net::IpAddr;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::fit::{Changes, Group, Head, Port, fit};
use super::service::{Family, list};
use super::{GATHER, MANAGED_BY, SERVICE_NAME, WORKERS};
use crate::controllers::agenda::Next;
use crate::controllers::client::{Client, Error, Json, Kind};
use crate::controllers::object::{at, text};
use crate::controllers::queue::{Controller, Queue};
use crate::controllers::world::Change;

/// Its name in `--controllers`.
pub const NAME: &str = "endpointslice-mirroring-controller";
/// How it signs its slices; the stock controller's.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// Addresses of a subset that are mirrored, all of them in one slice; the stock controller's.
const MOST: usize = 1000;
/// The label of Endpoints that are not to be mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// The annotation of Endpoints that are a lock and nothing else.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotations that are about the object they stand in.
const OWN: [&str; 2] =
    ["endpoints.kubernetes.io/last-change-trigger-time", "kubectl.kubernetes.io/last-applied-configuration"];

/// The controller.
#[derive(Debug)]
pub struct Mirror {
    client: Client,
}

impl Mirror {
    /// Writes through that client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

/// What is to become of the mirrored slices, given the Endpoints and the service of their name.
fn plan(endpoints: Option<&Json>, service: Option<&Json>, found: Vec<Json>) -> Changes {
    let mirrored = endpoints.filter(|endpoints| is_mirrored(endpoints, service));
    let Some(endpoints) = mirrored else { return Changes { delete: found, ..Changes::default() } };
    let name = text(at(endpoints, "/metadata/name"));
    let mut labels = super::labels(endpoints);
    labels.insert(SERVICE_NAME.to_owned(), name.as_str().into());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    let annotations = at(endpoints, "/metadata/annotations").and_then(Value::as_object);
    let mut annotations = annotations.cloned().unwrap_or_default();
    annotations.retain(|name, _| !OWN.contains(&name.as_str()));
    let owner = super::owner(&Kind::ENDPOINTS, endpoints);
    fit(found, groups(endpoints), &Head { name, labels, annotations: Some(annotations), owner }, MOST)
}

/// Somebody writes these Endpoints by hand, for a service that is there.
fn is_mirrored(endpoints: &Json, service: Option<&Json>) -> bool {
    let selector = |service: &Json| at(service, "/spec/selector").and_then(Value::as_object).cloned();
    let is_free = service.is_some_and(|service| selector(service).is_none_or(|selector| selector.is_empty()));
    let annotations = at(endpoints, "/metadata/annotations").and_then(Value::as_object);
    let is_lock = annotations.is_some_and(|annotations| annotations.contains_key(LEADER));
    let skips = super::labels(endpoints).get(SKIP).is_some_and(|skip| skip == "true");
    is_free && !is_lock && !skips && !super::is_ending(endpoints)
}

fn groups(endpoints: &Json) -> Vec<Group> {
    let mut groups: BTreeMap<(Family, Vec<Port>), Group> = BTreeMap::new();
    for subset in list(endpoints.get("subsets")) {
        let ports: Vec<Port> = list(subset.get("ports")).map(Port::of).collect();
        let mut sorted = ports.clone();
        sorted.sort();
        let both = [("addresses", true), ("notReadyAddresses", false)];
        let all = both.iter().flat_map(|(field, ready)| list(subset.get(field)).map(move |it| (it, *ready)));
        for (address, ready) in all.take(MOST) {
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
impl Controller for Mirror {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::ENDPOINT_SLICE) {
            super::hear_slice(change, MANAGER, queue);
        } else if change.kind.is(&Kind::ENDPOINTS) || change.kind.is(&Kind::SERVICE) {
            queue.add_in(&object.key(), GATHER);
        }
    }

    async fn look(&self, key: &str, _: &Queue) -> Result<Next, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let endpoints = self.client.find(&Kind::ENDPOINTS, namespace, name).await?;
        let service = self.client.find(&Kind::SERVICE, namespace, name).await?;
        let found = super::slices_of(&self.client, namespace, name, MANAGER).await?;
        super::write(&self.client, namespace, plan(endpoints.as_ref(), service.as_ref(), found)).await?;
        Ok(Next::Change)
    }
}

#[cfg(test)]
mod tests;
