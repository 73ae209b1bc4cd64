//! Nodes are told whether they are trusted, whenever what decides that changes: what is noted of them, or the mode of the master.

use async_trait::async_trait;
use jiff::Timestamp;

use super::agenda::Next;
use super::client::{Client, Error, Kind};
use super::queue::{Controller, Queue};
use super::world::Change;
use crate::options::NodeAdmission;
use crate::trust;

/// Its name in `--controllers`.
pub const NAME: &str = "node-trust-controller";
/// What of a Node decides, and what is written of it: of heartbeats nobody needs to hear.
const HEARD: [&str; 2] = ["/metadata/annotations", "/spec/taints"];

/// The controller.
#[derive(Debug)]
pub struct Trust {
    client: Client,
    wanted: NodeAdmission,
}

impl Trust {
    /// Tells nodes by that mode.
    pub fn new(client: Client, wanted: NodeAdmission) -> Self {
        Self { client, wanted }
    }
}

#[async_trait]
impl Controller for Trust {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        let Some(now) = change.now.as_ref().filter(|_| change.kind.is(&Kind::NODE)) else { return };
        let is_same =
            |before: &super::Object| HEARD.iter().all(|field| before.kept(field) == now.kept(field));
        if !change.before.as_deref().is_some_and(is_same) {
            queue.add(&now.name);
        }
    }

    async fn look(&self, name: &str, _: &Queue) -> Result<Next, Error> {
        let Some(mut node) = self.client.find(&Kind::NODE, "", name).await? else { return Ok(Next::Change) };
        let Some(found) = trust::judge(&self.wanted, &node) else { return Ok(Next::Change) };
        let was_tainted = trust::is_tainted(&node);
        if !trust::settle(&mut node, &found, Timestamp::now()) {
            return Ok(Next::Change);
        }
        tracing::info!(
            node = name,
            trusted = found.holds,
            why = found.message,
            "a node is told whether it is trusted"
        );
        if was_tainted == found.holds {
            let status = node.get("status").cloned();
            // The spec is written alone, and tells the version that the status goes with.
            node = self.client.update(&Kind::NODE, "", node).await?;
            node.extend(status.map(|status| ("status".to_owned(), status)));
        }
        self.client.update(&Kind::NODE, "status", node).await?;
        Ok(Next::Change)
    }
}
