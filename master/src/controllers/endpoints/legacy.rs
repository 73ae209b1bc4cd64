//! The Endpoints of a service that selects pods: the older form, which clients from before EndpointSlices read.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::service::Service;
use super::subsets::subsets;
use super::{GATHER, HEADLESS, WORKERS};
use crate::controllers::accounts::made;
use crate::controllers::agenda::Next;
use crate::controllers::client::{Client, Delete, Error, Json, Kind};
use crate::controllers::object::Object;
use crate::controllers::queue::{Controller, Queue};
use crate::controllers::world::{Change, World};

/// Its name in `--controllers`.
pub const NAME: &str = "endpoints-controller";
/// The label by which it knows its own Endpoints, and what it signs with; the stock controller's.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const MANAGER: &str = "endpoint-controller";
/// What tells that there are more addresses than one object has room for.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const TRUNCATED: &str = "truncated";

/// The controller.
#[derive(Debug)]
pub struct Addresses {
    client: Client,
    world: World,
}

/// What is to be done about the Endpoints of a service.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Create(Value),
    Update(Json),
}

impl Addresses {
    /// Writes through that client what it sees in that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world }
    }

    /// Whether a change of Endpoints has to be looked at: of our own, and of any that are gone while their service is there.
    /// Those that somebody writes before their service are left alone.
    fn is_ours(&self, change: &Change) -> bool {
        let has_service =
            |gone: &Object| self.world.get(&Kind::SERVICE, &gone.namespace, &gone.name).is_some();
        change.kind.is(&Kind::ENDPOINTS)
            && match (&change.before, &change.now) {
                (_, Some(now)) => is_own(now),
                (Some(gone), None) => has_service(gone),
                (None, None) => false,
            }
    }
}

fn plan(found: Option<Json>, service: &Service, object: &Json, pods: &[Json]) -> Plan {
    let (subsets, is_cut) = subsets(service, pods);
    let mut labels = super::labels(object);
    labels.insert(MANAGED_BY.to_owned(), MANAGER.into());
    labels.remove(HEADLESS);
    if service.is_headless {
        labels.insert(HEADLESS.to_owned(), "".into());
    }
    let Some(found) = found else {
        let mut metadata = json!({"name": service.name, "labels": labels});
        if is_cut {
            metadata["annotations"] = json!({OVER_CAPACITY: TRUNCATED});
        }
        let mut endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata});
        if !subsets.is_empty() {
            endpoints["subsets"] = subsets.into();
        }
        return Plan::Create(endpoints);
    };
    let mut wanted = found.clone();
    match subsets.is_empty() {
        true => drop(wanted.remove("subsets")),
        false => drop(wanted.insert("subsets".to_owned(), subsets.into())),
    }
    if let Some(Value::Object(metadata)) = wanted.get_mut("metadata") {
        metadata.insert("labels".to_owned(), labels.into());
        let mut annotations = match metadata.remove("annotations") {
            Some(Value::Object(annotations)) => annotations,
            _ => Json::new(),
        };
        annotations.remove(OVER_CAPACITY);
        if is_cut {
            annotations.insert(OVER_CAPACITY.to_owned(), TRUNCATED.into());
        }
        if !annotations.is_empty() {
            metadata.insert("annotations".to_owned(), annotations.into());
        }
    }
    if wanted == found { Plan::Nothing } else { Plan::Update(wanted) }
}

/// True for Endpoints that this controller wrote, and has to take away when their service is gone.
fn is_own(endpoints: &Object) -> bool {
    endpoints.label(MANAGED_BY) == MANAGER
}

#[async_trait]
impl Controller for Addresses {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::POD) {
            super::hear_pod(&self.world, change, queue);
        } else if change.kind.is(&Kind::SERVICE) || self.is_ours(change) {
            queue.add_in(&object.key(), GATHER);
        }
    }

    async fn look(&self, key: &str, _: &Queue) -> Result<Next, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(object) = self.client.find(&Kind::SERVICE, namespace, name).await? else {
            self.client.delete(&Kind::ENDPOINTS, namespace, name, &Delete::default()).await?;
            return Ok(Next::Change);
        };
        let Some(service) = Service::of(&object) else { return Ok(Next::Change) };
        let pods = self.client.labelled(&Kind::POD, namespace, &service.wanted_labels()).await?;
        let found = self.client.find(&Kind::ENDPOINTS, namespace, name).await?;
        match plan(found, &service, &object, &pods) {
            Plan::Nothing => Ok(Next::Change),
            Plan::Create(endpoints) => made(self.client.create(&Kind::ENDPOINTS, namespace, endpoints).await),
            Plan::Update(endpoints) => made(self.client.update(&Kind::ENDPOINTS, "", endpoints).await),
        }
    }
}

#[cfg(test)]
mod tests;
