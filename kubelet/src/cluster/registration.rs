//! Registers the Node object, adopts an existing one, updates its status, repairs changes by other clients, and
//! creates the Node again if it is deleted.

use std::sync::Arc;
use std::time::Duration;

use api::resources::ResourceList;
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Map, Value};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::{NODES, is_certificate_error, node};
use crate::identity::{Api, ApiError, EventReporter};
use crate::network::Members;

/// How often the status is written if nothing has changed; the stock `nodeStatusReportFrequency`.
const STATUS_REPORT_FREQUENCY: Duration = Duration::from_secs(5 * 60);
/// Shortest time between two repairs of changes by other clients; the stock `nodeStatusUpdateFrequency`. Without
/// it, two clients that disagree would write all the time.
const MIN_REPAIR_INTERVAL: Duration = Duration::from_secs(10);
/// Age from which the known Node is read again before a write; the stock `nodeLeaseDurationSeconds`. The node
/// controller changes a Node whose lease has expired, and the watch may not show that.
const MAX_AGE: Duration = Duration::from_secs(40);
/// Changes within this time are written together.
const SETTLE_DELAY: Duration = Duration::from_millis(200);
/// Longest `Retry-After` that the kubelet honours.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// The task that maintains the Node.
pub struct NodeRegistration {
    /// The node's name.
    pub node: String,
    /// The pod CIDRs of `--pod-cidr`; empty without the flag.
    pub wanted: Vec<IpNet>,
    /// The pod CIDRs that the node selected itself.
    pub chosen: Vec<IpNet>,
    /// The cluster membership, with the pod CIDRs that the cluster assigned to this node.
    pub members: watch::Receiver<Option<Arc<Members>>>,
    /// The client of the API server.
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    /// The Node as this kubelet would write it.
    pub shown: watch::Receiver<Arc<Map<String, Value>>>,
    /// Notified when the API server has no Node for this node.
    pub missing: Arc<Notify>,
    /// The `resourceVersion` of the Node that the watch showed last; empty if it has shown none.
    pub version: watch::Receiver<String>,
    /// Receives the extended resources that the Node has as allocatable.
    pub extended: watch::Sender<ResourceList>,
    /// Records log lines and events.
    pub reporter: EventReporter,
}

/// The Node as the API server returned it last.
#[derive(Debug)]
struct KnownNode {
    object: Value,
    /// When the kubelet last read or wrote the Node.
    read_at: Instant,
    /// When the next status report is due.
    heartbeat_due: Instant,
}

impl KnownNode {
    /// Whether the watch showed another version than the known one.
    fn is_outdated(&self, shown: &str) -> bool {
        !shown.is_empty() && self.object["metadata"]["resourceVersion"] != shown
    }
}

impl NodeRegistration {
    /// Maintains the Node until the kubelet stops.
    pub async fn run(mut self) {
        let mut known: Option<KnownNode> = None;
        let mut backoff = Backoff::with_max_retry_after(MAX_RETRY_AFTER);
        loop {
            let api = self.apis.borrow_and_update().clone();
            let shown = self.shown.borrow_and_update().clone();
            let Some(api) = api.filter(|_| node::is_complete(&shown)) else {
                tokio::select! {
                    changed = self.apis.changed() => if changed.is_err() { return },
                    changed = self.shown.changed() => if changed.is_err() { return },
                }
                continue;
            };
            match self.sync(&api, &shown, known.take()).await {
                Ok(node) => {
                    backoff.reset();
                    known = self.wait(node).await;
                }
                Err(error) => {
                    self.report_error(&error, backoff.failures());
                    if backoff.wait(&error, &mut self.apis).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Writes the differences, and returns the Node as it is known afterwards.
    async fn sync(
        &mut self,
        api: &Api,
        shown: &Map<String, Value>,
        known: Option<KnownNode>,
    ) -> Result<KnownNode, ApiError> {
        let path = format!("{NODES}/{}", self.node);
        let (mut object, read_at, heartbeat_due) = match known {
            Some(known)
                if known.read_at.elapsed() < MAX_AGE && !known.is_outdated(&self.version.borrow()) =>
            {
                (known.object, known.read_at, known.heartbeat_due)
            }
            Some(known) => (api.get(&path).await?, Instant::now(), known.heartbeat_due),
            // After a restart, the whole status is compared at once.
            None => (self.create_or_get(api, &path, shown).await?, Instant::now(), Instant::now()),
        };
        if let Some(metadata) = node::metadata_patch(shown, &object) {
            object = api.patch(&path, &metadata).await?;
        }
        let now = Instant::now();
        let known = match node::status_patch(shown, &object, now >= heartbeat_due, Timestamp::now()) {
            Some(status) => {
                let object = api.patch(&format!("{path}/status"), &status).await?;
                KnownNode { object, read_at: now, heartbeat_due: now + STATUS_REPORT_FREQUENCY }
            }
            None => KnownNode { object, read_at, heartbeat_due },
        };
        let extended = node::extended(&known.object);
        self.extended.send_if_modified(|before| std::mem::replace(before, extended.clone()) != extended);
        Ok(known)
    }

    /// Creates the Node, or reads the existing one. The create request comes first. If the Node exists, the server
    /// answers it with 409.
    async fn create_or_get(
        &mut self,
        api: &Api,
        path: &str,
        shown: &Map<String, Value>,
    ) -> Result<Value, ApiError> {
        match api.post(NODES, &node::new_node(shown, &self.requested_pod_cidrs())).await {
            Ok(created) => {
                let range = created["spec"]["podCIDR"].as_str();
                let range = range.map_or_else(String::new, |range| format!(", its pod CIDR is {range}"));
                let text = format!("node {} is registered at {}{range}", self.node, api.server());
                self.reporter.info("NodeRegistered", text);
                Ok(created)
            }
            Err(error) if error.has_code(409) => api.get(path).await,
            Err(error) => Err(error),
        }
    }

    /// The pod CIDRs to request: those of `--pod-cidr`, otherwise those that the cluster assigned before, otherwise
    /// those that the node selected. Pods keep their addresses when the Node is deleted or the API server loses it,
    /// so the assigned CIDRs stay in use.
    fn requested_pod_cidrs(&self) -> Vec<IpNet> {
        if !self.wanted.is_empty() {
            return self.wanted.clone();
        }
        let assigned = self.members.borrow().as_ref().map(|members| members.own.clone()).unwrap_or_default();
        if assigned.is_empty() { self.chosen.clone() } else { assigned }
    }

    /// Waits until something may have to be written. Returns the known Node, or `None` if it must be read again.
    async fn wait(&mut self, known: KnownNode) -> Option<KnownNode> {
        tokio::select! {
            // The sender lives as long as the kubelet; if it is dropped, nothing changes any more.
            changed = self.shown.changed() => if changed.is_err() { std::future::pending::<()>().await },
            // The new client may lead to another cluster.
            _ = self.apis.changed() => return None,
            () = self.missing.notified() => return None,
            () = wait_until_outdated(&mut self.version, &known) => return Some(known),
            () = tokio::time::sleep_until(known.heartbeat_due) => {}
        }
        tokio::time::sleep(SETTLE_DELAY).await;
        Some(known)
    }

    /// Reports an error that may require an action by an operator.
    fn report_error(&mut self, error: &ApiError, failures: u32) {
        // A short outage is not reported here, and certificate errors are reported by the certificate manager.
        let is_away = matches!(error, ApiError::Unreachable { .. }) && failures == 0;
        // A Node that was deleted during the write is created again.
        let is_gone = error.has_code(404) && failures == 0;
        if is_away || is_gone || is_certificate_error(error) {
            return;
        }
        let remedy = match error {
            ApiError::Rejected { code: 403, .. } if !error.has_remedy() => {
                "; allow the node there (docs/joining.md, \"Registered, ready, trusted\"); the kubelet retries"
            }
            _ => "",
        };
        let node = &self.node;
        let text = format!("cannot register node {node}: {error}{remedy}; its static pods keep running");
        self.reporter.warn("NodeNotRegistered", text, Timestamp::now());
    }
}

/// Waits until the watch shows another version than the known one and a repair is allowed.
async fn wait_until_outdated(version: &mut watch::Receiver<String>, known: &KnownNode) {
    loop {
        if version.wait_for(|shown| known.is_outdated(shown)).await.is_err() {
            return std::future::pending().await;
        }
        // The watch may still show versions from before the kubelet's own write.
        tokio::time::sleep(SETTLE_DELAY).await;
        tokio::time::sleep_until(known.read_at + MIN_REPAIR_INTERVAL).await;
        if known.is_outdated(&version.borrow()) {
            return;
        }
    }
}
