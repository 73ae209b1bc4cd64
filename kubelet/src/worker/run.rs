//! The loop of one pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::apply::{self, Fault, Job};
use super::record::{self, Record};
use super::{Assignment, Tools, hashes};
use crate::observed::probes::Verdicts;
use crate::observed::{self, PodUid, SANDBOX, State, Timestamp};
use crate::plan::{self, Action, Failure, Hashes, History, Input, Key, Plan, Waiting};
use crate::probes::{Prober, Target};
use crate::report::{About, Report, Severity};
use crate::spec;

/// The first wait after a failure, doubled up to [`Fault::longest_wait`].
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// How long the engine may take to answer after a start before a pod says that it does not.
const SILENCE: Duration = Duration::from_secs(2);

/// Works on one pod until nothing of it is left.
pub(super) async fn work(tools: Arc<Tools>, assigned: watch::Receiver<Assignment>) -> PodUid {
    let uid = assigned.borrow().pod.uid.clone();
    let mut worker = Worker::new(tools, uid.clone(), assigned).await;
    worker.until_seen().await;
    while worker.step().await {}
    uid
}

/// How an action ended.
type Done = (Key, Action, Result<(), Fault>);

struct Worker {
    tools: Arc<Tools>,
    uid: PodUid,
    assigned: watch::Receiver<Assignment>,
    assignment: Assignment,
    observed: watch::Receiver<Arc<observed::Pod>>,
    hashes: Arc<Hashes>,
    needs_address: BTreeSet<String>,
    history: History,
    prober: Prober,
    probed: Arc<Notify>,
    under_way: BTreeSet<Key>,
    tasks: JoinSet<Done>,
    handles: BTreeMap<Key, AbortHandle>,
    /// What was last told, by an earlier kubelet at first.
    status: Option<Arc<PodStatus>>,
    /// This kubelet has told it.
    is_told: bool,
    reported_ending: bool,
    saved: Option<Record>,
    /// Back-offs already told as events: container and attempt.
    told: BTreeMap<String, u32>,
}

impl Worker {
    async fn new(tools: Arc<Tools>, uid: PodUid, mut assigned: watch::Receiver<Assignment>) -> Self {
        let assignment = assigned.borrow_and_update().clone();
        let probed = Arc::new(Notify::new());
        let mut prober = Prober::new(tools.runtime.clone(), tools.outbox.clone(), probed.clone());
        let saved = record::load(&tools.root_dir, &uid).await;
        if let Some(saved) = &saved {
            prober.restore(saved.verdicts());
        }
        let observed = tools.observer.subscribe(&uid);
        let status = saved.as_ref().and_then(|s| s.status.clone());
        let mut worker = Self {
            tools,
            uid,
            assigned,
            hashes: Arc::default(),
            needs_address: BTreeSet::new(),
            assignment,
            observed,
            history: saved.as_ref().map(|s| s.history.clone()).unwrap_or_default(),
            prober,
            probed,
            under_way: BTreeSet::new(),
            tasks: JoinSet::new(),
            handles: BTreeMap::new(),
            status,
            is_told: false,
            reported_ending: false,
            saved,
            told: BTreeMap::new(),
        };
        worker.take_on();
        worker
    }

    /// Waits until everything there is of the pod has been seen; says meanwhile that it has not, beside what was known.
    async fn until_seen(&mut self) {
        let (mut synced, mut observed) = (self.tools.observer.synced(), self.observed.clone());
        let is_listed = synced.clone();
        let mut seen = std::pin::pin!(async {
            synced.wait_for(|synced| *synced).await.is_ok()
                && observed.wait_for(|pod| pod.unseen.is_empty()).await.is_ok()
        });
        let Ok(is_seen) = tokio::time::timeout(SILENCE, &mut seen).await else {
            let silent = if *is_listed.borrow() {
                "the container engine does not answer for a container of this pod"
            } else {
                "the container engine has not answered since the kubelet started"
            };
            self.tell_silence(silent);
            if !seen.await {
                std::future::pending::<()>().await; // The observer is gone: the kubelet is stopping.
            }
            return;
        };
        if !is_seen {
            std::future::pending::<()>().await;
        }
    }

    fn tell_silence(&self, message: &str) {
        let known = self.status.as_deref().cloned().unwrap_or_default();
        let status = PodStatus {
            phase: Some("Unknown".to_owned()),
            reason: Some("EngineUnreachable".to_owned()),
            message: Some(message.to_owned()),
            start_time: self.history.started_at.map(Time),
            ..known
        };
        let report =
            Report::Status { pod: self.assignment.pod.pod.clone(), status: Box::new(status), deletion: None };
        self.tools.outbox.report(self.uid.clone(), report);
    }

    /// Derives what follows from the assignment alone.
    fn take_on(&mut self) {
        let pod = &self.assignment.pod.pod;
        self.hashes = Arc::new(hashes::of(pod));
        let containers = plan::spec(pod).containers.iter().chain(plan::inits(pod));
        let needing = containers.filter(|c| spec::needs_pod_ip(c)).map(|c| c.name.clone());
        self.needs_address = needing.collect();
        self.history.revive(&self.hashes.all(), Timestamp::now());
        self.history.failures.clear();
        // Also when they are there: an edit may have added one, and what they are filled from may have changed.
        self.history.volumes_mounted = false;
        if self.assignment.ending.is_some() {
            self.abandon_beginnings();
        }
    }

    /// Whatever was being begun is no longer wanted: cut it off.
    fn abandon_beginnings(&mut self) {
        for (key, handle) in &self.handles {
            if matches!(key, Key::Container(_) | Key::Sandbox) {
                handle.abort();
            }
        }
    }

    /// Once around; false when nothing of the pod is left.
    async fn step(&mut self) -> bool {
        let observed = self.observed.borrow_and_update().clone();
        self.history.remember(&observed, Timestamp::now());
        self.sync_probes(&observed);
        let verdicts = self.prober.verdicts();
        let now = Timestamp::now();
        let plan = self.plan(&observed, &verdicts, now);
        if plan.gone {
            self.tools.outbox.report(self.uid.clone(), Report::Gone);
            return false;
        }
        self.remember_plan(&plan);
        let wake_at = plan.wake_at;
        if self.has_decided() {
            self.save(&verdicts).await;
        }
        self.begin(&plan, &observed);
        if observed.unseen.is_empty() {
            self.tell(&plan, &observed, &verdicts, now);
        }
        if self.under_way.is_empty() || self.saved.is_none() {
            self.save(&verdicts).await;
        }
        self.wait(wake_at).await;
        true
    }

    fn input<'a>(&'a self, observed: &'a observed::Pod, verdicts: &'a Verdicts, now: Timestamp) -> Input<'a> {
        Input {
            pod: &self.assignment.pod.pod,
            hashes: &self.hashes,
            ending: self.assignment.ending.as_ref(),
            observed,
            verdicts,
            history: &self.history,
            needs_address: &self.needs_address,
            under_way: &self.under_way,
            back_off: self.tools.back_off,
            now,
        }
    }

    fn plan(&self, observed: &observed::Pod, verdicts: &Verdicts, now: Timestamp) -> Plan {
        plan::plan(&self.input(observed, verdicts, now))
    }

    fn remember_plan(&mut self, plan: &Plan) {
        if plan.terminal.is_some() {
            self.history.terminal.clone_from(&plan.terminal);
        }
        if plan.initialized_in.is_some() && self.history.initialized_in != plan.initialized_in {
            self.history.initialized_in.clone_from(&plan.initialized_in);
        }
    }

    fn sync_probes(&mut self, observed: &observed::Pod) {
        let pod = &self.assignment.pod.pod;
        let is_host = plan::spec(pod).host_network == Some(true);
        let ip = if is_host {
            self.tools.facts.borrow().host_ips.first().copied()
        } else {
            observed.sandbox().and_then(|s| s.ips.first().copied())
        };
        let mut targets = Vec::new();
        if self.assignment.ending.is_none() && self.history.terminal.is_none() {
            for container in &observed.containers {
                let State::Running { started_at, .. } = container.state else { continue };
                if self.under_way.contains(&Key::Container(container.name.clone())) {
                    continue;
                }
                targets.push(Target {
                    container_id: container.id.clone(),
                    name: container.name.clone(),
                    started_at,
                    pod: pod.clone(),
                    ip,
                });
            }
        }
        self.prober.sync(&targets);
    }

    /// Begins what the plan names.
    fn begin(&mut self, plan: &Plan, observed: &Arc<observed::Pod>) {
        for action in &plan.actions {
            let key = action.key();
            self.under_way.insert(key.clone());
            let job = Job {
                tools: self.tools.clone(),
                uid: self.uid.clone(),
                assignment: self.assignment.clone(),
                hashes: self.hashes.clone(),
                observed: observed.clone(),
            };
            let action = action.clone();
            let task_key = key.clone();
            let handle = self.tasks.spawn(async move {
                let result = apply::apply(&job, &action).await;
                (task_key, action, result)
            });
            self.handles.insert(key, handle);
        }
    }

    /// Publishes the status when it has changed, and events for new back-offs.
    fn tell(&mut self, plan: &Plan, observed: &observed::Pod, verdicts: &Verdicts, now: Timestamp) {
        let facts = self.tools.facts.borrow().clone();
        let input = self.input(observed, verdicts, now);
        let before = self.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let status = plan::status(&input, plan, before, &facts.host_ips);
        let deletion = self.assignment.ending.as_ref().map(|e| (e.since, e.grace_seconds));
        let is_news = !self.is_told || self.status.as_deref() != Some(&status);
        if is_news || self.reported_ending != deletion.is_some() {
            let pod = self.assignment.pod.pod.clone();
            let report = Report::Status { pod, status: Box::new(status.clone()), deletion };
            self.tools.outbox.report(self.uid.clone(), report);
            self.status = Some(Arc::new(status));
            self.is_told = true;
            self.reported_ending = deletion.is_some();
        }
        for waiting in &plan.waiting_on {
            let Waiting::BackOff { container, attempt, delay } = waiting else { continue };
            if self.told.insert(container.clone(), *attempt) != Some(*attempt) {
                let message = format!(
                    "Back-off restarting failed container {container} in pod {}: next start in {} s",
                    self.assignment.pod.pod.metadata.name.as_deref().unwrap_or_default(),
                    delay.as_secs()
                );
                let about = About::container(&self.assignment.pod.pod, container);
                self.tools.outbox.note(about, Severity::Warning, "BackOff", message);
            }
        }
    }

    /// True when the pod has come to its end or begun anew and that is not written down yet: the next kubelet cannot
    /// find it out, and would run again what has been done.
    fn has_decided(&self) -> bool {
        let saved = self.saved.as_ref().map(|saved| (&saved.history.terminal, saved.history.revived_at));
        saved.unwrap_or((&None, None)) != (&self.history.terminal, self.history.revived_at)
    }

    async fn save(&mut self, verdicts: &Verdicts) {
        if self.history.cleaned_up {
            return;
        }
        let ending = self.assignment.ending.as_ref();
        let pod = self.assignment.pod.pod.clone();
        let record = Record::new(pod, &self.history, verdicts, self.status.clone(), ending);
        if self.saved.as_ref() == Some(&record) {
            return;
        }
        match record::save(&self.tools.root_dir, &self.uid, &record).await {
            Ok(()) => self.saved = Some(record),
            Err(error) => {
                tracing::warn!(pod = %self.uid, %error, "cannot write the record of a pod; a restarted kubelet will know less of it");
            }
        }
    }

    /// Waits until anything has changed or it is time to look again.
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
                    std::future::pending::<()>().await; // The pool is gone: the kubelet is stopping.
                }
                self.reassign();
            }
            _ = self.observed.changed() => {}
            Some(done) = self.tasks.join_next_with_id() => self.finish(done),
            () = self.probed.notified() => {}
            () = alarm => {}
        }
    }

    fn reassign(&mut self) {
        let assignment = self.assigned.borrow_and_update().clone();
        self.assignment = assignment;
        self.take_on();
    }

    fn finish(&mut self, done: Result<(tokio::task::Id, Done), tokio::task::JoinError>) {
        let (key, action, result) = match done {
            Ok((_, done)) => done,
            Err(error) => {
                let id = error.id();
                if let Some(key) = self.handles.iter().find(|(_, h)| h.id() == id).map(|(k, _)| k.clone()) {
                    self.handles.remove(&key);
                    self.under_way.remove(&key);
                }
                return;
            }
        };
        self.handles.remove(&key);
        self.under_way.remove(&key);
        let slot = match &key {
            Key::Volumes => String::new(),
            Key::Sandbox => SANDBOX.to_owned(),
            Key::Container(name) => name.clone(),
            Key::Remains(id) => id.clone(),
        };
        match result {
            Ok(()) => {
                self.history.failures.remove(&slot);
                match action {
                    Action::MountVolumes => self.history.volumes_mounted = true,
                    Action::CleanUp => self.history.cleaned_up = true,
                    Action::CreateSandbox { .. }
                    | Action::StartSandbox { .. }
                    | Action::CreateContainer { .. }
                    | Action::StartContainer { .. }
                    | Action::StopContainer { .. }
                    | Action::Remove { .. } => {}
                }
            }
            Err(fault) => self.fail(slot, &fault),
        }
    }

    /// Notes a failure and when to try again, each time twice as long after.
    fn fail(&mut self, slot: String, fault: &Fault) {
        let before = self.history.failures.get(&slot);
        let delay =
            before.map_or(FIRST_RETRY.max(fault.first_wait), |f| (f.delay * 2).min(fault.longest_wait));
        let is_news = before.is_none_or(|f| f.message != fault.message);
        if is_news || fault.repeats {
            let about = if plan::spec(&self.assignment.pod.pod).containers.iter().any(|c| c.name == slot) {
                About::container(&self.assignment.pod.pod, &slot)
            } else {
                About::pod(&self.assignment.pod.pod)
            };
            self.tools.outbox.note(about, Severity::Warning, fault.event, fault.message.clone());
        }
        let retry_at = Timestamp::now().checked_add(delay).unwrap_or(Timestamp::MAX);
        let failure =
            Failure { reason: fault.reason.to_owned(), message: fault.message.clone(), retry_at, delay };
        self.history.failures.insert(slot, failure);
    }
}
