//! Which pod has a worker: every desired pod, and every pod something is left of.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::references::References;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::orphan::named;
use super::record::{self, Record};
use super::{Assignment, Tools, run};
use crate::desired::{Admission, Node, Rejection};
use crate::desired::{Desired, DesiredPod, SourceKind};
use crate::observe::Known;
use crate::observed::{PodUid, Timestamp};
use crate::plan::{DEFAULT_GRACE_SECONDS, Ending, spec};
use crate::report::{About, Report, Severity};

/// What a pod is given that the master removes while it is being ended (`--force`); the least that the stock kubelet gives.
const FORCED_GRACE_SECONDS: i64 = 1;

/// The reason of a pod of the master whose name one of the node's own has.
const NAME_TAKEN: &str = "NameTaken";

/// Keeps one worker a pod.
pub struct Pool {
    tools: Arc<Tools>,
    workers: BTreeMap<PodUid, watch::Sender<Assignment>>,
    tasks: JoinSet<PodUid>,
    /// Who has been admitted and holds what.
    admission: Admission,
    /// What pods share.
    node: Node,
    /// Why pods and edits were rejected, as it was told.
    rejected: BTreeMap<PodUid, Told>,
    /// Pods of the master whose name another one has and that were told of, and whether as such that are to go.
    namesakes: BTreeMap<PodUid, bool>,
    /// Pods that are to go and of which nothing is left, for as long as the master names them.
    ended: BTreeSet<PodUid>,
    /// Pods of an earlier kubelet that have a directory and no worker yet, with what it wrote down of them.
    left: BTreeMap<PodUid, Option<Record>>,
    /// Those of them that are of a source that this kubelet does not ask, as it was told.
    left_alone: BTreeSet<PodUid>,
}

/// What was told of a rejected pod.
struct Told {
    pod: Arc<DesiredPod>,
    reason: Cow<'static, str>,
    /// A version before it ran, so that it was told as an edit.
    runs: bool,
}

impl Pool {
    /// A pool without workers, for a node of that size.
    pub fn new(tools: Arc<Tools>, node: Node) -> Self {
        Self {
            tools,
            workers: BTreeMap::new(),
            tasks: JoinSet::new(),
            admission: Admission::default(),
            node,
            rejected: BTreeMap::new(),
            namesakes: BTreeMap::new(),
            ended: BTreeSet::new(),
            left: BTreeMap::new(),
            left_alone: BTreeSet::new(),
        }
    }

    /// Follows what is desired until the sender is gone.
    pub async fn run(mut self, mut desired: watch::Receiver<Arc<Desired>>) {
        let mut found = self.tools.observer.found();
        let mut synced = self.tools.observer.synced();
        let tools = self.tools.clone();
        self.look_back().await;
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
                finished = tools.finished.take() => {
                    finished.iter().for_each(|uid| self.admission.finish(uid));
                    self.assign(&wanted);
                }
                _ = found.changed() => {}
                _ = synced.changed() => {}
                Some(ended) = self.tasks.join_next() => {
                    let uid = ended.expect("nobody cuts a worker off, and a panic ends the kubelet");
                    self.admission.release(&uid);
                    self.workers.remove(&uid);
                    if wanted.pods.get(&uid).is_some_and(|pod| pod.is_doomed()) {
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

    /// Gives every pod its worker and every worker its latest assignment.
    fn assign(&mut self, desired: &Desired) {
        self.node.facts = self.tools.facts.borrow().clone();
        let decision = self.admission.decide(desired, &self.node);
        for (uid, pod) in &decision.run {
            self.want(uid, pod, desired.references_of(pod.source));
        }
        self.ended.retain(|uid| desired.pods.contains_key(uid));
        for pod in desired.pods.values().filter(|pod| pod.is_doomed()) {
            self.doom(pod, desired.references_of(pod.source));
        }
        self.tell_rejected(desired, decision.rejected);
        self.tell_namesakes(desired);
        let is_unwanted = |(uid, worker): &(&PodUid, &watch::Sender<Assignment>)| {
            desired.is_unwanted(uid, Some(worker.borrow().pod.source))
        };
        let unwanted: Vec<PodUid> =
            self.workers.iter().filter(is_unwanted).map(|(uid, _)| uid.clone()).collect();
        for uid in unwanted {
            // One whose name another has now was not removed: it has the time that it is given.
            self.end(&uid, desired.namesakes.get(&uid).map(|(pod, _)| pod));
        }
    }

    /// Ends a pod that is to go, as it is told now; whatever is left of it, also when that is nothing, so that this is told.
    fn doom(&mut self, pod: &Arc<DesiredPod>, references: &Arc<References>) {
        if self.ended.contains(&pod.uid) {
            return;
        }
        if self.workers.contains_key(&pod.uid) {
            return self.end(&pod.uid, Some(pod));
        }
        let record = self.left.get(&pod.uid).and_then(Option::as_ref);
        let ending = record.and_then(|record| record.ending.clone()).unwrap_or_else(|| ending_of(pod));
        let (pod, references) = (pod.clone(), references.clone());
        self.spawn(Assignment { pod, references, ending: Some(ending) });
    }

    /// Ends what is there and nobody wants, in the engine or on disk.
    fn end_orphans(&mut self, desired: &Desired) {
        let nameless =
            |uid: &PodUid| Known { uid: uid.clone(), namespace: String::new(), name: String::new() };
        let on_disk = self.left.keys().map(nameless);
        for orphan in self.tools.observer.known().into_iter().chain(on_disk.collect::<Vec<_>>()) {
            let record = self.left.get(&orphan.uid).and_then(Option::as_ref);
            let source = record.map(|record| SourceKind::of(&record.pod));
            if let Some((record, source)) =
                record.zip(source).filter(|(_, source)| desired.unasked.contains(source))
                && self.left_alone.insert(orphan.uid.clone())
            {
                tell_left_alone(&record.pod, source);
            }
            if desired.is_unwanted(&orphan.uid, source) && !self.workers.contains_key(&orphan.uid) {
                self.end_orphan(orphan, desired.references_of(source.unwrap_or(SourceKind::File)).clone());
            }
        }
    }

    /// Ends a pod nobody wants any more, as far as it is known: from its record, else from its labels.
    fn end_orphan(&mut self, orphan: Known, references: Arc<References>) {
        let record = self.left.get(&orphan.uid).and_then(Option::as_ref);
        let pod = record.map_or_else(|| Arc::new(named(&orphan)), |record| record.pod.clone());
        let noted = record.and_then(|record| record.ending.clone());
        let source = SourceKind::of(&pod);
        let pod = Arc::new(DesiredPod { uid: orphan.uid, pod, source });
        let ending = noted.unwrap_or_else(|| ending_of(&pod));
        self.spawn(Assignment { pod, references, ending: Some(ending) });
    }

    /// Reads what an earlier kubelet wrote down. Pods it had admitted are not asked again whether they fit, and those it
    /// was ending hold what they held until nothing of them is left.
    async fn look_back(&mut self) {
        let uids = self.tools.volumes.on_disk().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot tell which pods left a directory");
            Vec::new()
        });
        for uid in uids {
            let record = record::load(&self.tools.root_dir, &uid).await;
            if let Some(record) = &record {
                let pod = DesiredPod {
                    uid: uid.clone(),
                    pod: record.pod.clone(),
                    source: SourceKind::of(&record.pod),
                };
                self.admission.adopt(Arc::new(pod));
                if record.history.terminal.is_some() {
                    self.admission.finish(&uid);
                }
            }
            self.left.insert(uid, record);
        }
    }

    /// A rejected pod is shown as failed; of a rejected edit there is an event, and what ran goes on.
    fn tell_rejected(&mut self, desired: &Desired, rejected: BTreeMap<PodUid, Rejection>) {
        for (uid, rejection) in &rejected {
            let Some(wanted) = desired.pods.get(uid) else { continue };
            // Not its message: that tells what others hold, which changes all the time.
            let runs = self.workers.contains_key(uid);
            let told = self.rejected.get(uid);
            let is_told = |told: &Told| {
                Arc::ptr_eq(&told.pod, wanted) && told.reason == rejection.reason && told.runs == runs
            };
            if told.is_some_and(is_told) {
                continue;
            }
            let message = if runs {
                format!("The edit is not taken over, what ran before goes on: {}", rejection.message)
            } else {
                rejection.message.clone()
            };
            tracing::warn!(pod = %uid, reason = %rejection.reason, message, "rejected");
            let about = About::pod(&wanted.pod);
            self.tools.outbox.note(about, Severity::Warning, rejection.reason.clone(), message);
            if !runs {
                self.show_rejected(wanted, rejection);
            }
        }
        for uid in self.rejected.keys() {
            if !desired.pods.contains_key(uid) && !self.workers.contains_key(uid) {
                self.tools.outbox.report(uid.clone(), Report::Gone);
            }
        }
        let told = rejected.into_iter().filter_map(|(uid, why)| {
            let runs = self.workers.contains_key(&uid);
            Some((uid.clone(), Told { pod: desired.pods.get(&uid)?.clone(), reason: why.reason, runs }))
        });
        self.rejected = told.collect();
    }

    fn show_rejected(&self, wanted: &DesiredPod, rejection: &Rejection) {
        let report = failed(wanted, &rejection.reason, &rejection.message);
        self.tools.outbox.report(wanted.uid.clone(), report);
    }

    /// A pod of the master whose name one of the node's own has is failed there, once nothing of it is left here.
    fn tell_namesakes(&mut self, desired: &Desired) {
        for uid in self.namesakes.keys().filter(|uid| !desired.namesakes.contains_key(*uid)) {
            if !desired.pods.contains_key(uid) && !self.workers.contains_key(uid) {
                self.tools.outbox.tell_cluster(uid, &Report::Gone);
            }
        }
        self.namesakes.retain(|uid, _| desired.namesakes.contains_key(uid));
        for (uid, (pod, origin)) in &desired.namesakes {
            let is_told = self.namesakes.get(uid) == Some(&pod.is_doomed());
            if is_told || self.workers.contains_key(uid) {
                continue;
            }
            self.namesakes.insert(uid.clone(), pod.is_doomed());
            if pod.is_doomed() {
                self.tools.outbox.tell_cluster(uid, &Report::Gone);
                continue;
            }
            let message = format!(
                "this node has a pod of its own of that name, from {origin}: delete this one, or rename one of them"
            );
            tracing::warn!(pod = %uid, reason = NAME_TAKEN, message, "rejected");
            self.tools.outbox.tell_cluster(uid, &failed(pod, NAME_TAKEN, &message));
            self.tools.outbox.note(About::pod(&pod.pod), Severity::Warning, NAME_TAKEN, message);
        }
    }

    fn want(&mut self, uid: &PodUid, pod: &Arc<DesiredPod>, references: &Arc<References>) {
        let Some(worker) = self.workers.get(uid) else {
            // Of two pods of one name, the first is ended before the second begins.
            if !self.workers.values().any(|other| is_namesake(&other.borrow().pod.pod, &pod.pod)) {
                let assignment =
                    Assignment { pod: pod.clone(), references: references.clone(), ending: None };
                self.spawn(assignment);
            }
            return;
        };
        worker.send_if_modified(|assignment| {
            let is_same = Arc::ptr_eq(&assignment.references, references)
                && (Arc::ptr_eq(&assignment.pod, pod) || assignment.pod == *pod);
            if is_same || assignment.ending.is_some() {
                return false;
            }
            assignment.pod = pod.clone();
            assignment.references = references.clone();
            true
        });
    }

    /// Ends a pod as it was last wanted, or as it is told now.
    fn end(&mut self, uid: &PodUid, told: Option<&Arc<DesiredPod>>) {
        let Some(worker) = self.workers.get(uid) else { return };
        worker.send_if_modified(|assignment| {
            let pod = told.unwrap_or(&assignment.pod).clone();
            let mut ending = ending_of(&pod);
            if let Some(before) = &assignment.ending {
                // It may have been given less time since; one that is removed though it has not ended yet is not waited for.
                if told.is_none() {
                    ending.grace_seconds =
                        if pod.is_doomed() { FORCED_GRACE_SECONDS } else { before.grace_seconds };
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
        let record = self.left.remove(&uid).flatten();
        self.workers.insert(uid, sender);
        self.tasks.spawn(run::work(self.tools.clone(), receiver, record));
    }
}

/// Says that a pod of an earlier kubelet runs on unseen, and what to do.
fn tell_left_alone(pod: &Pod, source: SourceKind) {
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
        "a pod runs on that this kubelet was not started for: give {flag} again as before, or remove its containers (docker rm)"
    );
}

/// That a pod was not let in.
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

/// How a pod ends that ends now: in the time that the master gives it, or its own.
fn ending_of(pod: &DesiredPod) -> Ending {
    let given = pod.pod.metadata.deletion_grace_period_seconds.filter(|_| pod.is_doomed());
    let own = spec(&pod.pod).termination_grace_period_seconds;
    let grace_seconds = given.or(own).unwrap_or(DEFAULT_GRACE_SECONDS);
    Ending { since: Timestamp::now(), grace_seconds }
}

/// Whether both bear one name, and are not one.
fn is_namesake(one: &Pod, other: &Pod) -> bool {
    let (one, other) = (&one.metadata, &other.metadata);
    one.uid != other.uid && one.name == other.name && one.namespace == other.namespace
}
