//! Informer of NetworkPolicies, and of the pods and namespaces that these name as peers.
//!
//! It always watches NetworkPolicies. A cluster has many pods and namespaces, so it watches these only on demand: while
//! a policy that selects a pod of this node has selectors of peers, or named ports for egress ([`Demand`]). It stores
//! the latest snapshot. A kubelet that starts while no API server answers enforces the stored policies.

mod checkpoint;
mod confirmation;
mod list_guard;
mod objects;
mod snapshot;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apiserver::tasks::Tasks;
use client::{Delta, Kind, Scope, Versioned};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};

use self::checkpoint::PoliciesFile;
use self::snapshot::Informer;
use super::is_certificate_error;
use super::reflector::reflect;
use super::stored;
use crate::identity::{Api, ApiError, EventReporter};

pub use self::list_guard::ListGuards;
pub use self::snapshot::{ObjectName, PeerPod, PolicySnapshot};

/// If the API server does not show a kind to this node, the kubelet lists it again after this time. An API server of
/// this project shows pods to a node once it knows that the node has a pod with policies.
const LIST_RETRY: Duration = Duration::from_secs(5);
/// After so many denials in a row, the API server is not expected to show the kind soon.
const MAX_FAST_RETRIES: u32 = 6;
/// The delay of further lists. A new role may allow them by then.
const SLOW_LIST_RETRY: Duration = Duration::from_secs(60);
/// How long pods and namespaces are watched after the last policy that needs them. Pods of jobs come and go, and a new
/// list of all pods costs the API server more than the watch.
const PEERS_LINGER: Duration = Duration::from_secs(600);

type Apis = watch::Receiver<Option<Arc<Api>>>;

/// Whether the peers of policies must be known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Demand {
    /// No policy that selects a pod of this node depends on other pods.
    #[default]
    Policies,
    /// Pods and namespaces must be known too.
    Peers,
}

/// What connects the informer with the enforcement of policies.
#[derive(Debug)]
pub struct Outputs {
    /// Receives the snapshots.
    pub snapshots: watch::Sender<Arc<PolicySnapshot>>,
    /// What must be known.
    pub demand: watch::Receiver<Demand>,
}

/// State shared by the reflectors and the publisher.
#[derive(Debug, Default)]
struct Shared {
    informer: Mutex<Informer>,
    changed: Notify,
    /// The number of lists that were received.
    lists: watch::Sender<u64>,
    /// Whether the stored snapshot is restored, or there is none. A list before that could not be compared with it.
    is_restored: watch::Sender<bool>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Informer> {
        self.informer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply<T>(&self, change: impl FnOnce(&mut Informer) -> T) -> T {
        let (result, received) = {
            let mut informer = self.lock();
            (change(&mut informer), informer.lists_received())
        };
        self.lists.send_if_modified(|known| std::mem::replace(known, received) != received);
        self.changed.notify_one();
        result
    }

    fn snapshot(&self) -> PolicySnapshot {
        self.lock().snapshot()
    }

    async fn restored(&self) {
        // The sender lives as long as this value.
        let _ = self.is_restored.subscribe().wait_for(|is_restored| *is_restored).await;
    }
}

/// Starts the informer. The sender first receives the snapshot that is stored on disk.
pub fn start(
    node: &str,
    root_dir: &Path,
    apis: &Apis,
    outputs: Outputs,
    reporter: impl Fn() -> EventReporter,
    tasks: &mut Tasks,
) {
    let Outputs { snapshots, demand } = outputs;
    let shared = Arc::new(Shared::default());
    tasks.spawn("policy publisher", publish(shared.clone(), PoliciesFile::under(root_dir), snapshots));
    let confirming = confirmation::confirm(shared.clone(), apis.clone(), node.to_owned(), reporter());
    tasks.spawn("policy server confirmation", confirming);
    let (known, apis_of, mut warn) = (shared.clone(), apis.clone(), Reports::new(reporter()));
    tasks.spawn("policy reflector", async move {
        known.restored().await;
        let apply = |delta| known.apply(|informer| informer.apply_policies(delta));
        let forbid = || known.apply(Informer::forbid);
        follow(Kind::NETWORK_POLICY, apis_of, &mut warn, apply, forbid).await;
    });
    let (known, apis_of, warn, of_namespaces) =
        (shared.clone(), apis.clone(), Reports::new(reporter()), demand.clone());
    tasks.spawn("policy namespace reflector", async move {
        known.restored().await;
        let apply = |delta| known.apply(|informer| informer.apply_namespaces(delta));
        let forget = || known.apply(Informer::forget_namespaces);
        follow_on_demand(Kind::NAMESPACE, apis_of, of_namespaces, warn, apply, forget).await;
    });
    let (apis_of, warn) = (apis.clone(), Reports::new(reporter()));
    tasks.spawn("policy pod reflector", async move {
        shared.restored().await;
        let apply = |delta| shared.apply(|informer| informer.apply_pods(delta));
        let forget = || shared.apply(Informer::forget_pods);
        follow_on_demand(Kind::POD, apis_of, demand, warn, apply, forget).await;
    });
}

/// Publishes the stored snapshot, then each one of the informer.
async fn publish(shared: Arc<Shared>, file: PoliciesFile, sender: watch::Sender<Arc<PolicySnapshot>>) {
    if let Some(stored) = file.read().await {
        shared.apply(|informer| informer.restore(&stored));
        sender.send_replace(Arc::new(stored));
    }
    shared.is_restored.send_replace(true);
    let write = file.write(sender.subscribe());
    tokio::select! {
        () = write => {}
        () = stored::publish(&shared.changed, || shared.snapshot(), &sender) => {}
    }
}

/// Events about kinds that cannot be watched.
struct Reports {
    reporter: EventReporter,
    /// The number of lists in a row that the API server did not allow.
    denials: u32,
}

impl Reports {
    fn new(reporter: EventReporter) -> Self {
        Self { reporter, denials: 0 }
    }

    fn failed(&mut self, name: &str, error: &ApiError) {
        if !is_certificate_error(error) {
            let text = format!(
                "cannot watch {name} of the cluster: {error}; the last known NetworkPolicies stay in force"
            );
            self.reporter.warn("NetworkPolicyWatchFailed", text, Timestamp::now());
        }
    }

    /// The first denial is not reported: the API server may not know yet that a pod with policies runs here.
    fn denied(&mut self, name: &str, error: &ApiError) {
        self.denials = self.denials.saturating_add(1);
        if self.denials < 2 {
            return;
        }
        let effect = match name {
            "pods" | "namespaces" => "selectors of peers match pods of this node only",
            _ => "NetworkPolicies are not enforced here",
        };
        let text = format!(
            "the API server does not let this node list {name} ({error}), so {effect}. Allow it by a ClusterRole with \
             the verbs list and watch for networkpolicies.networking.k8s.io, namespaces and pods, bound to the group \
             system:nodes"
        );
        self.reporter.warn("NetworkPoliciesNotListed", text, Timestamp::now());
    }
}

/// Lists and watches one kind while there is demand for peers.
async fn follow_on_demand<T: DeserializeOwned + Versioned + Send + Sync>(
    kind: Kind,
    apis: Apis,
    mut demand: watch::Receiver<Demand>,
    mut reports: Reports,
    mut apply: impl FnMut(Delta<T>) + Send,
    forget: impl Fn() + Send,
) {
    loop {
        if demand.wait_for(|demand| *demand == Demand::Peers).await.is_err() {
            return;
        }
        reports.denials = 0;
        let has_ended = tokio::select! {
            () = follow(kind.clone(), apis.clone(), &mut reports, &mut apply, || {}) => return,
            has_ended = unneeded(demand.clone()) => has_ended,
        };
        if !has_ended {
            return;
        }
        forget();
    }
}

/// Waits until peers have not been needed for [`PEERS_LINGER`]. Returns false if the kubelet stops.
async fn unneeded(mut demand: watch::Receiver<Demand>) -> bool {
    loop {
        if demand.wait_for(|demand| *demand != Demand::Peers).await.is_err() {
            return false;
        }
        let again = demand.wait_for(|demand| *demand == Demand::Peers);
        match tokio::time::timeout(PEERS_LINGER, again).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return false,
            Err(_) => return true,
        }
    }
}

/// Lists and watches one kind until the kubelet stops.
async fn follow<T: DeserializeOwned + Versioned + Send + Sync>(
    kind: Kind,
    apis: Apis,
    reports: &mut Reports,
    mut apply: impl FnMut(Delta<T>) + Send,
    forbid: impl Fn() + Send,
) {
    let (name, scope) = (kind.qualified(), Scope::default());
    loop {
        let on_error = |error: &ApiError| reports.failed(&name, error);
        let is_listed = AtomicBool::new(false);
        let mut handle = |delta| {
            is_listed.store(true, Ordering::Relaxed);
            apply(delta);
        };
        let Some(error) = reflect(apis.clone(), kind.clone(), &scope, &mut handle, on_error).await else {
            return;
        };
        if is_listed.load(Ordering::Relaxed) {
            reports.denials = 0;
        }
        forbid();
        reports.denied(&name, &error);
        tokio::time::sleep(list_retry(reports.denials)).await;
    }
}

/// The delay after so many denials in a row.
fn list_retry(denials: u32) -> Duration {
    if denials <= MAX_FAST_RETRIES { LIST_RETRY } else { SLOW_LIST_RETRY }
}
