//! Scheduler state: cache, queue and pending decisions. Pure: the current time is an argument.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::claim_waits::ClaimWaits;
use super::cluster::{Cluster, PodChange};
use super::config::{Config, ScoringStrategy};
use super::extender::{Extender, ExtenderResults, PreemptionOffer};
use super::filter::Plugin;
use super::node::Node;
use super::pod::{Pod, SpreadConstraint};
use super::preempt::{self, Budgets, Candidate, PreemptionResult};
use super::queue::Queue;
use super::schedule_one::{
    FeasibleNodes, FitError, Rotation, ScheduleResult, Scoring, Selection, find_feasible_nodes, schedule_pod,
    select_after_extenders,
};
use super::selector_sources::SelectorSources;
use super::volumes::{ClaimBinding, Volumes};
use crate::objects::labels::Labels;

/// A decision about one pod.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Bind the pod. It is already assumed on the node.
    Bind {
        pod: Arc<Pod>,
        /// Name of the node.
        node: String,
    },
    /// Write the bindings of the pod's claims. The pod is assumed on the node, and is bound once its claims are.
    BindClaims { pod: Arc<Pod>, claims: Vec<ClaimBinding> },
    /// Report that the claims of an assumed pod could not be bound, after [`State::bind_failed`].
    ClaimsFailed {
        pod: Arc<Pod>,
        /// The error message.
        words: String,
    },
    /// Let extenders filter and score the nodes, then call [`State::extenders_answered`].
    AskExtenders {
        pod: Arc<Pod>,
        /// The nodes that passed the filters.
        feasible: FeasibleNodes,
    },
    /// Let extenders choose the victims, then call [`State::preemption_answered`].
    AskPreemption {
        pod: Arc<Pod>,
        /// Why no node fits.
        fit_error: FitError,
        /// The possible victims for each candidate node.
        offers: Vec<PreemptionOffer>,
    },
    /// Report the pod as unschedulable.
    Unschedulable {
        pod: Arc<Pod>,
        /// Message of the event and of the condition.
        words: String,
        /// Reason of the PodScheduled condition.
        reason: &'static str,
        /// Change of the nominated node.
        nomination: Nomination,
    },
}

/// Change of a pod's nominated node.
#[derive(Clone, Debug)]
pub enum Nomination {
    /// The nomination stays as it is.
    Unchanged,
    /// The nomination is cleared.
    Cleared,
    /// The pod is nominated after preemption.
    Nominated {
        /// Name of the node.
        node: String,
        /// Pods to delete.
        victims: Vec<Arc<Pod>>,
        /// Less important pods that lose their nomination to this node.
        superseded: Vec<Arc<Pod>>,
    },
}

/// Reason of the PodScheduled condition if no node fits.
const UNSCHEDULABLE: &str = "Unschedulable";
/// Reason of the PodScheduled condition if an extender or a write failed.
pub const SCHEDULER_ERROR: &str = "SchedulerError";

/// Maximum number of pods that extenders handle at once. It limits the calls, and the pods that a slow extender
/// delays.
const MAX_AT_EXTENDERS: usize = 32;

/// Plugins that may accept pods after a pod was added or relabelled.
const POD_ADDED: &[Plugin] = &[Plugin::InterPodAffinity, Plugin::PodTopologySpread];
/// Plugins that may accept pods after a pod was removed.
const POD_REMOVED: &[Plugin] = &[
    Plugin::NodeResourcesFit,
    Plugin::NodePorts,
    Plugin::InterPodAffinity,
    Plugin::PodTopologySpread,
    Plugin::VolumeBinding,
];

/// The informers of the scheduler. Scheduling starts when all of them have synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InformerKind {
    Nodes,
    Pods,
    Namespaces,
    /// PodDisruptionBudget.
    Budgets,
    /// PersistentVolumeClaim.
    Claims,
    /// PersistentVolume.
    Volumes,
    /// StorageClass.
    Classes,
    Services,
    /// ReplicationController.
    Controllers,
    ReplicaSets,
    StatefulSets,
}

impl InformerKind {
    pub(super) const ALL: [Self; 11] = [
        Self::Nodes,
        Self::Pods,
        Self::Namespaces,
        Self::Budgets,
        Self::Claims,
        Self::Volumes,
        Self::Classes,
        Self::Services,
        Self::Controllers,
        Self::ReplicaSets,
        Self::StatefulSets,
    ];
}

/// The state of the scheduler.
#[derive(Debug)]
pub struct State {
    /// Scoring strategies by scheduler name.
    profiles: HashMap<String, ScoringStrategy>,
    cluster: Cluster,
    queue: Queue,
    rotation: Rotation,
    budgets: Budgets,
    selector_sources: SelectorSources,
    synced: HashSet<InformerKind>,
    extenders: Arc<[Extender]>,
    /// Number of pods that extenders handle now. [`Self::extenders_answered`], [`Self::preemption_answered`] and
    /// [`Self::extender_bind_finished`] decrement it.
    at_extenders: usize,
    claim_waits: ClaimWaits,
}

impl State {
    /// Creates the initial state, before any informer has synced.
    pub fn of(config: &Config) -> Self {
        let named = config.profiles.iter().map(|profile| (profile.name.clone(), profile.strategy));
        let ignored_resources =
            config.extenders.iter().flat_map(|extender| extender.ignored_resources.iter().cloned());
        let cluster = Cluster::without(ignored_resources.collect());
        Self {
            profiles: named.collect(),
            cluster,
            queue: Queue::default(),
            rotation: Rotation::default(),
            budgets: Budgets::default(),
            selector_sources: SelectorSources::default(),
            synced: HashSet::new(),
            extenders: config.extenders.clone(),
            at_extenders: 0,
            claim_waits: ClaimWaits::default(),
        }
    }

    /// Records that an informer has synced.
    pub fn mark_synced(&mut self, informer: InformerKind) {
        self.synced.insert(informer);
    }

    /// Adds or updates a pod.
    pub fn put_pod(&mut self, pod: Pod, now: Instant) {
        if pod.is_terminal {
            return self.remove_pod(&pod.uid, now);
        }
        if !pod.node.is_empty() {
            self.queue.remove(&pod.uid);
            let nominated_node = self.cluster.nominated_pods_mut().remove(&pod.uid);
            let pod = Arc::new(pod);
            match self.cluster.put_pod(pod.clone(), &pod.node, false) {
                // Most status updates do not concern scheduling.
                PodChange::Unchanged => {}
                PodChange::Added => self.queue.pod_added(&pod, self.cluster.namespaces(), now),
                PodChange::Changed => self.queue.event_happened(POD_ADDED, now),
                PodChange::Freed => self.queue.event_happened(POD_REMOVED, now),
            }
            if nominated_node.is_some_and(|nominated_node| nominated_node != pod.node) {
                self.queue.event_happened(POD_REMOVED, now);
            }
            return;
        }
        // An assumed pod stays assumed until its binding fails. Then its latest version is scheduled.
        if self.cluster.has(&pod.uid) {
            if self.queue.has(&pod.uid) {
                self.queue.put(Arc::new(pod), now);
            }
            return;
        }
        if self.profiles.contains_key(&pod.scheduler_name) && !pod.spec.is_terminating {
            let pod = Arc::new(pod);
            if self.cluster.nominated_pods_mut().update(&pod) {
                self.queue.event_caused_by(&pod.uid, POD_REMOVED, now);
            }
            self.queue.put(pod, now);
        } else {
            self.remove_pod(&pod.uid, now);
        }
    }

    /// Removes a pod that was deleted or has terminated.
    pub fn remove_pod(&mut self, uid: &str, now: Instant) {
        self.queue.remove(uid);
        let was_promised = self.cluster.nominated_pods_mut().remove(uid).is_some();
        if self.cluster.remove_pod(uid).is_some() || was_promised {
            self.queue.event_happened(POD_REMOVED, now);
        }
    }

    pub fn replace_pods(&mut self, pods: Vec<Pod>, now: Instant) {
        let there: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        let known = self.cluster.pods().chain(self.queue.pods());
        let gone: Vec<String> = known.filter(|uid| !there.contains(uid)).map(str::to_owned).collect();
        gone.iter().for_each(|uid| self.remove_pod(uid, now));
        pods.into_iter().for_each(|pod| self.put_pod(pod, now));
    }

    /// Adds or updates a Node.
    pub fn put_node(&mut self, node: Node, now: Instant) {
        let Some(change) = self.cluster.put_node(node) else { return };
        let mut plugins = Vec::new();
        if change.is_new {
            plugins.extend(Plugin::ALL);
        }
        if change.resources {
            plugins.push(Plugin::NodeResourcesFit);
        }
        if change.labels {
            plugins.extend([
                Plugin::NodeAffinity,
                Plugin::InterPodAffinity,
                Plugin::PodTopologySpread,
                Plugin::VolumeBinding,
            ]);
        }
        if change.taints {
            plugins.extend([Plugin::TaintToleration, Plugin::NodeUnschedulable, Plugin::PodTopologySpread]);
        }
        self.queue.event_happened(&plugins, now);
    }

    pub fn remove_node(&mut self, name: &str, now: Instant) {
        self.cluster.remove_node(name);
        self.queue.event_happened(&[Plugin::PodTopologySpread], now);
    }

    pub fn replace_nodes(&mut self, nodes: Vec<Node>, now: Instant) {
        let there: HashSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let gone: Vec<String> =
            self.cluster.names().filter(|name| !there.contains(name)).map(str::to_owned).collect();
        gone.iter().for_each(|name| self.remove_node(name, now));
        nodes.into_iter().for_each(|node| self.put_node(node, now));
    }

    /// Sets the labels of a namespace, or removes it.
    pub fn put_namespace(&mut self, name: &str, labels: Option<Labels>, now: Instant) {
        self.cluster.put_namespace(name, labels);
        self.queue.event_happened(&[Plugin::InterPodAffinity], now);
    }

    pub fn replace_namespaces(&mut self, namespaces: Vec<(String, Labels)>, now: Instant) {
        for name in self.cluster.namespace_names() {
            if !namespaces.iter().any(|(there, _)| *there == name) {
                self.put_namespace(&name, None, now);
            }
        }
        for (name, labels) in namespaces {
            self.put_namespace(&name, Some(labels), now);
        }
    }

    /// The PodDisruptionBudgets, to be changed. Changes requeue no pods.
    pub fn budgets(&mut self) -> &mut Budgets {
        &mut self.budgets
    }

    /// Mutable access to the objects with pod selectors. Their changes requeue no pods.
    pub fn selector_sources(&mut self) -> &mut SelectorSources {
        &mut self.selector_sources
    }

    /// Mutable access to claims, volumes and storage classes. Requeues the pods that VolumeBinding rejected.
    pub fn volumes(&mut self, now: Instant) -> &mut Volumes {
        self.queue.event_happened(&[Plugin::VolumeBinding], now);
        self.cluster.volumes_mut()
    }

    /// Makes the next decision.
    ///
    /// # Errors
    /// If there is nothing to decide. The error is the time of the next retry, if any. Until then, only events can
    /// cause a decision.
    pub fn next(&mut self, now: Instant) -> Result<Decision, Option<Instant>> {
        if !InformerKind::ALL.iter().all(|informer| self.synced.contains(informer)) {
            return Err(None);
        }
        if self.at_extenders < MAX_AT_EXTENDERS {
            self.queue.admit_awaiting();
        }
        if let Some(decision) = self.next_claim_wait(now) {
            return Ok(decision);
        }
        let end = self.claim_waits.next_end();
        loop {
            let pod = self.queue.take(now).map_err(|at| at.into_iter().chain(end).min())?;
            if let Some(decision) = self.decide(pod, now) {
                return Ok(decision);
            }
        }
    }

    /// Schedules a pod. Returns `None` if extenders must handle the pod later.
    fn decide(&mut self, pod: Arc<Pod>, now: Instant) -> Option<Decision> {
        let is_requested = self.extenders.iter().any(|extender| extender.filters_or_prioritizes(&pod));
        let needs_slot = is_requested || self.extenders.iter().any(|extender| extender.is_binder(&pod));
        if needs_slot && self.at_extenders >= MAX_AT_EXTENDERS {
            self.queue.await_extender(&pod.uid);
            return None;
        }
        let default_constraints = self.prepare(&pod);
        if is_requested {
            let feasible = find_feasible_nodes(&mut self.cluster, &pod, &mut self.rotation);
            return self.call_extender(pod, feasible, now);
        }
        let scoring = Scoring { default_constraints: &default_constraints, strategy: self.strategy(&pod) };
        let placement = schedule_pod(&mut self.cluster, &pod, &scoring, &mut self.rotation);
        self.placed(pod, placement, now)
    }

    fn strategy(&self, pod: &Pod) -> ScoringStrategy {
        self.profiles.get(&pod.scheduler_name).copied().unwrap_or_default()
    }

    fn call_extender(&mut self, pod: Arc<Pod>, feasible: FeasibleNodes, now: Instant) -> Option<Decision> {
        match feasible.into_fit_error() {
            Err(feasible) => {
                self.at_extenders += 1;
                Some(Decision::AskExtenders { pod, feasible })
            }
            Ok(fit_error) => self.handle_unschedulable(pod, fit_error, now),
        }
    }

    /// Continues after extenders filtered and scored the nodes, or failed. Returns `None` if the pod changed in the
    /// meantime.
    pub fn extenders_answered(
        &mut self,
        pod: &Pod,
        feasible: FeasibleNodes,
        results: Result<ExtenderResults, String>,
        now: Instant,
    ) -> Option<Decision> {
        self.release_extender_slot();
        let pod = self.queue.in_flight(&pod.uid)?;
        let results = match results {
            Ok(results) => results,
            Err(words) => {
                self.queue.failed_with_error(&pod.uid, now);
                return Some(Decision::Unschedulable {
                    pod,
                    words,
                    reason: SCHEDULER_ERROR,
                    nomination: Nomination::Unchanged,
                });
            }
        };
        let default_constraints = self.prepare(&pod);
        let scoring = Scoring { default_constraints: &default_constraints, strategy: self.strategy(&pod) };
        match select_after_extenders(
            &mut self.cluster,
            &pod,
            feasible,
            (&results, &scoring),
            &mut self.rotation,
        ) {
            Selection::Done(placement) => self.placed(pod, placement, now),
            Selection::Stale => {
                self.queue.requeue(&pod.uid);
                None
            }
            Selection::Retry(feasible) => self.call_extender(pod, feasible, now),
        }
    }

    /// Records that extenders handle one pod fewer.
    fn release_extender_slot(&mut self) {
        self.at_extenders = self.at_extenders.saturating_sub(1);
    }

    /// Continues after extenders chose the victims, or failed. Returns `None` if the pod changed in the meantime.
    pub fn preemption_answered(
        &mut self,
        pod: Arc<Pod>,
        fit_error: &FitError,
        offers: Result<Vec<PreemptionOffer>, String>,
        now: Instant,
    ) -> Option<Decision> {
        self.release_extender_slot();
        if self.cluster.has(&pod.uid) || self.queue.in_flight(&pod.uid).is_none() {
            return None;
        }
        self.queue.unschedulable(&pod.uid, fit_error.plugins(), now);
        let preemption = match offers {
            Ok(offers) => {
                let candidate = |PreemptionOffer { node, victims, violations }: PreemptionOffer| {
                    let (node, ..) = self.cluster.node_named(&node)?;
                    Some(Candidate { node, victims, violations })
                };
                PreemptionResult::of(offers.into_iter().filter_map(candidate).collect())
            }
            Err(why) => {
                self.queue.retry_unschedulable(&pod.uid, now);
                PreemptionResult::NotEligible(why)
            }
        };
        let words = fit_error.message(preemption.message());
        let nomination = self.nominate(&pod, preemption, now);
        Some(Decision::Unschedulable { nomination, pod, words, reason: UNSCHEDULABLE })
    }

    /// Starts to count the terms of the pod. Returns the default spread constraints.
    fn prepare(&mut self, pod: &Pod) -> Vec<SpreadConstraint> {
        self.cluster.evict_unused_terms();
        self.cluster.count_terms_of(pod);
        let default_constraints = self.selector_sources.spread(pod);
        self.cluster.count_terms(default_constraints.iter().map(|spread| &spread.term));
        default_constraints
    }

    fn placed(&mut self, pod: Arc<Pod>, placement: ScheduleResult, now: Instant) -> Option<Decision> {
        match placement {
            ScheduleResult::Node(node) => {
                let claims = self.cluster.assume_claims(&pod, &node);
                // The nomination is kept in case the binding fails.
                self.cluster.put_pod(pod.clone(), &node, true);
                Some(if claims.is_empty() {
                    self.bind(pod, node)
                } else {
                    self.claim_waits.start(&pod, &node, &claims, now);
                    Decision::BindClaims { pod, claims }
                })
            }
            ScheduleResult::Unschedulable(fit_error) => self.handle_unschedulable(pod, fit_error, now),
        }
    }

    fn bind(&mut self, pod: Arc<Pod>, node: String) -> Decision {
        if self.extenders.iter().any(|extender| extender.is_binder(&pod)) {
            self.at_extenders += 1;
        }
        Decision::Bind { pod, node }
    }

    /// The decision about an assumed pod whose wait for its claims has ended.
    fn next_claim_wait(&mut self, now: Instant) -> Option<Decision> {
        let (ended, result) = self.claim_waits.take_ended(&mut self.cluster, now)?;
        match result {
            Ok(()) => Some(self.bind(ended.pod, ended.node)),
            Err(words) => {
                self.bind_failed(&ended.pod.uid, now);
                Some(Decision::ClaimsFailed { pod: ended.pod, words })
            }
        }
    }

    /// Handles a pod that fits no node: tries preemption. Returns `None` if the pod has to wait for extenders.
    fn handle_unschedulable(&mut self, pod: Arc<Pod>, fit_error: FitError, now: Instant) -> Option<Decision> {
        let is_requested = self.extenders.iter().any(|extender| extender.supports_preemption(&pod));
        if is_requested && self.at_extenders >= MAX_AT_EXTENDERS {
            self.queue.await_extender(&pod.uid);
            return None;
        }
        let (cluster, rotation) = (&mut self.cluster, &mut self.rotation);
        let preemption = match preempt::find_candidates(cluster, &pod, &fit_error, &self.budgets, rotation) {
            // The pod stays in flight until the extenders answer.
            Ok(found) if is_requested => {
                self.at_extenders += 1;
                let offer = |Candidate { node, victims, violations }: Candidate| {
                    let (_, node) = self.cluster.node(node)?;
                    Some(PreemptionOffer { node: node.name.clone(), victims, violations })
                };
                let offers = found.into_iter().filter_map(offer).collect();
                return Some(Decision::AskPreemption { pod, fit_error, offers });
            }
            Ok(found) => PreemptionResult::of(found),
            Err(preemption) => preemption,
        };
        self.queue.unschedulable(&pod.uid, fit_error.plugins(), now);
        let words = fit_error.message(preemption.message());
        let nomination = self.nominate(&pod, preemption, now);
        Some(Decision::Unschedulable { nomination, pod, words, reason: UNSCHEDULABLE })
    }

    fn nominate(&mut self, pod: &Arc<Pod>, preemption: PreemptionResult, now: Instant) -> Nomination {
        let found = match preemption {
            PreemptionResult::Victims(found) => found,
            PreemptionResult::NotEligible(_) => return Nomination::Unchanged,
            PreemptionResult::NoCandidate(_) => {
                if self.cluster.nominated_pods_mut().remove(&pod.uid).is_some() {
                    self.queue.event_caused_by(&pod.uid, POD_REMOVED, now);
                }
                return Nomination::Cleared;
            }
        };
        let name = self.cluster.node(found.node).map(|(_, node)| node.name.clone());
        let Some(node) = name else { return Nomination::Unchanged };
        let mut superseded = self.cluster.nominated_pods().less_important_on(pod, &node);
        // A pod that is being bound needs no nomination.
        superseded.retain(|other| !self.cluster.has(&other.uid));
        for other in &superseded {
            self.cluster.nominated_pods_mut().remove(&other.uid);
            self.queue.retry_unschedulable(&other.uid, now);
        }
        let before = self.cluster.nominated_pods().node_for(&pod.uid);
        if !superseded.is_empty() || before.is_some_and(|before| before != node) {
            self.queue.event_caused_by(&pod.uid, POD_REMOVED, now);
        }
        self.cluster.nominated_pods_mut().nominate(pod.clone(), &node);
        Nomination::Nominated { node, victims: found.victims, superseded }
    }

    /// Handles a failed deletion of a victim: retries the pod after its backoff.
    pub fn preemption_failed(&mut self, uid: &str, now: Instant) {
        self.queue.retry_unschedulable(uid, now);
    }

    /// Records that an extender has finished to bind a pod, with or without success.
    pub fn extender_bind_finished(&mut self) {
        self.release_extender_slot();
    }

    /// Handles a failed binding: removes the assumed pod and retries it after its backoff.
    pub fn bind_failed(&mut self, uid: &str, now: Instant) {
        self.claim_waits.cancel(uid, &mut self.cluster);
        if self.cluster.forget_assumed(uid) {
            self.queue.event_happened(POD_REMOVED, now);
        }
        if self.queue.in_flight(uid).is_some_and(|pod| pod.spec.is_terminating) {
            return self.remove_pod(uid, now);
        }
        self.queue.failed_with_error(uid, now);
    }
}

#[cfg(test)]
mod tests;
