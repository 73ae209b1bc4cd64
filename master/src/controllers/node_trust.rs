//! The node trust controller: updates the trust condition and taint of Nodes when their annotations or the
//! registration mode change.

use async_trait::async_trait;
use client::{Client, Error, Kind};
use jiff::Timestamp;

use super::informers::Change;
use super::object::Object;
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use crate::options::NodeAdmission;
use crate::trust;

/// The controller's name in `--controllers`.
pub const NAME: &str = "node-trust-controller";

#[derive(Debug)]
pub struct NodeTrustController {
    client: Client,
    admission: NodeAdmission,
}

impl NodeTrustController {
    /// Creates the controller, with the registration mode that decides which Nodes are trusted.
    pub fn new(client: Client, admission: NodeAdmission) -> Self {
        Self { client, admission }
    }
}

#[async_trait]
impl Controller for NodeTrustController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(now) = change.now.as_ref().filter(|_| change.kind.is(&Kind::NODE)) else { return };
        // Heartbeats are ignored.
        let is_same = |before: &Object| {
            let (before, now) = (before.node(), now.node());
            before.metadata.annotations == now.metadata.annotations && before.spec.taints == now.spec.taints
        };
        if !change.before.as_deref().is_some_and(is_same) {
            queue.add(&now.name);
        }
    }

    async fn reconcile(&self, name: &str, _: &WorkQueue) -> Result<Action, Error> {
        let Some(mut node) = self.client.find(&Kind::NODE, "", name).await? else {
            return Ok(Action::AwaitChange);
        };
        let Some(found) = trust::evaluate(&self.admission, &node) else { return Ok(Action::AwaitChange) };
        let was_tainted = trust::is_tainted(&node);
        if !trust::apply(&mut node, &found, Timestamp::now()) {
            return Ok(Action::AwaitChange);
        }
        tracing::info!(
            node = name,
            trusted = found.holds,
            why = found.message,
            "updated the trust condition of a node"
        );
        if was_tainted == found.holds {
            let status = node.get("status").cloned();
            // The spec update returns the resource version for the status update.
            node = self.client.update(&Kind::NODE, "", node).await?;
            node.extend(status.map(|status| ("status".to_owned(), status)));
        }
        self.client.update(&Kind::NODE, "status", node).await?;
        Ok(Action::AwaitChange)
    }
}
