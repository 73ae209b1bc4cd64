//! The Endpoints controller: writes the legacy Endpoints object of each service with a selector.

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Json, Kind};
use serde_json::{Value, json};

use super::service::Service;
use super::subsets::subsets;
use super::{BATCH_PERIOD, HEADLESS, WORKERS};
use crate::controllers::informers::{Change, SharedInformers};
use crate::controllers::object::Object;
use crate::controllers::rate_limited_queue::Action;
use crate::controllers::service_accounts::ignore_existing;
use crate::controllers::work_queue::{Controller, WorkQueue};
use crate::objects::{self, StringMap};

/// The controller's name in `--controllers`.
pub const NAME: &str = "endpoints-controller";
/// The label that marks objects of this controller, as in stock Kubernetes.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// The value of the label [`MANAGED_BY`].
const MANAGER: &str = "endpoint-controller";
/// The annotation of Endpoints that were truncated to 1,000 addresses.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const TRUNCATED: &str = "truncated";

#[derive(Debug)]
pub struct EndpointsController {
    client: Client,
    informers: SharedInformers,
}

/// The write for the Endpoints of a service.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Create(Value),
    Update(Json),
}

impl EndpointsController {
    /// Creates the controller. It writes the Endpoints of the services of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers }
    }

    /// Whether a change of Endpoints concerns this controller.
    ///
    /// It handles its own objects, and deleted objects if their service exists. It ignores Endpoints that a user writes
    /// without a service.
    fn is_ours(&self, change: &Change) -> bool {
        let has_service =
            |gone: &Object| self.informers.get(&Kind::SERVICE, &gone.namespace, &gone.name).is_some();
        change.kind.is(&Kind::ENDPOINTS)
            && match (&change.before, &change.now) {
                (_, Some(now)) => is_own(now),
                (Some(gone), None) => has_service(gone),
                (None, None) => false,
            }
    }
}

fn plan(found: Option<Json>, service: &Service, own_labels: &StringMap, pods: &[objects::Pod]) -> Plan {
    let (subsets, is_cut) = subsets(service, pods);
    let labels = own_labels.iter().filter(|(name, _)| *name != HEADLESS).chain([(MANAGED_BY, MANAGER)]);
    let labels: StringMap = labels.chain(service.is_headless.then_some((HEADLESS, ""))).collect();
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
        metadata.insert("labels".to_owned(), json!(labels));
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

/// Whether this controller wrote the Endpoints, and must delete them with their service.
fn is_own(endpoints: &Object) -> bool {
    endpoints.label(MANAGED_BY) == MANAGER
}

#[async_trait]
impl Controller for EndpointsController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::POD) {
            super::enqueue_services_of_pod(&self.informers, change, queue);
        } else if change.kind.is(&Kind::SERVICE) || self.is_ours(change) {
            queue.add_in(&object.key(), BATCH_PERIOD);
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let found = self.client.find_as::<objects::service::Service>(&Kind::SERVICE, namespace, name).await?;
        let Some(object) = found else {
            self.client.delete(&Kind::ENDPOINTS, namespace, name, &DeleteOptions::default()).await?;
            return Ok(Action::AwaitChange);
        };
        let Some(service) = Service::of(&object) else { return Ok(Action::AwaitChange) };
        let pods = self.client.list_by_labels(&Kind::POD, namespace, &service.selector_labels()).await?;
        let found = self.client.find(&Kind::ENDPOINTS, namespace, name).await?;
        match plan(found, &service, &object.metadata.labels, &pods) {
            Plan::Nothing => Ok(Action::AwaitChange),
            Plan::Create(endpoints) => {
                ignore_existing(self.client.create(&Kind::ENDPOINTS, namespace, endpoints).await)
            }
            Plan::Update(endpoints) => {
                ignore_existing(self.client.update(&Kind::ENDPOINTS, "", endpoints).await)
            }
        }
    }
}

#[cfg(test)]
mod tests;
