//! Nodes without a range for their pods get one: those of before there were any to give, and those that came when none was left.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::agenda::Next;
use super::client::{Client, Error, Json, Kind};
use super::object::{Object, at};
use super::queue::{Controller, Queue};
use super::world::{Change, World};

/// Its name in `--controllers`, that of the stock one.
pub const NAME: &str = "node-ipam-controller";
/// A Node that got nothing is tried again after so long, unless another one goes before.
const AGAIN: Duration = Duration::from_secs(5 * 60);
/// Where events about Nodes go.
const EVENTS: &str = "default";

/// The controller.
#[derive(Debug)]
pub struct Ranges {
    client: Client,
    world: World,
}

impl Ranges {
    /// Looks after the Nodes of that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world }
    }

    /// Says that there is nothing left; the same event for as long as it is so.
    async fn tell(&self, node: &Json) {
        let event = unavailable(node, Timestamp::now());
        match self.client.create(&Kind::EVENT, EVENTS, event).await {
            Ok(_) => {
                let node = name(node);
                tracing::warn!(
                    node,
                    "no range of --cluster-cidr is left for the pods of a node: remove Nodes that are gone for good, or widen it"
                );
            }
            Err(error) if error.exists() => {}
            Err(error) => tracing::debug!(%error, "cannot tell of a node without range"),
        }
    }
}

/// Whether the pods of a Node have no range, and it is here to stay.
fn lacks(node: &Object) -> bool {
    let range = node.kept("/spec/podCIDR").and_then(Value::as_str).unwrap_or_default();
    range.is_empty() && !node.is_ending
}

#[async_trait]
impl Controller for Ranges {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        if !change.kind.is(&Kind::NODE) {
            return;
        }
        match (&change.before, &change.now) {
            (_, Some(now)) if lacks(now) && !change.before.as_deref().is_some_and(lacks) => {
                queue.add(&now.name)
            }
            // What it had is free.
            (Some(before), None) if !lacks(before) => {
                let waiting = self.world.list(&Kind::NODE, "");
                waiting.iter().filter(|node| lacks(node)).for_each(|node| queue.add(&node.name));
            }
            _ => {}
        }
    }

    async fn look(&self, name: &str, _: &Queue) -> Result<Next, Error> {
        let Some(node) = self.client.find(&Kind::NODE, "", name).await? else { return Ok(Next::Change) };
        if !lacks(&Object::keeping(&["spec.podCIDR"], &node)) {
            return Ok(Next::Change);
        }
        // Whoever writes a Node without range gives it one; see `admission::pod_ranges`.
        let written = self.client.update(&Kind::NODE, "", node).await?;
        if !lacks(&Object::keeping(&["spec.podCIDR"], &written)) {
            return Ok(Next::Change);
        }
        self.tell(&written).await;
        Ok(Next::In(AGAIN))
    }
}

fn name(node: &Json) -> &str {
    at(node, "/metadata/name").and_then(Value::as_str).unwrap_or_default()
}

/// The event that the stock controller writes, of a name that is the same the next time.
fn unavailable(node: &Json, now: Timestamp) -> Value {
    let name = name(node);
    let now = api::time::seconds(now);
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": format!("{name}.cidr-not-available"), "namespace": EVENTS},
        // As all who tell of nodes do.
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
