//! The node lease. The kubelet renews it as its heartbeat, detects another machine with the same node name, and
//! reports outages of the API server.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use client::backoff::random_share;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::lease_holder::{self, Holder, INSTANCE, Observed};
use super::{NODES, is_certificate_error};
use crate::identity::{Api, ApiError, EventReporter, backoff_delay};

/// The API path of node leases.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// Duration of the lease in seconds, the stock `nodeLeaseDurationSeconds`.
pub(super) const LEASE_DURATION_SECONDS: u64 = 40;
/// Renewal interval: a quarter of the lease duration.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// How long the rest of the kubelet waits for the first renewal before it uses the API.
const GRANT_TIMEOUT: Duration = Duration::from_secs(2);

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewed {
    /// This kubelet renewed the lease.
    BySelf,
    /// Another machine holds the lease of this node name.
    ByOther,
}

/// An outage of the API server, measured by failed lease renewals.
#[derive(Debug, Default)]
pub(super) struct Outage {
    since: Option<Instant>,
    failures: u32,
}

impl Outage {
    /// Records a failed renewal.
    pub fn fails(&mut self, now: Instant) {
        self.since.get_or_insert(now);
        self.failures = self.failures.saturating_add(1);
    }

    /// Records a successful renewal. Returns the length of the outage if more than one renewal had failed.
    pub fn recovers(&mut self, now: Instant) -> Option<Duration> {
        let Self { since, failures } = std::mem::take(self);
        since.filter(|_| failures > 1).map(|since| now.saturating_duration_since(since))
    }
}

/// Renews the node lease. Grants the rest of the kubelet access to the API while this kubelet holds the lease.
pub(super) struct NodeLease {
    /// The node's name.
    pub node: String,
    /// The identity of this kubelet; see [`lease_holder::instance`]. If it is `None`, the holder of the lease is
    /// not checked.
    pub instance: Option<String>,
    /// The client of the API server.
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    /// The client for all tasks that act as the node, or `None` while another machine holds the lease.
    pub granted: watch::Sender<Option<Arc<Api>>>,
    /// Writes log lines and records events.
    pub reporter: EventReporter,
}

/// State that is kept between renewals.
#[derive(Debug, Default)]
struct LeaseState {
    /// The `resourceVersion` that this kubelet wrote last. The next renewal replaces that version.
    version: Option<String>,
    /// The lease of another kubelet, as it was last observed.
    observed: Option<Observed>,
    /// Whether another machine held the lease at the last renewal.
    is_lost: bool,
}

impl NodeLease {
    /// Renews the lease until the kubelet stops.
    pub async fn run(mut self) {
        let (mut failures, mut outage, mut state) = (0_u32, Outage::default(), LeaseState::default());
        loop {
            let api = self.apis.borrow_and_update().clone();
            let Some(api) = api else {
                self.granted.send_replace(None);
                if self.apis.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let renewed = {
                let mut renewing = pin!(self.renew(&api, &mut state));
                match timeout(GRANT_TIMEOUT, &mut renewing).await {
                    Ok(renewed) => renewed,
                    Err(_) => {
                        // A timeout is no evidence that another machine holds the lease.
                        self.grant(&api);
                        renewing.await
                    }
                }
            };
            if !matches!(renewed, Ok(Renewed::ByOther)) {
                self.grant(&api);
            }
            let pause = match renewed {
                Ok(Renewed::ByOther) => {
                    self.granted.send_replace(None);
                    state.is_lost = true;
                    let object = api.get(&format!("{NODES}/{}", self.node)).await.ok();
                    let text = lease_holder::conflict_message(&self.node, object.as_ref());
                    self.reporter.name_conflict(Some(text.clone()));
                    self.reporter.warn("NodeNameInUse", text, Timestamp::now());
                    RENEW_INTERVAL
                }
                Ok(Renewed::BySelf) => {
                    failures = 0;
                    if std::mem::take(&mut state.is_lost) {
                        let text = format!(
                            "this machine uses the node name {} again: no other machine renews the lease of the \
                             node",
                            self.node
                        );
                        self.reporter.name_conflict(None);
                        self.reporter.info("NodeNameFree", text);
                    }
                    if let Some(length) = outage.recovers(Instant::now()) {
                        self.report_recovery(length);
                    }
                    RENEW_INTERVAL
                }
                Err(error) => {
                    if is_outage(&error) {
                        outage.fails(Instant::now());
                    }
                    self.report_error(&error, failures);
                    let pause = backoff_delay(failures, random_share()).min(RENEW_INTERVAL);
                    failures = failures.saturating_add(1);
                    pause
                }
            };
            tokio::select! {
                changed = self.apis.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Grants API access to all tasks that act as the node.
    fn grant(&self, api: &Arc<Api>) {
        self.granted.send_if_modified(|granted| {
            let is_same = granted.as_ref().is_some_and(|granted| Arc::ptr_eq(granted, api));
            *granted = Some(api.clone());
            !is_same
        });
    }

    async fn renew(&self, api: &Api, state: &mut LeaseState) -> Result<Renewed, ApiError> {
        let mut renewed = self.renew_once(api, state).await;
        // Another client changed the lease, perhaps another machine that took it.
        if renewed.as_ref().is_err_and(|error| error.has_code(409)) {
            renewed = self.renew_once(api, state).await;
        }
        renewed
    }

    async fn renew_once(&self, api: &Api, state: &mut LeaseState) -> Result<Renewed, ApiError> {
        let path = format!("{LEASES}/{}", self.node);
        if state.version.is_none() {
            let lease = match api.get(&path).await {
                Ok(lease) => lease,
                Err(error) if error.has_code(404) => return self.create(api, state).await,
                Err(error) => return Err(error),
            };
            if let Some(instance) = &self.instance
                && lease_holder::holder(
                    &lease,
                    instance,
                    &mut state.observed,
                    (Timestamp::now(), Instant::now()),
                ) == Holder::Other
            {
                return Ok(Renewed::ByOther);
            }
            state.version = version(&lease);
        }
        let mut metadata = json!({"resourceVersion": state.version});
        if let Some(instance) = &self.instance {
            metadata["annotations"] = json!({INSTANCE: instance});
        }
        let patch = json!({"metadata": metadata, "spec": spec(&self.node, Timestamp::now())});
        match api.patch(&path, &patch).await {
            Ok(lease) => {
                state.version = version(&lease);
                Ok(Renewed::BySelf)
            }
            Err(error) => {
                // Another client wrote the lease, or the response was lost: the next renewal reads it first.
                state.version = None;
                if error.has_code(404) {
                    return self.create(api, state).await;
                }
                Err(error)
            }
        }
    }

    async fn create(&self, api: &Api, state: &mut LeaseState) -> Result<Renewed, ApiError> {
        // The Node is the owner of the lease. The registration creates the Node, and uses the client that this task
        // grants.
        let node = api.get(&format!("{NODES}/{}", self.node)).await?;
        let mut lease = new_lease(&node, &spec(&self.node, Timestamp::now()));
        if let Some(instance) = &self.instance {
            lease["metadata"]["annotations"] = json!({INSTANCE: instance});
        }
        state.version = version(&api.post(LEASES, &lease).await?);
        Ok(Renewed::BySelf)
    }

    /// Reports that the API server answers again.
    fn report_recovery(&self, length: Duration) {
        let text = format!(
            "the API server is reachable again after {} s; pending statuses and events are sent now",
            length.as_secs()
        );
        self.reporter.info("APIServerReachable", text);
    }

    fn report_error(&mut self, error: &ApiError, failures: u32) {
        // A new Node appears within moments. An unreachable API server is reported by the reflectors.
        let is_passing = error.has_code(404) && failures < 4 || matches!(error, ApiError::Unreachable { .. });
        if !is_passing && !is_certificate_error(error) {
            let text = format!(
                "cannot renew the node's lease, so the cluster may consider the node lost: {error}; the kubelet retries"
            );
            self.reporter.warn("LeaseNotRenewed", text, Timestamp::now());
        }
    }
}

/// Whether the error shows an outage: no server answers, or the storage of the server fails.
fn is_outage(error: &ApiError) -> bool {
    match error {
        ApiError::Unreachable { .. } => true,
        ApiError::Rejected { code, .. } => *code >= 500,
        ApiError::PinMismatch { .. }
        | ApiError::OtherCluster { .. }
        | ApiError::ClockSkew { .. }
        | ApiError::NameMismatch { .. }
        | ApiError::NotMaster { .. }
        | ApiError::KubeconfigMissing { .. }
        | ApiError::TooLarge { .. }
        | ApiError::Invalid { .. } => false,
    }
}

/// The `resourceVersion` of an object.
fn version(object: &Value) -> Option<String> {
    object["metadata"]["resourceVersion"].as_str().map(str::to_owned)
}

/// The `spec` of a lease that is renewed at `now`.
fn spec(node: &str, now: Timestamp) -> Value {
    json!({"holderIdentity": node, "leaseDurationSeconds": LEASE_DURATION_SECONDS, "renewTime": MicroTime(now)})
}

/// Creates a Lease whose owner is the Node, so that it is garbage-collected with the Node.
fn new_lease(node: &Value, spec: &Value) -> Value {
    let metadata = &node["metadata"];
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]});
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": metadata["name"], "namespace": "kube-node-lease", "ownerReferences": [owner]},
        "spec": spec,
    })
}
