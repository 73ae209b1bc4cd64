//! The node IPAM controller: assigns pod CIDRs to Nodes that have none.

use std::time::Duration;

use async_trait::async_trait;
use client::{Client, Error, Kind};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::informers::{Change, SharedInformers};
use super::object::Object;
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};

/// The controller's stock name in `--controllers`.
pub const NAME: &str = "node-ipam-controller";
/// Retry interval after the CIDRs are exhausted. A deleted Node causes an earlier retry.
const RETRY_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// The namespace of events about Nodes.
const EVENT_NAMESPACE: &str = "default";

#[derive(Debug)]
pub struct NodeIpamController {
    client: Client,
    informers: SharedInformers,
}

impl NodeIpamController {
    /// Creates the controller. It manages the Nodes of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers }
    }

    /// Records that no pod CIDR is left. Writes the same event as long as this lasts.
    async fn record_exhausted(&self, node: &str) {
        let event = cidr_not_available_event(node, Timestamp::now());
        match self.client.create(&Kind::EVENT, EVENT_NAMESPACE, event).await {
            Ok(_) => {
                tracing::warn!(
                    node,
                    "no pod CIDR is left in --cluster-cidr for a node: delete Nodes that no longer exist, or enlarge --cluster-cidr"
                );
            }
            Err(error) if error.exists() => {}
            Err(error) => tracing::debug!(%error, "cannot record an event about a node without a pod CIDR"),
        }
    }
}

/// Whether a Node that is not being deleted lacks a pod CIDR.
fn needs_pod_cidr(node: &Object) -> bool {
    node.node().spec.pod_cidr.is_empty() && !node.is_terminating
}

#[async_trait]
impl Controller for NodeIpamController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if !change.kind.is(&Kind::NODE) {
            return;
        }
        match (&change.before, &change.now) {
            (_, Some(now))
                if needs_pod_cidr(now) && !change.before.as_deref().is_some_and(needs_pod_cidr) =>
            {
                queue.add(&now.name)
            }
            // The pod CIDR of the deleted Node is free.
            (Some(before), None) if !needs_pod_cidr(before) => {
                let waiting = self.informers.list(&Kind::NODE, "");
                waiting.iter().filter(|node| needs_pod_cidr(node)).for_each(|node| queue.add(&node.name));
            }
            _ => {}
        }
    }

    async fn reconcile(&self, name: &str, _: &WorkQueue) -> Result<Action, Error> {
        let Some(node) = self.client.find(&Kind::NODE, "", name).await? else {
            return Ok(Action::AwaitChange);
        };
        if !needs_pod_cidr(&Object::of(&self.client, &Kind::NODE, &node)?) {
            return Ok(Action::AwaitChange);
        }
        // Any write of a Node without a pod CIDR allocates one; see `admission::pod_cidrs`.
        let written = self.client.update(&Kind::NODE, "", node).await?;
        if !needs_pod_cidr(&Object::of(&self.client, &Kind::NODE, &written)?) {
            return Ok(Action::AwaitChange);
        }
        self.record_exhausted(name).await;
        Ok(Action::RequeueAfter(RETRY_INTERVAL))
    }
}

/// Returns the stock event, with a deterministic name.
fn cidr_not_available_event(name: &str, now: Timestamp) -> Value {
    let now = api::time::seconds(now);
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{name}.cidr-not-available"), "namespace": EVENT_NAMESPACE},
        // Events about nodes carry the node name as UID.
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": name, "uid": name},
        "type": "Normal",
        "reason": "CIDRNotAvailable",
        "message": format!(
            "Node {name} status is now: CIDRNotAvailable; no range of --cluster-cidr is left for its pods: remove Nodes that are gone \
             for good (kubectl delete node), or widen it"
        ),
        "source": {"component": "cidrAllocator"},
        "firstTimestamp": now, "lastTimestamp": now, "count": 1,
    })
}
