//! The node's heartbeat: a lease of its own that it renews, as the stock kubelet does. Who renews it notices first that a master which was
//! away is back.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{NODES, is_told_elsewhere};
use crate::identity::{Api, Trouble, Voice, back_off, chance};

/// Where the leases of nodes are.
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
/// How long one holds: the stock `nodeLeaseDurationSeconds`.
const LASTS_SECONDS: u64 = 40;
/// It is renewed so often: a quarter of that.
const EVERY: Duration = Duration::from_secs(10);

/// How long the master has been away, as far as the renewals of the lease tell.
#[derive(Debug, Default)]
pub(super) struct Absence {
    since: Option<Instant>,
    failures: u32,
}

impl Absence {
    /// A renewal did not arrive.
    pub fn goes_on(&mut self, now: Instant) {
        self.since.get_or_insert(now);
        self.failures = self.failures.saturating_add(1);
    }

    /// A renewal did: how long none had, where that was not for a moment.
    pub fn ends(&mut self, now: Instant) -> Option<Duration> {
        let Self { since, failures } = std::mem::take(self);
        since.filter(|_| failures > 1).map(|since| now.saturating_duration_since(since))
    }
}

/// Who renews it.
pub(super) struct Lease {
    /// The node's name.
    pub node: String,
    /// Whom to tell.
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    /// Who tells people.
    pub voice: Voice,
}

impl Lease {
    /// Renews it for as long as the kubelet runs.
    pub async fn run(mut self) {
        let (mut failures, mut absence) = (0_u32, Absence::default());
        loop {
            let api = self.apis.borrow_and_update().clone();
            let Some(api) = api else {
                if self.apis.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let pause = match self.renew(&api).await {
                Ok(()) => {
                    failures = 0;
                    if let Some(length) = absence.ends(Instant::now()) {
                        self.welcome(length);
                    }
                    EVERY
                }
                Err(trouble) => {
                    if is_of_absence(&trouble) {
                        absence.goes_on(Instant::now());
                    }
                    self.complain(&trouble, failures);
                    let pause = back_off(failures, chance()).min(EVERY);
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

    async fn renew(&self, api: &Api) -> Result<(), Trouble> {
        let spec = spec(&self.node, Timestamp::now());
        let renewed = api.patch(&format!("{LEASES}/{}", self.node), &json!({"spec": spec})).await;
        match renewed {
            Err(trouble) if trouble.is_code(404) => {
                let node = api.get(&format!("{NODES}/{}", self.node)).await?;
                api.post(LEASES, &made(&node, &spec)).await.map(drop)
            }
            other => other.map(drop),
        }
    }

    /// Whoever saw it go should see it come back.
    fn welcome(&self, length: Duration) {
        let text = format!(
            "the master is back: it had not been reached for {} s; it is told now what happened here meanwhile",
            length.as_secs()
        );
        self.voice.tell("MasterBack", text);
    }

    fn complain(&mut self, trouble: &Trouble, failures: u32) {
        // A node that is new is there in a moment, and a master that is away is told of by those who listen to it.
        let is_passing =
            trouble.is_code(404) && failures < 4 || matches!(trouble, Trouble::Unreachable { .. });
        if !is_passing && !is_told_elsewhere(trouble) {
            let text = format!(
                "the node's lease is not renewed, so that its cluster may take it for lost: {trouble}; trying again"
            );
            self.voice.warn("LeaseNotRenewed", text, Timestamp::now());
        }
    }
}

/// Whether nobody is there who could renew anything: no server, or one whose store does not answer.
fn is_of_absence(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Unreachable { .. } => true,
        Trouble::Refused { code, .. } => *code >= 500,
        Trouble::Pin { .. }
        | Trouble::OtherCluster { .. }
        | Trouble::Clock { .. }
        | Trouble::Name { .. }
        | Trouble::NoMaster { .. }
        | Trouble::Awaited { .. }
        | Trouble::Damaged { .. } => false,
    }
}

/// What it says at that moment.
fn spec(node: &str, now: Timestamp) -> Value {
    json!({"holderIdentity": node, "leaseDurationSeconds": LASTS_SECONDS, "renewTime": MicroTime(now)})
}

/// One that goes with its Node.
fn made(node: &Value, spec: &Value) -> Value {
    let metadata = &node["metadata"];
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]});
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": metadata["name"], "namespace": "kube-node-lease", "ownerReferences": [owner]},
        "spec": spec,
    })
}
