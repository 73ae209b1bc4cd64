//! The loop of one pod worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use tokio::sync::{Notify, watch};

use super::apply::{ActionContext, ActionError};
use super::checkpoint::{self, Checkpoint};
use super::evictions::{Request, Requests};
use super::in_progress::{ActionsInProgress, CompletedAction};
use super::publish::Published;
use super::storage_monitor::StorageMonitor;
use super::{Assignment, Dependencies, hashes, references};
use crate::desired::DesiredPod;
use crate::observed::probes::ProbeResults;
use crate::observed::{self, EVICTED, PodUid, State, Timestamp};
use crate::plan::{self, Action, Eviction, Failure, Hashes, History, Input, Key, Plan, Terminal};
use crate::probes::{Prober, Target};
use crate::report::{About, Severity};
use crate::spec;

/// First retry delay after an error. It doubles up to [`ActionError::longest_wait`].
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// How long the engine may not answer after startup before the pod's status reports it.
const SILENCE: Duration = Duration::from_secs(2);

/// Runs the worker of one pod until nothing of the pod is left, starting from its checkpoint.
pub(super) async fn run(
    deps: Arc<Dependencies>,
    assigned: watch::Receiver<Assignment>,
    checkpoint: Option<Checkpoint>,
) -> PodUid {
    let mut worker = PodWorker::new(deps, assigned, checkpoint);
    worker.until_seen().await;
    worker.complete();
    while worker.step().await {}
    worker.deps.evictions.remove(&worker.uid);
    worker.uid
}

pub(super) struct PodWorker {
    pub deps: Arc<Dependencies>,
    pub uid: PodUid,
    pub assignment: Assignment,
    pub history: History,
    pub published: Published,
    assigned: watch::Receiver<Assignment>,
    observed: watch::Receiver<Arc<observed::Pod>>,
    hashes: Arc<Hashes>,
    needs_address: BTreeSet<String>,
    /// Number of assignments that were received.
    generation: u64,
    prober: Prober,
    probed: Arc<Notify>,
    pub in_progress: ActionsInProgress,
    storage_monitor: Option<StorageMonitor>,
    /// Requests of the eviction manager, while the pod can be evicted.
    requests: Option<Requests>,
    saved: Option<Checkpoint>,
}

impl PodWorker {
    fn new(
        deps: Arc<Dependencies>,
        mut assigned: watch::Receiver<Assignment>,
        saved: Option<Checkpoint>,
    ) -> Self {
        let assignment = assigned.borrow_and_update().clone();
        let probed = Arc::new(Notify::new());
        let mut prober =
            Prober::new(deps.runtime.clone(), deps.outbox.clone(), deps.metrics.clone(), probed.clone());
        let uid = assignment.pod.uid.clone();
        if let Some(saved) = &saved {
            prober.restore(saved.probe_results());
        }
        let observed = deps.pleg.subscribe(&uid);
        let mut worker = Self {
            deps,
            uid,
            assignment,
            history: saved.as_ref().map(|s| s.history.clone()).unwrap_or_default(),
            published: Published::before(saved.as_ref().and_then(|s| s.status.clone())),
            assigned,
            observed,
            hashes: Arc::default(),
            needs_address: BTreeSet::new(),
            generation: 0,
            prober,
            probed,
            in_progress: ActionsInProgress::default(),
            storage_monitor: None,
            requests: None,
            saved,
        };
        worker.apply_assignment();
        worker
    }

    /// The desired pod.
    pub fn pod(&self) -> &Arc<Pod> {
        &self.assignment.pod.pod
    }

    /// Waits until all containers of the pod are inspected. Meanwhile it reports that the engine does not answer,
    /// with the last known status.
    async fn until_seen(&mut self) {
        let (mut synced, mut observed) = (self.deps.pleg.synced(), self.observed.clone());
        let is_listed = synced.clone();
        let mut seen = std::pin::pin!(async {
            synced.wait_for(|synced| *synced).await.is_ok()
                && observed.wait_for(|pod| pod.uninspected.is_empty()).await.is_ok()
        });
        let is_seen = match tokio::time::timeout(SILENCE, &mut seen).await {
            Ok(is_seen) => is_seen,
            Err(_) => {
                self.report_unreachable_engine(if *is_listed.borrow() {
                    "the container engine does not answer for a container of this pod"
                } else {
                    "the container engine has not answered since the kubelet started"
                });
                seen.await
            }
        };
        if !is_seen {
            std::future::pending::<()>().await; // The PLEG has stopped: the kubelet is stopping.
        }
    }

    /// If the spec of the pod is unknown, adds the containers that the engine has to it.
    fn complete(&mut self) {
        let completed = with_observed_containers(self.pod(), &self.observed.borrow());
        if let Some(pod) = completed {
            let known = DesiredPod { pod: Arc::new(pod), ..(*self.assignment.pod).clone() };
            self.assignment.pod = Arc::new(known);
        }
    }

    /// Restarts a finished pod that was edited, once its source has confirmed this version.
    fn revive(&mut self) {
        if self.assignment.is_confirmed {
            self.history.revive(&self.hashes, Timestamp::now());
        }
    }

    /// Updates everything derived from the assignment.
    fn apply_assignment(&mut self) {
        let pod = self.pod().clone();
        self.hashes = Arc::new(hashes::of(&pod));
        let containers = plan::spec(&pod).containers.iter().chain(plan::inits(&pod));
        self.needs_address = containers.filter(|c| spec::needs_pod_ip(c)).map(|c| c.name.clone()).collect();
        self.generation += 1;
        self.revive();
        if self.history.terminal.is_some() {
            self.deps.finished.add(self.uid.clone());
        }
        let is_over = self.assignment.ending.is_some() || self.history.terminal.is_some();
        self.storage_monitor =
            if is_over { None } else { StorageMonitor::start(&self.deps, &self.uid, &pod) };
        self.update_evictions(false);
        self.history.failures.clear();
        // Also for mounted volumes: an edit may add volumes, and their content may have changed.
        self.history.volumes_mounted = false;
        let is_ending = self.assignment.ending.is_some();
        self.in_progress.abandon(|key, hash| !is_ending && self.hashes.of(key) == Some(hash));
    }

    /// Runs one iteration. Returns false if nothing of the pod is left.
    async fn step(&mut self) -> bool {
        let observed = self.observed.borrow_and_update().clone();
        let (now, began) = (Timestamp::now(), Instant::now());
        let is_first = self.saved.is_none();
        self.report_oom_kills(&observed, now);
        self.history.remember(&observed, now);
        self.sync_probes(&observed);
        let probe_results = self.prober.probe_results();
        let in_progress = self.in_progress.keys();
        let plan = plan::compute_pod_actions(&self.input(&observed, &probe_results, &in_progress, now));
        if plan.gone {
            self.deps.outbox.report(self.uid.clone(), crate::report::Report::Gone);
            return false;
        }
        self.remember_plan(&plan);
        self.update_evictions(observed.is_gone() && self.history.emptied);
        if plan.terminal.is_some() {
            self.in_progress.abandon(|_, _| false);
        }
        if self.needs_checkpoint(&observed, &in_progress) {
            self.save(&probe_results).await;
        }
        self.start_actions(&plan, &observed);
        if observed.uninspected.is_empty() {
            self.publish(&plan, &observed, &probe_results, now);
        }
        // Not while the pod is terminating, because its directory may be in removal.
        if self.in_progress.is_empty() || is_first && self.assignment.ending.is_none() {
            self.save(&probe_results).await;
        }
        self.deps.metrics.pod_worked(self.operation(is_first), began.elapsed().as_secs_f64());
        self.wait(plan.wake_at).await;
        true
    }

    pub fn input<'a>(
        &'a self,
        observed: &'a observed::Pod,
        probe_results: &'a ProbeResults,
        in_progress: &'a BTreeSet<Key>,
        now: Timestamp,
    ) -> Input<'a> {
        Input {
            pod: self.pod(),
            hashes: &self.hashes,
            ending: self.assignment.ending.as_ref(),
            is_confirmed: self.assignment.is_confirmed,
            refused_edit: self.assignment.refused_edit.as_deref(),
            observed,
            probe_results,
            history: &self.history,
            needs_address: &self.needs_address,
            in_progress,
            back_off: self.deps.back_off,
            now,
        }
    }

    /// The stock operation type of an iteration, for metrics.
    fn operation(&self, is_first: bool) -> &'static str {
        match (&self.assignment.ending, is_first) {
            (Some(_), _) => "terminate",
            (None, true) => "create",
            (None, false) => "sync",
        }
    }

    /// Tells the eviction manager whether the pod can be evicted, or was evicted and has released its resources.
    fn update_evictions(&mut self, is_released: bool) {
        let evictions = &self.deps.evictions;
        let terminal = self.history.terminal.as_ref();
        if self.assignment.ending.is_some() {
            self.requests = None;
            evictions.remove(&self.uid);
        } else if let Some(eviction) = terminal.and_then(|terminal| terminal.eviction.as_ref()) {
            self.requests = None;
            evictions.set_evicted(&self.assignment.pod, eviction, is_released);
        } else if terminal.is_some() {
            self.requests = None;
            evictions.remove(&self.uid);
        } else {
            self.requests = Some(evictions.add(&self.assignment.pod));
        }
    }

    fn remember_plan(&mut self, plan: &Plan) {
        if plan.terminal.is_some() && self.history.terminal != plan.terminal {
            self.deps.finished.add(self.uid.clone());
            self.history.terminal.clone_from(&plan.terminal);
        }
        if plan.initialized_in.is_some() && self.history.initialized_in != plan.initialized_in {
            self.history.initialized_in.clone_from(&plan.initialized_in);
        }
    }

    fn sync_probes(&mut self, observed: &observed::Pod) {
        let mut targets = Vec::new();
        let is_ending = self.assignment.ending.is_some();
        if is_ending {
            self.prober.end();
        }
        if self.history.terminal.is_none() {
            let facts = self.deps.facts.borrow().clone();
            let ip = facts.pod_ips(self.pod(), observed.sandbox()).first().copied();
            for container in &observed.containers {
                let State::Running { started_at, .. } = container.state else { continue };
                if !is_ending && self.in_progress.contains(&Key::Container(container.name.clone())) {
                    continue;
                }
                targets.push(Target {
                    container_id: container.id.clone(),
                    name: container.name.clone(),
                    started_at,
                    pod: self.pod().clone(),
                    ip,
                });
            }
        }
        self.prober.sync(&targets);
    }

    /// Starts the planned actions.
    fn start_actions(&mut self, plan: &Plan, observed: &Arc<observed::Pod>) {
        for action in &plan.actions {
            let job = ActionContext {
                deps: self.deps.clone(),
                uid: self.uid.clone(),
                assignment: self.assignment.clone(),
                assigned: self.assigned.clone(),
                hashes: self.hashes.clone(),
                observed: observed.clone(),
            };
            let hash = self.hashes.of(&action.key()).cloned();
            self.in_progress.start(job, action.clone(), hash, self.generation);
        }
    }

    /// Whether the checkpoint must be saved now, because the next kubelet process could not derive it from the engine.
    /// This is necessary after a terminal phase, a restart or a termination of the pod, and when the engine no longer
    /// has a run.
    fn needs_checkpoint(&self, observed: &observed::Pod, in_progress: &BTreeSet<Key>) -> bool {
        let saved = self.saved.as_ref();
        if let Some(ending) = &self.assignment.ending {
            return !observed.is_gone() && saved.is_none_or(|saved| saved.ending.as_ref() != Some(ending));
        }
        let (nothing, history) = (History::default(), &self.history);
        let written = saved.map_or(&nothing, |saved| &saved.history);
        written.terminal != history.terminal
            || written.revived_at != history.revived_at
            || observed.uninspected.is_empty() && history.has_unsaved_runs(written, observed, in_progress)
    }

    async fn save(&mut self, probe_results: &ProbeResults) {
        if self.history.cleaned_up {
            return;
        }
        let ending = self.assignment.ending.clone();
        let checkpoint = Checkpoint::new(
            self.pod().clone(),
            &self.history,
            probe_results,
            self.published.status.clone(),
            ending,
        );
        if self.saved.as_ref() == Some(&checkpoint) {
            return;
        }
        match checkpoint::save(&self.deps.root_dir, &self.uid, &checkpoint).await {
            Ok(()) => {
                self.saved = Some(checkpoint);
                self.published.unsaved = None;
            }
            Err(error) => self.report_unsaved_checkpoint(&error),
        }
    }

    /// Waits for a change, or for the next planned time.
    async fn wait(&mut self, wake_at: Option<Timestamp>) {
        let until =
            wake_at.map(|at| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or_default());
        let alarm = async {
            match until {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = self.assigned.changed() => {
                if changed.is_err() {
                    std::future::pending::<()>().await; // The sender is dropped: the kubelet is stopping.
                }
                let before = std::mem::replace(&mut self.assignment, self.assigned.borrow_and_update().clone());
                if !references::is_same(&before, &self.assignment) {
                    self.apply_assignment();
                } else if !before.is_confirmed {
                    self.revive();
                }
                if before.returned_at != self.assignment.returned_at {
                    self.end_eviction();
                }
            }
            _ = self.observed.changed() => {}
            ended = self.in_progress.next() => if let Some(done) = ended {
                self.finish(done);
            },
            () = self.probed.notified() => {}
            request = limit_exceeded(&mut self.storage_monitor) => self.evict(request),
            request = requested(&mut self.requests) => self.evict((*request).clone()),
            () = alarm => {}
        }
    }

    /// Evicts the pod. It stays terminated until it is edited, or the eviction manager lets it return.
    fn evict(&mut self, request: Request) {
        self.storage_monitor = None;
        if self.assignment.ending.is_some() || self.history.terminal.is_some() {
            return;
        }
        let Request { signal, message, grace, pressure } = request;
        self.deps.metrics.evicted(signal);
        self.deps.outbox.note(About::pod(self.pod()), Severity::Warning, EVICTED, message.clone());
        self.deps.finished.add(self.uid.clone());
        let eviction = Eviction { at: Timestamp::now(), grace, pressure };
        self.history.terminal = Some(Terminal::evicted(message, eviction, &self.hashes));
        self.update_evictions(false);
    }

    /// Starts the pod again after an eviction because of node pressure.
    fn end_eviction(&mut self) {
        let (now, returned_at) = (Timestamp::now(), self.assignment.returned_at);
        let ended = returned_at.and_then(|returned_at| self.history.end_eviction(returned_at, now));
        let Some(pressure) = ended else { return };
        let condition = pressure.condition_type();
        let message = format!("The node no longer has the condition {condition}: the pod starts again");
        self.deps.outbox.note(About::pod(self.pod()), Severity::Normal, "ReturnedAfterEviction", message);
        self.apply_assignment();
    }

    fn finish(&mut self, done: CompletedAction) {
        // Results for an older assignment are outdated, except that the pod's directory is gone.
        if done.generation != self.generation && done.action != Action::CleanUp {
            return;
        }
        match done.result {
            Ok(()) => {
                self.history.failures.remove(&done.key);
                match done.action {
                    Action::MountVolumes => self.history.volumes_mounted = true,
                    Action::EmptyVolumes => self.history.emptied = true,
                    Action::CleanUp => self.history.cleaned_up = true,
                    Action::PrepareContainer { name } => {
                        self.history.prepared.extend(done.hash.map(|hash| (name, hash)));
                    }
                    Action::CreateSandbox { .. }
                    | Action::StartSandbox { .. }
                    | Action::CreateContainer { .. }
                    | Action::StartContainer { .. }
                    | Action::StopContainer { .. }
                    | Action::Remove { .. } => {}
                }
            }
            Err(fault) => self.fail(done.key, &fault),
        }
    }

    /// Records an error and the time of its retry. The delay doubles each time.
    fn fail(&mut self, key: Key, fault: &ActionError) {
        let before = self.history.failures.get(&key);
        let delay =
            before.map_or(FIRST_RETRY.max(fault.first_wait), |f| (f.delay * 2).min(fault.longest_wait));
        if fault.repeats || before.is_none_or(|f| f.message != fault.message) {
            self.report_failure(&key, fault);
        }
        let retry_at = Timestamp::now().checked_add(delay).unwrap_or(Timestamp::MAX);
        let failure =
            Failure { reason: fault.reason.to_owned(), message: fault.message.clone(), retry_at, delay };
        self.history.failures.insert(key, failure);
    }
}

/// Waits until the pod exceeds a limit. If it has none, waits forever.
async fn limit_exceeded(storage_monitor: &mut Option<StorageMonitor>) -> Request {
    match storage_monitor {
        Some(storage_monitor) => storage_monitor.limit_exceeded().await,
        None => std::future::pending().await,
    }
}

/// Waits for a request of the eviction manager.
async fn requested(requests: &mut Option<Requests>) -> Arc<Request> {
    let Some(requests) = requests else { return std::future::pending().await };
    let request = requests.wait_for(Option::is_some).await.ok().and_then(|request| request.clone());
    match request {
        Some(request) => request,
        None => std::future::pending().await,
    }
}

/// Adds the existing containers to a pod without a known spec. `None` if the spec is known.
fn with_observed_containers(pod: &Pod, observed: &observed::Pod) -> Option<Pod> {
    let spec = pod.spec.as_ref().filter(|spec| spec.containers.is_empty())?;
    let mut containers: Vec<Container> = Vec::new();
    for seen in &observed.containers {
        if containers.iter().all(|container| container.name != seen.name) {
            let (name, image) = (seen.name.clone(), Some(seen.image.clone()));
            containers.push(Container { name, image, ..Container::default() });
        }
    }
    (!containers.is_empty())
        .then(|| Pod { spec: Some(PodSpec { containers, ..spec.clone() }), ..pod.clone() })
}
