//! The API server as a pod source: the pods that it assigned to this node, the objects that they reference, their
//! status, and mirror pods of static pods.
//!
//! These modules are pure. `server_pod` parses a pod, `pod_store` decides which pods run here, and
//! `reference_cache` keeps the objects that they reference. `waiting` finds pods that wait long for such objects.
//! `status` computes status patches, `token_cache` and `claim_cache` decide when tokens and claims are requested, and
//! `mirror_pods` decides which mirror pods to write.
//!
//! `checkpoint` stores all of it on disk. `status_manager` writes statuses, `token_manager` requests tokens,
//! `claim_manager` reads claims with their volumes, and `mirror_client` writes mirror pods. `docs/cluster-node.md`
//! describes the rules for users.

mod checkpoint;
mod claim_cache;
mod claim_manager;
mod due_calls;
mod mirror_client;
mod mirror_pods;
mod pod_store;
mod reference_cache;
mod server_pod;
mod status;
mod status_manager;
#[cfg(test)]
mod tests;
mod token_cache;
mod token_manager;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use apiserver::auth::nodes::{self, Object};
use apiserver::tasks::{OwnedTask, Tasks};
use client::backoff::random_share;
use client::{Delta, Kind, Scope};
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use self::checkpoint::{Checkpoint, CheckpointDir};
use self::claim_manager::ClaimManager;
use self::mirror_client::MirrorClient;
use self::mirror_pods::MirrorPods;
use self::pod_store::PodStore;
pub(super) use self::pod_store::ServerState;
use self::reference_cache::{API_SERVICE, ReferenceCache};
pub(super) use self::server_pod::is_restored;
pub(super) use self::status::replace_list;
use self::status_manager::StatusManager;
use self::token_manager::TokenManager;
use self::waiting::WaitingPods;
use super::backoff::may_be_request_error;
use super::reflector::reflect;
use super::{NODES, is_certificate_error};
use crate::desired::{Desired, Snapshot};
use crate::identity::{Api, ApiError, EventReporter, backoff_delay};
use crate::observed::PodUid;
use crate::report::{About, Outbox, Reports, Severity};

/// If the API server does not show the pods to this node, the kubelet lists them again after this time. A new role
/// may allow it by then.
const RELIST_RETRY: Duration = Duration::from_secs(60);

/// Inputs and outputs of the pod source.
pub(super) struct Settings {
    /// The node's name.
    pub node: String,
    /// The kubelet's root directory, which holds the checkpoint.
    pub root_dir: PathBuf,
    /// The client of the API server.
    pub apis: watch::Receiver<Option<Arc<Api>>>,
    /// Receives the desired pods.
    pub snapshots: mpsc::Sender<Arc<Snapshot>>,
    /// Pod statuses to write to the API server.
    pub reports: Arc<Reports>,
    /// The desired pods of all sources. Those of local sources get mirror pods.
    pub desired: watch::Receiver<Arc<Desired>>,
    /// Records events of pods.
    pub outbox: Arc<Outbox>,
}

/// Access to the hashes of static pods, which serve as UIDs in their events.
pub(super) struct MirrorPodHashes(Arc<Shared>);

impl MirrorPodHashes {
    /// The hash of the static pod with the given UID.
    pub fn hash_of(&self, uid: &str) -> Option<String> {
        self.0.lock().mirror_pods.hash_of(uid).map(str::to_owned)
    }
}

/// Starts the tasks of the pod source.
pub(super) fn start(
    settings: Settings,
    reporter: impl Fn() -> EventReporter,
    tasks: &mut Tasks,
) -> MirrorPodHashes {
    let changed = watch::channel(()).0;
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            pod_store: PodStore::new(&settings.node),
            reference_cache: ReferenceCache::default(),
            mirror_pods: MirrorPods::default(),
            dirty: BTreeSet::new(),
        }),
        changed,
        relist: Notify::new(),
    });
    let Settings { node, root_dir, apis, snapshots, reports, desired, outbox } = settings;
    let token_manager = TokenManager { shared: shared.clone(), apis: apis.clone(), outbox: outbox.clone() };
    let mirror_client = MirrorClient {
        node: node.clone(),
        shared: shared.clone(),
        apis: apis.clone(),
        desired,
        outbox: outbox.clone(),
    };
    let status_manager = StatusManager {
        shared: shared.clone(),
        apis: apis.clone(),
        reports,
        reporter: reporter(),
        latest: BTreeMap::new(),
        due: BTreeSet::new(),
        attempted: BTreeMap::new(),
        lists_confirmed: 0,
    };
    let mirror_hashes = MirrorPodHashes(shared.clone());
    let source = ApiPodSource {
        node,
        shared,
        apis,
        snapshots,
        reporter: reporter(),
        outbox,
        waiting: WaitingPods::default(),
        has_unclaimed: false,
        checkpoints: watch::channel(Arc::default()).0,
        watch_tasks: BTreeMap::new(),
        published: None,
        failures: 0,
    };
    let list_reporter = reporter();
    let checkpoint_dir = CheckpointDir::under(&root_dir);
    tasks.spawn("API pod source", source.run(checkpoint_dir, status_manager, token_manager, list_reporter));
    tasks.spawn("mirror pod client", mirror_client.run());
    mirror_hashes
}

/// The state that the tasks share.
#[derive(Debug)]
struct State {
    pod_store: PodStore,
    reference_cache: ReferenceCache,
    mirror_pods: MirrorPods,
    /// Pods that changed since the status manager last handled them.
    dirty: BTreeSet<PodUid>,
}

/// The shared state, with notifications.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
    /// Notified if the pods must be listed again.
    relist: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, delta: Delta<Value>) {
        let mut state = self.lock();
        if let Delta::Applied(value) | Delta::Deleted(value) = &delta {
            let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            // A change of a mirror pod concerns its static pod.
            let own = state.mirror_pods.uid_of(text("/metadata/namespace"), text("/metadata/name")).cloned();
            state.dirty.extend(own);
            state.dirty.insert(PodUid::new(text("/metadata/uid")));
        }
        if !state.pod_store.apply(delta) {
            self.relist.notify_one();
        }
        drop(state);
        self.changed.send_replace(());
    }
}

/// Publishes snapshots of the pods that the API server assigned to this node.
struct ApiPodSource {
    node: String,
    shared: Arc<Shared>,
    apis: watch::Receiver<Option<Arc<Api>>>,
    snapshots: mpsc::Sender<Arc<Snapshot>>,
    reporter: EventReporter,
    outbox: Arc<Outbox>,
    waiting: WaitingPods,
    /// Whether this node runs a pod that a restored or replaced API server lacks.
    has_unclaimed: bool,
    checkpoints: watch::Sender<Arc<Checkpoint>>,
    watch_tasks: BTreeMap<Object, OwnedTask>,
    published: Option<Arc<Snapshot>>,
    failures: u32,
}

impl ApiPodSource {
    /// Restores the checkpoint, then publishes snapshots, and runs the tasks that need the restored pods.
    async fn run(
        self,
        checkpoint_dir: CheckpointDir,
        status_manager: StatusManager,
        token_manager: TokenManager,
        list_reporter: EventReporter,
    ) {
        let checkpoint = checkpoint_dir.read().await;
        let own = checkpoint.of(&self.node);
        let others = checkpoint.pods.len().saturating_sub(own.pods.len());
        if others > 0 {
            let node = &self.node;
            tracing::info!(
                node,
                pods = others,
                "ignoring checkpointed pods that were assigned to another node name"
            );
        }
        {
            let mut state = self.shared.lock();
            state.pod_store.restore(own.pods, own.server_state);
            state.reference_cache.restore(own.held);
        }
        let mut tasks = Tasks::default();
        tasks.spawn("pod checkpoint", checkpoint_dir.write(checkpoint, self.checkpoints.subscribe()));
        tasks.spawn("pod status manager", status_manager.run());
        tasks.spawn("token manager", token_manager.run());
        let claim_manager =
            ClaimManager { shared: self.shared.clone(), apis: self.apis.clone(), node: self.node.clone() };
        tasks.spawn("claim manager", claim_manager.run());
        let watch = watch_pods(self.shared.clone(), self.apis.clone(), self.node.clone(), list_reporter);
        tasks.spawn("watch of pods", watch);
        tasks.spawn("watch of the API service", watch_api_service(self.shared.clone(), self.apis.clone()));
        tokio::select! {
            () = self.publish_changes() => {}
            error = tasks.first_end() => tracing::error!(%error, "stopped watching the pods of the API server: a task failed"),
        }
    }

    /// Publishes a snapshot after each change, until the receiver is gone.
    async fn publish_changes(mut self) {
        let mut changed = self.shared.changed.subscribe();
        loop {
            let Some(is_unconfirmed) = self.publish().await else { return };
            let long = self.waiting.next();
            tokio::select! {
                changed = changed.changed() => if changed.is_err() { return },
                () = self.confirm_server(), if is_unconfirmed => {}
                () = sleep_until(long) => self.report_waiting(),
            }
        }
    }

    /// Reports that every assigned pod has ended or exists on the API server again.
    fn report_claimed(&mut self, has_unclaimed: bool) {
        if std::mem::replace(&mut self.has_unclaimed, has_unclaimed) && !has_unclaimed {
            let text = "the API server has all pods again that run here".to_owned();
            self.reporter.info_once("PodsFound", text, Timestamp::now());
        }
    }

    /// Publishes the current snapshot. Returns whether a list or a deletion is not confirmed yet. `None` if the
    /// receiver is gone.
    async fn publish(&mut self) -> Option<bool> {
        let (snapshot, checkpoint, references, is_unconfirmed, has_new_requests, has_unclaimed) = {
            let mut state = self.shared.lock();
            let State { pod_store, reference_cache, .. } = &mut *state;
            let references = pod_store.references();
            reference_cache.set_watched(&references);
            let has_new_requests = reference_cache.tokens.set_pods(pod_store.active_pods())
                | reference_cache.claims.set_pods(pod_store.active_pods());
            let snapshot = Arc::new(pod_store.snapshot(reference_cache));
            self.waiting.set_waiting(&snapshot.waiting, Instant::now());
            let checkpoint = Checkpoint {
                pods: pod_store.assigned().map(|(_, assigned)| assigned.persisted.clone()).collect(),
                held: reference_cache.held().cloned().collect(),
                server_state: pod_store.server_state().clone(),
            };
            let is_unconfirmed = pod_store.is_unconfirmed() || reference_cache.is_unconfirmed();
            (snapshot, checkpoint, references, is_unconfirmed, has_new_requests, pod_store.has_unclaimed())
        };
        self.report_claimed(has_unclaimed);
        if has_new_requests {
            self.shared.changed.send_replace(());
        }
        self.watch_tasks.retain(|object, _| references.contains(object));
        for object in references {
            let watch_tasks = self.watch_tasks.entry(object.clone());
            watch_tasks.or_insert_with(|| {
                let task = watch_object(self.shared.clone(), self.apis.clone(), object);
                OwnedTask::supervised("watch of a ConfigMap or Secret", task)
            });
        }
        self.checkpoints.send_replace(Arc::new(checkpoint));
        if !self.published.as_ref().is_some_and(|published| published.is_same(&snapshot)) {
            self.published = Some(snapshot.clone());
            self.snapshots.send(snapshot).await.ok()?;
        }
        Some(is_unconfirmed)
    }

    /// Records events for pods that wait long for referenced objects.
    fn report_waiting(&mut self) {
        let due = self.waiting.due(Instant::now());
        let state = self.shared.lock();
        for (pod, missing) in
            due.iter().filter_map(|uid| state.pod_store.waiting_pod(uid, &state.reference_cache))
        {
            let (reason, text) = waiting::event(pod, &missing);
            self.outbox.note(About::pod(pod), Severity::Warning, reason, text);
        }
    }

    /// Checks whether the API server that sent the list knows this node. Waits with backoff if the request fails.
    async fn confirm_server(&mut self) {
        let api = self.apis.borrow_and_update().clone();
        let lists_before = self.shared.lock().pod_store.lists_received();
        let found = match api {
            Some(api) => api.get(&format!("{NODES}/{}", self.node)).await,
            None => {
                // The sender of clients lives as long as this task.
                let _ = self.apis.changed().await;
                return;
            }
        };
        let uid = found.as_ref().ok().and_then(|node| node["metadata"]["uid"].as_str());
        let Some(uid) = uid else {
            if let Err(error) = &found {
                self.report_unconfirmed(error);
            }
            return self.back_off().await;
        };
        let missing = {
            let mut state = self.shared.lock();
            let State { pod_store, reference_cache, dirty, .. } = &mut *state;
            if pod_store.lists_received() != lists_before {
                // A newer list has arrived, which this answer does not confirm.
                return;
            }
            let missing = pod_store.confirm(uid);
            let is_known = pod_store.server_state().node_uid.as_deref() == Some(uid);
            if is_known {
                reference_cache.confirm(&pod_store.unclaimed_references());
            }
            dirty.extend(pod_store.server_uids().cloned());
            is_known.then_some(missing)
        };
        // Without a match, the API server lost data, and its pods have not been listed yet.
        let Some(missing) = missing else { return self.back_off().await };
        self.failures = 0;
        self.shared.changed.send_replace(());
        if !missing.is_empty() {
            let names: Vec<String> = missing.iter().map(ToString::to_string).collect();
            let text = format!(
                "the API server was restored or replaced, or the Node was deleted: it lacks pods that run here: {}. They run \
                 on. Create them again, or see docs/cluster-node.md to end them",
                names.join(", ")
            );
            self.reporter.warn("PodsMissing", text, Timestamp::now());
        }
    }

    async fn back_off(&mut self) {
        let back_off = backoff_delay(self.failures, random_share());
        self.failures = self.failures.saturating_add(1);
        tokio::time::sleep(back_off).await;
    }

    fn report_unconfirmed(&mut self, error: &ApiError) {
        // A Node that is new or being created again appears within moments.
        if self.failures > 1 && !is_certificate_error(error) && !matches!(error, ApiError::Unreachable { .. })
        {
            let text = format!(
                "the API server does not know this node ({error}), so its list of pods is ignored; running pods go on"
            );
            self.reporter.warn("NodeUnknownToAPIServer", text, Timestamp::now());
        }
    }
}

/// Sleeps until `moment`. If it is `None`, sleeps forever.
async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Watches all pods of the node. It reports only errors of the list; `cluster` reports a server that does not
/// answer.
async fn watch_pods(
    shared: Arc<Shared>,
    apis: watch::Receiver<Option<Arc<Api>>>,
    node: String,
    reporter: EventReporter,
) {
    let scope = Scope::fields(&format!("spec.nodeName={node}"));
    let (reporter, is_reported) = (Mutex::new(reporter), AtomicBool::new(false));
    let reporter = || reporter.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let mut apply = |delta| {
            if matches!(delta, Delta::Replaced(..)) && is_reported.swap(false, Ordering::Relaxed) {
                let text = "the API server lists the pods of this node again".to_owned();
                reporter().info("PodsListed", text);
            }
            shared.apply(delta);
        };
        let on_error = |error: &ApiError| {
            if may_be_request_error(error) {
                is_reported.store(true, Ordering::Relaxed);
                let text = format!(
                    "cannot list the pods of this node: {error}; running pods go on, changes do not arrive"
                );
                reporter().warn("PodsNotListed", text, Timestamp::now());
            }
        };
        let ended = tokio::select! {
            ended = reflect(apis.clone(), Kind::POD, &scope, &mut apply, on_error) => ended,
            () = shared.relist.notified() => continue,
        };
        let Some(error) = ended else { return };
        tracing::warn!(%error, "the API server does not let this node list its pods; retrying");
        tokio::time::sleep(RELIST_RETRY).await;
    }
}

/// Watches the Service `default/kubernetes`, through which pods find the API server.
async fn watch_api_service(shared: Arc<Shared>, apis: watch::Receiver<Option<Arc<Api>>>) {
    let (namespace, name) = API_SERVICE;
    let scope = Scope::object(namespace, name);
    loop {
        let mut apply = |delta| {
            let result = shared.lock().reference_cache.apply_api_service(delta);
            if let Err(why) = result {
                tracing::warn!("the Service {name} {why}; using its last state");
            }
            shared.changed.send_replace(());
        };
        let mut is_reported = false;
        let mut refused = |error: &ApiError| {
            // Pods do not wait for an object that the API server refused, whatever the reason.
            if !std::mem::replace(&mut is_reported, true) {
                tracing::warn!(%error, "the API server does not let this node read the Service {name}; new pods get its last \
                     known address");
            }
            shared.lock().reference_cache.mark_api_service_refused();
            shared.changed.send_replace(());
        };
        let on_error = |error: &ApiError| {
            if may_be_request_error(error) {
                refused(error);
            }
        };
        let ended = reflect(apis.clone(), Kind::SERVICE, &scope, &mut apply, on_error).await;
        let Some(error) = ended else { return };
        refused(&error);
        tokio::time::sleep(RELIST_RETRY).await;
    }
}

/// Watches one ConfigMap or Secret.
async fn watch_object(shared: Arc<Shared>, apis: watch::Receiver<Option<Arc<Api>>>, object: Object) {
    let path = format!("/api/v1/namespaces/{}/{}", object.namespace, object.kind.resource());
    let scope = Scope::object(&object.namespace, &object.name);
    let is_secret = object.kind == nodes::Kind::Secret;
    let kind = if is_secret { Kind::SECRET } else { Kind::CONFIG_MAP };
    let mut failures = 0;
    loop {
        let mut apply = |delta| {
            let result = shared.lock().reference_cache.apply(&object, delta);
            if let Err(why) = result {
                tracing::warn!("{path} {} {why}; using its last state", object.name);
            }
            shared.changed.send_replace(());
        };
        let on_error = |error: &ApiError| shared.lock().reference_cache.on_error(&object, error);
        let ended = reflect(apis.clone(), kind.clone(), &scope, &mut apply, on_error).await;
        let Some(error) = ended else { return };
        // The node authorizer may not know yet that a pod of this node references the object.
        if failures > 0 {
            tracing::warn!(%error, "the API server does not let this node read {path} {}; retrying", object.name);
        }
        shared.lock().reference_cache.refused(&object);
        shared.changed.send_replace(());
        tokio::time::sleep(backoff_delay(failures, random_share())).await;
        failures = failures.saturating_add(1);
    }
}
