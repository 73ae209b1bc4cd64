//! The loop of one pod.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::{Notify, watch};

use super::apply::{Fault, Job};
use super::meter::Meter;
use super::record::{self, Record};
use super::tell::Told;
use super::under_way::{Done, UnderWay};
use super::{Assignment, Tools, hashes, orphan, refers};
use crate::desired::DesiredPod;
use crate::observed::probes::Verdicts;
use crate::observed::{self, PodUid, State, Timestamp};
use crate::plan::{self, Action, Failure, Hashes, History, Input, Key, Plan, Terminal};
use crate::probes::{Prober, Target};
use crate::report::{About, Severity};
use crate::spec;

/// The first wait after a failure, doubled up to [`Fault::longest_wait`].
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// How long the engine may take to answer after a start before a pod says that it does not.
const SILENCE: Duration = Duration::from_secs(2);

/// Works on one pod until nothing of it is left, from what an earlier worker wrote down of it.
pub(super) async fn work(
    tools: Arc<Tools>,
    assigned: watch::Receiver<Assignment>,
    record: Option<Record>,
) -> PodUid {
    let mut worker = Worker::new(tools, assigned, record);
    worker.until_seen().await;
    worker.complete();
    while worker.step().await {}
    worker.uid
}

/// One pod's worker.
pub(super) struct Worker {
    pub tools: Arc<Tools>,
    pub uid: PodUid,
    pub assignment: Assignment,
    pub history: History,
    pub told: Told,
    assigned: watch::Receiver<Assignment>,
    observed: watch::Receiver<Arc<observed::Pod>>,
    hashes: Arc<Hashes>,
    needs_address: BTreeSet<String>,
    /// Counts assignments.
    generation: u64,
    prober: Prober,
    probed: Arc<Notify>,
    pub under_way: UnderWay,
    meter: Option<Meter>,
    saved: Option<Record>,
}

impl Worker {
    fn new(tools: Arc<Tools>, mut assigned: watch::Receiver<Assignment>, saved: Option<Record>) -> Self {
        let assignment = assigned.borrow_and_update().clone();
        let probed = Arc::new(Notify::new());
        let mut prober =
            Prober::new(tools.runtime.clone(), tools.outbox.clone(), tools.metrics.clone(), probed.clone());
        let uid = assignment.pod.uid.clone();
        if let Some(saved) = &saved {
            prober.restore(saved.verdicts());
        }
        let observed = tools.observer.subscribe(&uid);
        let mut worker = Self {
            tools,
            uid,
            assignment,
            history: saved.as_ref().map(|s| s.history.clone()).unwrap_or_default(),
            told: Told::before(saved.as_ref().and_then(|s| s.status.clone())),
            assigned,
            observed,
            hashes: Arc::default(),
            needs_address: BTreeSet::new(),
            generation: 0,
            prober,
            probed,
            under_way: UnderWay::default(),
            meter: None,
            saved,
        };
        worker.take_on();
        worker
    }

    /// The pod as it is wanted, or as it was last wanted.
    pub fn pod(&self) -> &Arc<Pod> {
        &self.assignment.pod.pod
    }

    /// Waits until everything there is of the pod has been seen; says meanwhile that it has not, beside what was known.
    async fn until_seen(&mut self) {
        let (mut synced, mut observed) = (self.tools.observer.synced(), self.observed.clone());
        let is_listed = synced.clone();
        let mut seen = std::pin::pin!(async {
            synced.wait_for(|synced| *synced).await.is_ok()
                && observed.wait_for(|pod| pod.unseen.is_empty()).await.is_ok()
        });
        let is_seen = match tokio::time::timeout(SILENCE, &mut seen).await {
            Ok(is_seen) => is_seen,
            Err(_) => {
                self.tell_silence(if *is_listed.borrow() {
                    "the container engine does not answer for a container of this pod"
                } else {
                    "the container engine has not answered since the kubelet started"
                });
                seen.await
            }
        };
        if !is_seen {
            std::future::pending::<()>().await; // The observer is gone: the kubelet is stopping.
        }
    }

    /// Takes the containers that are there for those of a pod of which nobody knows any.
    fn complete(&mut self) {
        let completed = orphan::completed(self.pod(), &self.observed.borrow());
        if let Some(pod) = completed {
            let known = DesiredPod { pod: Arc::new(pod), ..(*self.assignment.pod).clone() };
            self.assignment.pod = Arc::new(known);
        }
    }

    /// Derives what follows from the assignment alone.
    fn take_on(&mut self) {
        let pod = self.pod().clone();
        self.hashes = Arc::new(hashes::of(&pod));
        let containers = plan::spec(&pod).containers.iter().chain(plan::inits(&pod));
        self.needs_address = containers.filter(|c| spec::needs_pod_ip(c)).map(|c| c.name.clone()).collect();
        self.generation += 1;
        self.history.revive(&self.hashes, Timestamp::now());
        if self.history.terminal.is_some() {
            self.tools.finished.add(self.uid.clone());
        }
        let is_over = self.assignment.ending.is_some() || self.history.terminal.is_some();
        self.meter = if is_over { None } else { Meter::start(&self.tools, &self.uid, &pod) };
        self.history.failures.clear();
        // Also when they are there: an edit may have added one, and what they are filled from may have changed.
        self.history.volumes_mounted = false;
        let is_ending = self.assignment.ending.is_some();
        self.under_way.abandon(|key, hash| !is_ending && self.hashes.of(key) == Some(hash));
    }

    /// Once around; false when nothing of the pod is left.
    async fn step(&mut self) -> bool {
        let observed = self.observed.borrow_and_update().clone();
        let (now, began) = (Timestamp::now(), Instant::now());
        let is_first = self.saved.is_none();
        self.history.remember(&observed, now);
        self.sync_probes(&observed);
        let verdicts = self.prober.verdicts();
        let under_way = self.under_way.keys();
        let plan = plan::plan(&self.input(&observed, &verdicts, &under_way, now));
        if plan.gone {
            self.tools.outbox.report(self.uid.clone(), crate::report::Report::Gone);
            return false;
        }
        self.remember_plan(&plan);
        if plan.terminal.is_some() {
            self.under_way.abandon(|_, _| false);
        }
        if self.has_decided(&observed, &under_way) {
            self.save(&verdicts).await;
        }
        self.begin(&plan, &observed);
        if observed.unseen.is_empty() {
            self.tell(&plan, &observed, &verdicts, now);
        }
        // Not while a pod is being ended: its directory may be on the way out at this moment.
        if self.under_way.is_empty() || is_first && self.assignment.ending.is_none() {
            self.save(&verdicts).await;
        }
        self.tools.metrics.pod_worked(self.operation(is_first), began.elapsed().as_secs_f64());
        self.wait(plan.wake_at).await;
        true
    }

    pub fn input<'a>(
        &'a self,
        observed: &'a observed::Pod,
        verdicts: &'a Verdicts,
        under_way: &'a BTreeSet<Key>,
        now: Timestamp,
    ) -> Input<'a> {
        Input {
            pod: self.pod(),
            hashes: &self.hashes,
            ending: self.assignment.ending.as_ref(),
            observed,
            verdicts,
            history: &self.history,
            needs_address: &self.needs_address,
            under_way,
            back_off: self.tools.back_off,
            now,
        }
    }

    /// The stock kubelet's word for what a turn was for.
    fn operation(&self, is_first: bool) -> &'static str {
        match (&self.assignment.ending, is_first) {
            (Some(_), _) => "terminate",
            (None, true) => "create",
            (None, false) => "sync",
        }
    }

    fn remember_plan(&mut self, plan: &Plan) {
        if plan.terminal.is_some() && self.history.terminal != plan.terminal {
            self.tools.finished.add(self.uid.clone());
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
            let facts = self.tools.facts.borrow().clone();
            let ip = facts.pod_ips(self.pod(), observed.sandbox()).first().copied();
            for container in &observed.containers {
                let State::Running { started_at, .. } = container.state else { continue };
                if !is_ending && self.under_way.contains(&Key::Container(container.name.clone())) {
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

    /// Begins what the plan names.
    fn begin(&mut self, plan: &Plan, observed: &Arc<observed::Pod>) {
        for action in &plan.actions {
            let job = Job {
                tools: self.tools.clone(),
                uid: self.uid.clone(),
                assignment: self.assignment.clone(),
                assigned: self.assigned.clone(),
                hashes: self.hashes.clone(),
                observed: observed.clone(),
            };
            let hash = self.hashes.of(&action.key()).cloned();
            self.under_way.begin(job, action.clone(), hash, self.generation);
        }
    }

    /// True when there is something that the next kubelet cannot find out by itself and that is not written down yet: the
    /// pod has come to its end, has begun anew, or is to be ended, or it has had runs that the engine has forgotten.
    fn has_decided(&self, observed: &observed::Pod, under_way: &BTreeSet<Key>) -> bool {
        let saved = self.saved.as_ref();
        if let Some(ending) = &self.assignment.ending {
            return !observed.is_gone() && saved.is_none_or(|saved| saved.ending.as_ref() != Some(ending));
        }
        let (nothing, history) = (History::default(), &self.history);
        let written = saved.map_or(&nothing, |saved| &saved.history);
        written.terminal != history.terminal
            || written.revived_at != history.revived_at
            || observed.unseen.is_empty() && history.is_alone(written, observed, under_way)
    }

    async fn save(&mut self, verdicts: &Verdicts) {
        if self.history.cleaned_up {
            return;
        }
        let ending = self.assignment.ending.clone();
        let record =
            Record::new(self.pod().clone(), &self.history, verdicts, self.told.status.clone(), ending);
        if self.saved.as_ref() == Some(&record) {
            return;
        }
        match record::save(&self.tools.root_dir, &self.uid, &record).await {
            Ok(()) => {
                self.saved = Some(record);
                self.told.unsaved = None;
            }
            Err(error) => self.tell_unsaved(&error),
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
                let before = std::mem::replace(&mut self.assignment, self.assigned.borrow_and_update().clone());
                if !refers::is_same(&before, &self.assignment) {
                    self.take_on();
                }
            }
            _ = self.observed.changed() => {}
            ended = self.under_way.next() => if let Some(done) = ended {
                self.finish(done);
            },
            () = self.probed.notified() => {}
            over = over(&mut self.meter) => self.evict(over),
            () = alarm => {}
        }
    }

    /// The pod takes more than it may: it comes to its end now, and stays so until it is edited.
    fn evict(&mut self, message: String) {
        self.meter = None;
        if self.assignment.ending.is_some() || self.history.terminal.is_some() {
            return;
        }
        tracing::warn!(pod = %self.uid, message, "evicted");
        self.tools.metrics.evicted("emptydirfs.limit");
        self.tools.outbox.note(About::pod(self.pod()), Severity::Warning, plan::EVICTED, message.clone());
        self.tools.finished.add(self.uid.clone());
        self.history.terminal = Some(Terminal::evicted(message, &self.hashes));
    }

    fn finish(&mut self, done: Done) {
        // What came of an older assignment says nothing about this one, but that the pod's directory is gone.
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

    /// Notes a failure and when to try again, each time twice as long after.
    fn fail(&mut self, key: Key, fault: &Fault) {
        let before = self.history.failures.get(&key);
        let delay =
            before.map_or(FIRST_RETRY.max(fault.first_wait), |f| (f.delay * 2).min(fault.longest_wait));
        if fault.repeats || before.is_none_or(|f| f.message != fault.message) {
            self.tell_fault(&key, fault);
        }
        let retry_at = Timestamp::now().checked_add(delay).unwrap_or(Timestamp::MAX);
        let failure =
            Failure { reason: fault.reason.to_owned(), message: fault.message.clone(), retry_at, delay };
        self.history.failures.insert(key, failure);
    }
}

/// Waits until the pod takes more than it may; for ever when nothing of it is limited.
async fn over(meter: &mut Option<Meter>) -> String {
    match meter {
        Some(meter) => meter.over().await,
        None => std::future::pending().await,
    }
}
