//! Manages pod workers. There is one for each desired pod, and for each pod with remaining containers or files.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::references::References;
use api::resources::ResourceList;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::checkpoint::{self, Checkpoint};
use super::refused_edits;
use super::{Assignment, Dependencies, pod_worker};
use crate::desired::{Admission, Node, Rejection};
use crate::desired::{Desired, DesiredPod, SourceKind};
use crate::observed::{PodUid, PressureStates, Timestamp, active_pressures};
use crate::plan::{DEFAULT_GRACE_SECONDS, Ending, spec};
use crate::pleg::KnownPod;
use crate::report::{About, Report, Severity};

/// Grace period of a pod that a client deletes with `--force` while it is terminating; the minimum of the stock
/// kubelet.
const FORCED_GRACE_SECONDS: i64 = 1;

/// Reason for a pod of the API server whose name a local pod already has.
const POD_NAME_IN_USE: &str = "PodNameInUse";

/// The pod workers of a node.
pub struct PodWorkers {
    deps: Arc<Dependencies>,
    workers: BTreeMap<PodUid, watch::Sender<Assignment>>,
    tasks: JoinSet<PodUid>,
    /// Pod admission.
    admission: Admission,
    /// Capacity of the node.
    node: Node,
    /// Allocatable extended resources, from the Node in the cluster.
    extended: watch::Receiver<ResourceList>,
    /// The pressure conditions of the node, or `None` until they are known.
    pressures: watch::Receiver<Option<PressureStates>>,
    /// When each pod was permitted to return after an eviction.
    returned: BTreeMap<PodUid, Timestamp>,
    /// Rejections of pods and edits that were reported.
    rejected: BTreeMap<PodUid, ReportedRejection>,
    /// Name conflicts of API server pods that were reported. `true` if the pod was reported as deleted.
    name_conflicts: BTreeMap<PodUid, bool>,
    /// Terminated pods that the API server still lists as being deleted.
    ended: BTreeSet<PodUid>,
    /// Pods of an earlier kubelet process that have a directory but no worker, with their checkpoints.
    checkpoints: BTreeMap<PodUid, Option<Checkpoint>>,
    /// Pods of unconfigured sources that were reported.
    unmanaged: BTreeSet<PodUid>,
}

/// A reported rejection of a pod or edit.
struct ReportedRejection {
    pod: Arc<DesiredPod>,
    reason: Cow<'static, str>,
    /// Whether an earlier version was running, so that the rejection was reported as that of an edit.
    runs: bool,
}

impl PodWorkers {
    /// Creates the pod workers of a node, without any pods.
    pub fn new(
        deps: Arc<Dependencies>,
        node: Node,
        extended: watch::Receiver<ResourceList>,
        pressures: watch::Receiver<Option<PressureStates>>,
    ) -> Self {
        Self {
            deps,
            workers: BTreeMap::new(),
            tasks: JoinSet::new(),
            admission: Admission::default(),
            node,
            extended,
            pressures,
            returned: BTreeMap::new(),
            rejected: BTreeMap::new(),
            name_conflicts: BTreeMap::new(),
            ended: BTreeSet::new(),
            checkpoints: BTreeMap::new(),
            unmanaged: BTreeSet::new(),
        }
    }

    /// Follows the desired state until its sender is dropped.
    pub async fn run(mut self, mut desired: watch::Receiver<Arc<Desired>>) {
        let mut found = self.deps.pleg.found();
        let mut synced = self.deps.pleg.synced();
        let deps = self.deps.clone();
        self.load_checkpoints().await;
        let mut wanted = desired.borrow_and_update().clone();
        self.assign(&wanted);
        loop {
            tokio::select! {
                changed = desired.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    wanted = desired.borrow_and_update().clone();
                    self.assign(&wanted);
                }
                finished = deps.finished.take() => {
                    finished.iter().for_each(|uid| self.admission.finish(uid));
                    self.assign(&wanted);
                }
                Ok(()) = self.extended.changed() => self.assign(&wanted),
                Ok(()) = self.pressures.changed() => self.assign(&wanted),
                () = deps.evictions.may_return() => self.assign(&wanted),
                _ = found.changed() => {}
                _ = synced.changed() => {}
                Some(ended) = self.tasks.join_next() => {
                    let uid = ended.expect("workers are never aborted, and a panic ends the kubelet");
                    self.admission.release(&uid);
                    self.workers.remove(&uid);
                    self.returned.remove(&uid);
                    if wanted.pods.get(&uid).is_some_and(|pod| pod.is_terminating()) {
                        self.ended.insert(uid);
                    }
                    self.assign(&wanted);
                }
            }
            if *synced.borrow() {
                self.end_orphans(&wanted);
            }
        }
    }

    /// Assigns the desired state to workers: starts, updates and terminates them.
    fn assign(&mut self, desired: &Desired) {
        self.node.facts = self.deps.facts.borrow().clone();
        self.node.extended = self.extended.borrow_and_update().clone();
        self.node.pressures =
            self.pressures.borrow_and_update().as_deref().map(active_pressures).unwrap_or_default();
        let returning = self.deps.evictions.returning();
        // Other pods may have taken its resources, so it is admitted like a new pod.
        returning.keys().for_each(|uid| self.admission.release(uid));
        let mut decision = self.admission.decide(desired, &self.node);
        // A pod that does not fit yet stays evicted.
        decision.rejected.retain(|uid, _| !returning.contains_key(uid));
        self.returned.extend(returning.into_iter().filter(|(uid, _)| decision.run.contains_key(uid)));
        let mut refused_edits = refused_edits::refused(desired, &decision);
        for (uid, pod) in &decision.run {
            self.update(Assignment {
                pod: pod.clone(),
                references: desired.references_of(pod.source).clone(),
                ending: None,
                is_confirmed: desired.is_confirmed(pod.source),
                refused_edit: refused_edits.remove(uid).map(Arc::new),
                returned_at: self.returned.get(uid).copied(),
            });
        }
        self.ended.retain(|uid| desired.pods.contains_key(uid));
        for pod in desired.pods.values().filter(|pod| pod.is_terminating()) {
            self.terminate(pod, desired.references_of(pod.source));
        }
        self.report_rejected(desired, decision.rejected);
        self.report_name_conflicts(desired);
        let is_unwanted = |(uid, worker): &(&PodUid, &watch::Sender<Assignment>)| {
            desired.is_unwanted(uid, Some(worker.borrow().pod.source))
        };
        let unwanted: Vec<PodUid> =
            self.workers.iter().filter(is_unwanted).map(|(uid, _)| uid.clone()).collect();
        for uid in unwanted {
            // A pod with a name conflict was not deleted, so its own grace period applies.
            self.end(&uid, desired.name_conflicts.get(&uid).map(|(pod, _)| pod));
        }
    }

    /// Terminates a pod that the API server deletes. Even if nothing of the pod is left, a worker is started to
    /// report its end.
    fn terminate(&mut self, pod: &Arc<DesiredPod>, references: &Arc<References>) {
        if self.ended.contains(&pod.uid) {
            return;
        }
        if self.workers.contains_key(&pod.uid) {
            return self.end(&pod.uid, Some(pod));
        }
        let checkpoint = self.checkpoints.get(&pod.uid).and_then(Option::as_ref);
        let ending =
            checkpoint.and_then(|checkpoint| checkpoint.ending.clone()).unwrap_or_else(|| ending_of(pod));
        let (pod, references) = (pod.clone(), references.clone());
        self.spawn(Assignment {
            pod,
            references,
            ending: Some(ending),
            is_confirmed: true,
            refused_edit: None,
            returned_at: None,
        });
    }

    /// Terminates orphaned pods: they exist in the engine or on disk, but are not desired.
    fn end_orphans(&mut self, desired: &Desired) {
        let nameless =
            |uid: &PodUid| KnownPod { uid: uid.clone(), namespace: String::new(), name: String::new() };
        let on_disk = self.checkpoints.keys().map(nameless);
        for orphan in self.deps.pleg.known().into_iter().chain(on_disk.collect::<Vec<_>>()) {
            let checkpoint = self.checkpoints.get(&orphan.uid).and_then(Option::as_ref);
            let source = checkpoint.map(|checkpoint| SourceKind::of(&checkpoint.pod));
            if let Some((checkpoint, source)) =
                checkpoint.zip(source).filter(|(_, source)| desired.unconfigured.contains(source))
                && self.unmanaged.insert(orphan.uid.clone())
            {
                warn_unmanaged(&checkpoint.pod, source);
            }
            if desired.is_unwanted(&orphan.uid, source) && !self.workers.contains_key(&orphan.uid) {
                self.end_orphan(orphan, desired.references_of(source.unwrap_or(SourceKind::File)).clone());
            }
        }
    }

    /// Terminates an orphaned pod. Its checkpoint or its container labels describe it.
    fn end_orphan(&mut self, orphan: KnownPod, references: Arc<References>) {
        let checkpoint = self.checkpoints.get(&orphan.uid).and_then(Option::as_ref);
        let pod =
            checkpoint.map_or_else(|| Arc::new(placeholder(&orphan)), |checkpoint| checkpoint.pod.clone());
        let noted = checkpoint.and_then(|checkpoint| checkpoint.ending.clone());
        let source = SourceKind::of(&pod);
        let pod = Arc::new(DesiredPod { uid: orphan.uid, pod, source });
        let ending = noted.unwrap_or_else(|| ending_of(&pod));
        self.spawn(Assignment {
            pod,
            references,
            ending: Some(ending),
            is_confirmed: true,
            refused_edit: None,
            returned_at: None,
        });
    }

    /// Loads the checkpoints of an earlier kubelet process. Its admitted pods are not checked again, and its terminating pods
    /// use their resources until they are gone.
    async fn load_checkpoints(&mut self) {
        let uids = self.deps.volumes.on_disk().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot list the directories of pods");
            Vec::new()
        });
        for uid in uids {
            let checkpoint = checkpoint::load(&self.deps.root_dir, &uid).await;
            if let Some(checkpoint) = &checkpoint {
                let pod = DesiredPod {
                    uid: uid.clone(),
                    pod: checkpoint.pod.clone(),
                    source: SourceKind::of(&checkpoint.pod),
                };
                self.admission.adopt(Arc::new(pod));
                if checkpoint.history.terminal.is_some() {
                    self.admission.finish(&uid);
                }
            }
            self.checkpoints.insert(uid, checkpoint);
        }
    }

    /// Reports rejections. A rejected pod gets the phase Failed. A rejected edit causes an event, and the running
    /// version continues.
    fn report_rejected(&mut self, desired: &Desired, rejected: BTreeMap<PodUid, Rejection>) {
        for (uid, rejection) in &rejected {
            let Some(wanted) = desired.pods.get(uid) else { continue };
            // The message is not compared, because it describes other pods' usage, which changes often.
            let runs = self.workers.contains_key(uid);
            let reported = self.rejected.get(uid);
            let is_reported = |reported: &ReportedRejection| {
                Arc::ptr_eq(&reported.pod, wanted)
                    && reported.reason == rejection.reason
                    && reported.runs == runs
            };
            if reported.is_some_and(is_reported) {
                continue;
            }
            let message = if runs {
                format!("The edit was rejected, the previous version keeps running: {}", rejection.message)
            } else {
                rejection.message.clone()
            };
            let about = About::pod(&wanted.pod);
            self.deps.outbox.note(about, Severity::Warning, rejection.reason.clone(), message);
            if !runs {
                self.show_rejected(wanted, rejection);
            }
        }
        for uid in self.rejected.keys() {
            if !desired.pods.contains_key(uid) && !self.workers.contains_key(uid) {
                self.deps.outbox.report(uid.clone(), Report::Gone);
            }
        }
        let reported = rejected.into_iter().filter_map(|(uid, why)| {
            let runs = self.workers.contains_key(&uid);
            Some((
                uid.clone(),
                ReportedRejection { pod: desired.pods.get(&uid)?.clone(), reason: why.reason, runs },
            ))
        });
        self.rejected = reported.collect();
    }

    fn show_rejected(&self, wanted: &DesiredPod, rejection: &Rejection) {
        let report = failed(wanted, &rejection.reason, &rejection.message);
        self.deps.outbox.report(wanted.uid.clone(), report);
    }

    /// Reports pods of the API server as failed if a local pod has the same name and they have no containers here.
    fn report_name_conflicts(&mut self, desired: &Desired) {
        for uid in self.name_conflicts.keys().filter(|uid| !desired.name_conflicts.contains_key(*uid)) {
            if !desired.pods.contains_key(uid) && !self.workers.contains_key(uid) {
                self.deps.outbox.report_to_cluster(uid, &Report::Gone);
            }
        }
        self.name_conflicts.retain(|uid, _| desired.name_conflicts.contains_key(uid));
        for (uid, (pod, origin)) in &desired.name_conflicts {
            let is_reported = self.name_conflicts.get(uid) == Some(&pod.is_terminating());
            if is_reported || self.workers.contains_key(uid) {
                continue;
            }
            self.name_conflicts.insert(uid.clone(), pod.is_terminating());
            if pod.is_terminating() {
                self.deps.outbox.report_to_cluster(uid, &Report::Gone);
                continue;
            }
            let message = format!(
                "a local pod of this node has the same name, from {origin}: delete this one, or rename one of them"
            );
            self.deps.outbox.report_to_cluster(uid, &failed(pod, POD_NAME_IN_USE, &message));
            self.deps.outbox.note(About::pod(&pod.pod), Severity::Warning, POD_NAME_IN_USE, message);
        }
    }

    /// Starts a worker with this assignment, or updates the one that runs.
    fn update(&mut self, wanted: Assignment) {
        let Some(worker) = self.workers.get(&wanted.pod.uid) else {
            // Of two pods with the same name, the second starts after the first has ended.
            let has_namesake =
                self.workers.values().any(|other| has_same_name(&other.borrow().pod.pod, &wanted.pod.pod));
            if !has_namesake {
                self.spawn(wanted);
            }
            return;
        };
        worker.send_if_modified(|assignment| {
            let is_same = Arc::ptr_eq(&assignment.references, &wanted.references)
                && (Arc::ptr_eq(&assignment.pod, &wanted.pod) || assignment.pod == wanted.pod)
                && assignment.is_confirmed == wanted.is_confirmed
                && assignment.refused_edit == wanted.refused_edit
                && assignment.returned_at == wanted.returned_at;
            if is_same || assignment.ending.is_some() {
                return false;
            }
            *assignment = wanted;
            true
        });
    }

    /// Terminates a pod. Uses its last desired version, or the version that the API server reports now.
    fn end(&mut self, uid: &PodUid, reported: Option<&Arc<DesiredPod>>) {
        let Some(worker) = self.workers.get(uid) else { return };
        worker.send_if_modified(|assignment| {
            let pod = reported.unwrap_or(&assignment.pod).clone();
            let mut ending = ending_of(&pod);
            if let Some(before) = &assignment.ending {
                // The grace period can only become shorter. A pod that was removed by force is not waited for.
                if reported.is_none() {
                    ending.grace_seconds =
                        if pod.is_terminating() { FORCED_GRACE_SECONDS } else { before.grace_seconds };
                }
                if before.grace_seconds <= ending.grace_seconds {
                    return false;
                }
                ending.since = before.since;
            }
            assignment.pod = pod;
            assignment.ending = Some(ending);
            true
        });
    }

    fn spawn(&mut self, assignment: Assignment) {
        let uid = assignment.pod.uid.clone();
        let (sender, receiver) = watch::channel(assignment);
        let checkpoint = self.checkpoints.remove(&uid).flatten();
        self.workers.insert(uid, sender);
        self.tasks.spawn(pod_worker::run(self.deps.clone(), receiver, checkpoint));
    }
}

/// Logs that a pod of an unconfigured source keeps running, with the remedy.
fn warn_unmanaged(pod: &Pod, source: SourceKind) {
    let flag = match source {
        SourceKind::Http => "--manifest-url",
        SourceKind::Api => "--bootstrap or --kubeconfig",
        SourceKind::File | SourceKind::Push => "--pod-manifest-path",
    };
    let metadata = &pod.metadata;
    let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
    tracing::warn!(
        pod = format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default()),
        uid = metadata.uid,
        "a pod of an unconfigured source keeps running: set {flag} again as before, or remove its containers (docker rm)"
    );
}

/// The report for a rejected pod.
fn failed(wanted: &DesiredPod, reason: &str, message: &str) -> Report {
    let status = PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(format!("Pod was rejected: {message}")),
        start_time: Some(Time(Timestamp::now())),
        ..PodStatus::default()
    };
    Report::Status { pod: wanted.pod.clone(), status: Arc::new(status), deletion: None }
}

/// The request to terminate a pod now, with the grace period of its deletion or its own.
fn ending_of(pod: &DesiredPod) -> Ending {
    let given = pod.pod.metadata.deletion_grace_period_seconds.filter(|_| pod.is_terminating());
    let own = spec(&pod.pod).termination_grace_period_seconds;
    let grace_seconds = given.or(own).unwrap_or(DEFAULT_GRACE_SECONDS);
    Ending { since: Timestamp::now(), grace_seconds }
}

/// Whether two different pods have the same name.
fn has_same_name(one: &Pod, other: &Pod) -> bool {
    let (one, other) = (&one.metadata, &other.metadata);
    one.uid != other.uid && one.name == other.name && one.namespace == other.namespace
}

/// Returns a pod with only metadata, for orphaned containers without a checkpoint.
fn placeholder(orphan: &KnownPod) -> Pod {
    let metadata = ObjectMeta {
        name: Some(orphan.name.clone()),
        namespace: Some(orphan.namespace.clone()),
        uid: Some(orphan.uid.as_str().to_owned()),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: Some(PodSpec::default()), ..Pod::default() }
}
