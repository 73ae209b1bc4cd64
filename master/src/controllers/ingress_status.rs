//! The Ingress status controller: publishes the addresses of the nodes that serve Ingresses of the built-in class.
//!
//! These are the Ready nodes with the label [`INGRESS_LABEL`]. No stock controller or role exists for this, so the
//! controller writes as the master itself.

use std::collections::BTreeSet;

use apiserver::auth::{INGRESS_LABEL, is_of_built_in_class};
use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use serde_json::{Value, json};

use super::informers::{Change, SharedInformers};
use super::object::Object;
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};

/// The controller's name in `--controllers`.
pub const NAME: &str = "ingress-status-controller";

#[derive(Debug)]
pub struct IngressStatusController {
    client: Client,
    informers: SharedInformers,
}

impl IngressStatusController {
    /// Creates the controller. It writes the status of Ingresses through `client`.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers }
    }
}

/// The addresses at which a node serves Ingresses: its external addresses, or else its internal ones. None if the node
/// has no label for Ingresses or is not Ready.
fn addresses(node: &Object) -> BTreeSet<&str> {
    let status = &node.node().status;
    let is_ready = status.conditions.iter().any(|one| &*one.r#type == "Ready" && one.is_true());
    if node.label(INGRESS_LABEL) != "true" || node.is_terminating || !is_ready {
        return BTreeSet::new();
    }
    let of_type = |wanted: &str| -> BTreeSet<&str> {
        let matching = status.addresses.iter().filter(|one| &*one.r#type == wanted);
        matching.map(|one| &*one.address).collect()
    };
    let external = of_type("ExternalIP");
    if external.is_empty() { of_type("InternalIP") } else { external }
}

/// The value of `status.loadBalancer.ingress` for these addresses. `None` if the Ingress has it, or if its class is
/// another one.
fn plan(ingress: &Json, addresses: &BTreeSet<&str>) -> Option<Value> {
    if !is_of_built_in_class(ingress) {
        return None;
    }
    let wanted: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let present =
        ingress.get("status").and_then(|status| status.get("loadBalancer")?.get("ingress")?.as_array());
    (present.map_or(&[][..], Vec::as_slice) != wanted).then(|| Value::Array(wanted))
}

#[async_trait]
impl Controller for IngressStatusController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::INGRESS) {
            change.now.iter().for_each(|ingress| queue.add(&ingress.key()));
        } else if change.kind.is(&Kind::NODE) {
            let of = |node: Option<&Object>| -> BTreeSet<String> {
                node.map(addresses).unwrap_or_default().into_iter().map(str::to_owned).collect()
            };
            if of(change.before.as_deref()) != of(change.now.as_deref()) {
                self.informers.list(&Kind::INGRESS, "").iter().for_each(|ingress| queue.add(&ingress.key()));
            }
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(ingress) = self.client.find(&Kind::INGRESS, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        let nodes = self.informers.list(&Kind::NODE, "");
        let addresses = nodes.iter().flat_map(|node| addresses(node)).collect();
        if let Some(published) = plan(&ingress, &addresses) {
            let patch = json!({"status": {"loadBalancer": {"ingress": published}}});
            self.client.patch_subresource(&Kind::INGRESS, namespace, name, "status", patch).await?;
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of published addresses.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn node(label: &str, ready: &str, addresses: &[(&str, &str)]) -> Object {
        let addresses: Vec<Value> =
            addresses.iter().map(|(kind, address)| json!({"type": kind, "address": address})).collect();
        let node = json!({
            "metadata": {"name": "a", "labels": {INGRESS_LABEL: label}},
            "status": {"conditions": [{"type": "Ready", "status": ready}], "addresses": addresses},
        });
        Object::decode("nodes", node.as_object().unwrap()).unwrap()
    }

    #[test]
    fn ready_nodes_with_the_label_publish_external_or_internal_addresses() {
        let internal = [("InternalIP", "10.0.0.1"), ("Hostname", "a"), ("InternalIP", "fd00::1")];
        let external = [("InternalIP", "10.0.0.1"), ("ExternalIP", "192.0.2.1")];
        for (node, expected) in [
            (node("true", "True", &internal), &["10.0.0.1", "fd00::1"][..]),
            (node("true", "True", &external), &["192.0.2.1"]),
            (node("true", "Unknown", &external), &[]),
            (node("false", "True", &external), &[]),
        ] {
            assert!(addresses(&node).into_iter().eq(expected.iter().copied()), "{node:?}");
        }
    }

    #[test]
    fn only_ingresses_of_the_class_with_other_addresses_are_written() {
        let ingress = |class: &str, status: Value| -> Json {
            let ingress = json!({"spec": {"ingressClassName": class}, "status": status});
            ingress.as_object().unwrap().clone()
        };
        let (some, none) = (BTreeSet::from(["10.0.0.1"]), BTreeSet::new());
        let published = json!({"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}});
        let written = Some(json!([{"ip": "10.0.0.1"}]));
        assert_eq!(plan(&ingress("coracle", json!({"loadBalancer": {}})), &some), written);
        assert_eq!(plan(&ingress("coracle", published.clone()), &some), None);
        assert_eq!(plan(&ingress("coracle", published.clone()), &none), Some(json!([])));
        assert_eq!(plan(&ingress("coracle", Value::Null), &none), None);
        assert_eq!(plan(&ingress("nginx", published), &none), None);
    }
}
