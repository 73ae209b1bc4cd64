//! Scheduling queue: active pods, pods in backoff and unschedulable pods, with requeueing by cluster events. Pure.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use client::backoff::{NO_JITTER, exponential_delay};
use tokio::time::Instant;

use super::filter::Plugin;
use super::pod::Pod;
use super::topology_counts::Namespaces;

/// Backoff after the first failure, as in the stock scheduler. It doubles with each further failure.
const INITIAL_BACKOFF: Duration = Duration::from_secs(1);
/// Maximum backoff, as in the stock scheduler.
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// How long an unschedulable pod waits for an event before it is retried anyway, in case an event was missed.
const UNSCHEDULABLE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Order of active pods: higher priority first, then the pod that waits longest (a clock value).
type Rank = (Reverse<i64>, u64);

/// Where a pod is in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueState {
    /// The pod is ready to be scheduled.
    Active(Rank),
    /// The pod is in backoff until this time.
    Backoff(Instant),
    /// The pod has waited for a cluster event since this time.
    Unschedulable(Instant),
    /// The pod waits until all scheduling gates are removed.
    Gated,
    /// The pod is being scheduled. The value is the clock value when scheduling began.
    InFlight(u64),
    /// The pod waits until extenders handle fewer pods. It keeps its rank.
    AwaitingExtender(Rank),
}

#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    state: QueueState,
    failures: u32,
    /// Time of the last failure.
    failed: Option<Instant>,
    /// The plugins that rejected the pod.
    plugins: BTreeSet<Plugin>,
    /// Whether the scheduling spec changed while the pod was being scheduled.
    is_edited: bool,
}

/// All pending pods. Each is in one state.
#[derive(Debug, Default)]
pub struct Queue {
    entries: HashMap<String, Entry>,
    active: BTreeSet<(Rank, String)>,
    backoff: BTreeSet<(Instant, String)>,
    unschedulable: BTreeSet<(Instant, String)>,
    awaiting_extender: BTreeSet<(Rank, String)>,
    /// Logical clock: incremented by events and arrivals.
    clock: u64,
    /// Clock value of the last event that concerns a plugin.
    last_event: HashMap<Plugin, u64>,
    /// Unschedulable pods, by the plugins that rejected them.
    by_plugin: HashMap<Plugin, BTreeSet<(Instant, String)>>,
}

impl Queue {
    /// Adds or updates a pending pod.
    pub fn put(&mut self, pod: Arc<Pod>, now: Instant) {
        let uid = pod.uid.clone();
        match self.entries.get_mut(&uid) {
            None => {
                let is_gated = pod.spec.is_gated;
                let (state, plugins) = (QueueState::Gated, BTreeSet::new());
                let entry = Entry { pod, state, failures: 0, failed: None, plugins, is_edited: false };
                self.entries.insert(uid.clone(), entry);
                if !is_gated {
                    self.activate(&uid);
                }
            }
            Some(entry) => {
                let is_same = entry.pod.spec == pod.spec;
                let is_gated = pod.spec.is_gated;
                entry.pod = pod;
                match entry.state {
                    // The scheduling attempt may have read the old spec. Its failure then requeues the pod.
                    QueueState::InFlight(_) => entry.is_edited |= !is_same,
                    _ if is_same => {}
                    _ if is_gated => self.set(&uid, QueueState::Gated),
                    QueueState::Gated => self.activate(&uid),
                    QueueState::Active(_) | QueueState::AwaitingExtender(_) => self.activate(&uid),
                    QueueState::Backoff(_) | QueueState::Unschedulable(_) => {
                        self.requeue_after_backoff(&uid, now)
                    }
                }
            }
        }
    }

    /// Removes a pod.
    pub fn remove(&mut self, uid: &str) {
        self.unlink(uid);
        self.entries.remove(uid);
    }

    /// UIDs of all pending pods.
    pub fn pods(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Takes the next active pod.
    ///
    /// # Errors
    /// If no pod is active. The error is the time when the next pod becomes active without further events.
    pub fn take(&mut self, now: Instant) -> Result<Arc<Pod>, Option<Instant>> {
        self.flush(now);
        let Some((_, uid)) = self.active.first().cloned() else {
            let backoff = self.backoff.first().map(|(at, _)| *at);
            let unschedulable = self.unschedulable.first().map(|(since, _)| *since + UNSCHEDULABLE_TIMEOUT);
            return Err(backoff.into_iter().chain(unschedulable).min());
        };
        self.set(&uid, QueueState::InFlight(self.clock));
        let entry = self.entries.get_mut(&uid).ok_or(None)?;
        entry.is_edited = false;
        Ok(entry.pod.clone())
    }

    /// Returns the pod, if it is being scheduled.
    pub fn in_flight(&self, uid: &str) -> Option<Arc<Pod>> {
        let entry = self.entries.get(uid)?;
        matches!(entry.state, QueueState::InFlight(_)).then(|| entry.pod.clone())
    }

    /// Whether the pod is in the queue.
    pub fn has(&self, uid: &str) -> bool {
        self.entries.contains_key(uid)
    }

    /// Requeues a pod at once, because other pods took its nodes while extenders handled it.
    pub fn requeue(&mut self, uid: &str) {
        self.activate(uid);
    }

    /// Lets the pod wait until extenders handle fewer pods.
    pub fn await_extender(&mut self, uid: &str) {
        self.clock += 1;
        let Some(entry) = self.entries.get(uid) else { return };
        self.set(uid, QueueState::AwaitingExtender((Reverse(entry.pod.spec.priority), self.clock)));
    }

    /// Activates the first pod that waits for extenders.
    pub fn admit_awaiting(&mut self) {
        if let Some((_, uid)) = self.awaiting_extender.first().cloned() {
            self.activate(&uid);
        }
    }

    /// Records that the plugins rejected the pod on all nodes. An event that concerns one of these plugins requeues
    /// the pod.
    pub fn unschedulable(&mut self, uid: &str, plugins: BTreeSet<Plugin>, now: Instant) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        let QueueState::InFlight(since) = entry.state else { return };
        let is_helped = plugins.iter().any(|plugin| {
            self.last_event.get(plugin).is_some_and(|requeue_matching| *requeue_matching > since)
        });
        let is_other = is_helped || entry.is_edited;
        entry.plugins = plugins;
        self.failed(uid, now);
        if is_gated(&self.entries, uid) {
            self.set(uid, QueueState::Gated);
        } else if is_other {
            self.requeue_after_backoff(uid, now);
        } else {
            self.set(uid, QueueState::Unschedulable(now));
        }
    }

    /// Records a failure that is not a filter result. The pod is retried after its backoff.
    pub fn failed_with_error(&mut self, uid: &str, now: Instant) {
        if !self.entries.contains_key(uid) {
            return;
        }
        self.failed(uid, now);
        if is_gated(&self.entries, uid) {
            self.set(uid, QueueState::Gated);
        } else {
            self.requeue_after_backoff(uid, now);
        }
    }

    /// Handles a cluster event: requeues the unschedulable pods that one of the given plugins rejected.
    pub fn event_happened(&mut self, plugins: &[Plugin], now: Instant) {
        self.requeue_matching(plugins, now, |_, _| true);
    }

    /// Handles an event that a pod caused. This pod itself is not requeued.
    pub fn event_caused_by(&mut self, uid: &str, plugins: &[Plugin], now: Instant) {
        self.requeue_matching(plugins, now, |_, pod| pod.uid != uid);
    }

    /// Handles a pod that was added to a node: requeues pods whose affinity or spread terms match it.
    pub fn pod_added(&mut self, came: &Pod, namespaces: &Namespaces, now: Instant) {
        self.requeue_matching(&[Plugin::InterPodAffinity, Plugin::PodTopologySpread], now, |plugin, pod| {
            let spec = &pod.spec;
            match plugin {
                Plugin::InterPodAffinity => {
                    spec.required_affinity.iter().any(|term| term.matches(came, namespaces))
                }
                Plugin::PodTopologySpread => {
                    spec.topology_spread.iter().any(|spread| spread.term.matches(came, namespaces))
                }
                _ => true,
            }
        });
    }

    /// Requeues the unschedulable pods for which `helps` returns true. A pod that an extender rejected matches
    /// every event, because the criteria of the extender are unknown.
    fn requeue_matching(&mut self, plugins: &[Plugin], now: Instant, helps: impl Fn(Plugin, &Pod) -> bool) {
        if plugins.is_empty() {
            return;
        }
        self.clock += 1;
        let mut requeued = BTreeSet::new();
        for plugin in plugins.iter().copied().chain([Plugin::Extender]) {
            self.last_event.insert(plugin, self.clock);
            let is_helped = |(_, uid): &&(Instant, String)| {
                self.entries.get(uid).is_some_and(|entry| helps(plugin, &entry.pod))
            };
            requeued.extend(self.by_plugin.get(&plugin).into_iter().flatten().filter(is_helped).cloned());
        }
        requeued.iter().for_each(|(_, uid)| self.requeue_after_backoff(uid, now));
    }

    /// Requeues an unschedulable pod without an event, after its backoff.
    pub fn retry_unschedulable(&mut self, uid: &str, now: Instant) {
        if self.entries.get(uid).is_some_and(|entry| matches!(entry.state, QueueState::Unschedulable(_))) {
            self.requeue_after_backoff(uid, now);
        }
    }

    fn failed(&mut self, uid: &str, now: Instant) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.failures = entry.failures.saturating_add(1);
            entry.failed = Some(now);
        }
    }

    /// Activates the pod once its backoff is over.
    fn requeue_after_backoff(&mut self, uid: &str, now: Instant) {
        let until = self.entries.get(uid).and_then(|entry| Some(entry.failed? + backoff_for(entry.failures)));
        match until.filter(|until| *until > now) {
            Some(until) => self.set(uid, QueueState::Backoff(until)),
            None => self.activate(uid),
        }
    }

    fn activate(&mut self, uid: &str) {
        self.clock += 1;
        let Some(entry) = self.entries.get(uid) else { return };
        let priority = Reverse(entry.pod.spec.priority);
        let since = match entry.state {
            QueueState::Active((_, since)) | QueueState::AwaitingExtender((_, since)) => since,
            QueueState::Backoff(_)
            | QueueState::Unschedulable(_)
            | QueueState::Gated
            | QueueState::InFlight(_) => self.clock,
        };
        self.set(uid, QueueState::Active((priority, since)));
    }

    /// Activates the pods whose backoff or timeout is over.
    fn flush(&mut self, now: Instant) {
        while let Some((at, uid)) = self.backoff.first().cloned()
            && at <= now
        {
            self.activate(&uid);
        }
        while let Some((since, uid)) = self.unschedulable.first().cloned()
            && since + UNSCHEDULABLE_TIMEOUT <= now
        {
            self.activate(&uid);
        }
    }

    fn set(&mut self, uid: &str, state: QueueState) {
        self.unlink(uid);
        let Some(entry) = self.entries.get_mut(uid) else { return };
        entry.state = state;
        match state {
            QueueState::Active(rank) => drop(self.active.insert((rank, uid.to_owned()))),
            QueueState::AwaitingExtender(rank) => drop(self.awaiting_extender.insert((rank, uid.to_owned()))),
            QueueState::Backoff(at) => drop(self.backoff.insert((at, uid.to_owned()))),
            QueueState::Unschedulable(since) => {
                self.unschedulable.insert((since, uid.to_owned()));
                for plugin in &entry.plugins {
                    self.by_plugin.entry(*plugin).or_default().insert((since, uid.to_owned()));
                }
            }
            QueueState::Gated | QueueState::InFlight(_) => {}
        }
    }

    fn unlink(&mut self, uid: &str) {
        let Some(entry) = self.entries.get(uid) else { return };
        match entry.state {
            QueueState::Active(rank) => drop(self.active.remove(&(rank, uid.to_owned()))),
            QueueState::AwaitingExtender(rank) => {
                self.awaiting_extender.remove(&(rank, uid.to_owned()));
            }
            QueueState::Backoff(at) => drop(self.backoff.remove(&(at, uid.to_owned()))),
            QueueState::Unschedulable(since) => {
                let known = (since, uid.to_owned());
                self.unschedulable.remove(&known);
                for plugin in &entry.plugins {
                    self.by_plugin.entry(*plugin).and_modify(|all| {
                        all.remove(&known);
                    });
                }
            }
            QueueState::Gated | QueueState::InFlight(_) => {}
        }
    }
}

fn is_gated(entries: &HashMap<String, Entry>, uid: &str) -> bool {
    entries.get(uid).is_some_and(|entry| entry.pod.spec.is_gated)
}

/// Returns the backoff after the given number of failures. Like the stock scheduler, it adds no jitter.
fn backoff_for(failures: u32) -> Duration {
    exponential_delay(INITIAL_BACKOFF, MAX_BACKOFF, failures.saturating_sub(1), NO_JITTER)
}

#[cfg(test)]
mod tests {
    //! Tests of the queue with simulated time.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::super::pod::SchedulingSpec;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn pod(uid: &str, priority: i64, is_gated: bool) -> Arc<Pod> {
        let spec = Arc::new(SchedulingSpec { priority, is_gated, ..SchedulingSpec::default() });
        Arc::new(Pod { uid: uid.to_owned(), spec, ..Pod::default() })
    }

    fn took(queue: &mut Queue, now: Instant) -> Option<String> {
        queue.take(now).ok().map(|pod| pod.uid.clone())
    }

    #[test]
    fn queue_orders_pods_by_priority_then_by_arrival() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for (uid, priority) in [("a", 0), ("b", 0), ("c", 9), ("d", -1), ("e", 9)] {
            queue.put(pod(uid, priority, false), now);
        }
        queue.put(pod("b", 0, false), now);
        let order: Vec<String> = std::iter::from_fn(|| took(&mut queue, now)).collect();
        assert_eq!(order, ["c", "e", "a", "b", "d"]);
        queue.remove("a");
        assert_eq!(queue.pods().count(), 4);
    }

    #[test]
    fn failed_pod_waits_for_a_relevant_event_and_its_backoff() {
        let (mut queue, mut now) = (Queue::default(), Instant::now());
        queue.put(pod("a", 0, false), now);
        for backoff_for in [1, 2, 4, 8, 10, 10] {
            assert_eq!(took(&mut queue, now).as_deref(), Some("a"));
            queue.unschedulable("a", BTreeSet::from([Plugin::NodeResourcesFit]), now);
            queue.event_happened(&[Plugin::TaintToleration], now);
            assert_eq!(queue.take(now), Err(Some(now + UNSCHEDULABLE_TIMEOUT)), "the event is irrelevant");
            queue.event_happened(&[Plugin::NodeResourcesFit, Plugin::TaintToleration], now);
            assert_eq!(queue.take(now), Err(Some(now + SECOND * backoff_for)));
            now += SECOND * backoff_for;
        }
        assert_eq!(took(&mut queue, now).as_deref(), Some("a"));
        queue.unschedulable("a", BTreeSet::from([Plugin::NodeResourcesFit]), now);
        assert_eq!(took(&mut queue, now + UNSCHEDULABLE_TIMEOUT).as_deref(), Some("a"), "no event arrived");
        queue.event_happened(&[Plugin::NodeResourcesFit], now + UNSCHEDULABLE_TIMEOUT);
        queue.unschedulable("a", BTreeSet::from([Plugin::NodeResourcesFit]), now + UNSCHEDULABLE_TIMEOUT);
        assert_eq!(
            queue.take(now + UNSCHEDULABLE_TIMEOUT),
            Err(Some(now + UNSCHEDULABLE_TIMEOUT + MAX_BACKOFF)),
            "it changed meanwhile"
        );
    }

    #[test]
    fn gated_pod_is_not_queued_and_an_edited_pod_is_retried() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.put(pod("a", 0, true), now);
        assert_eq!(queue.take(now), Err(None));
        queue.put(pod("a", 0, false), now);
        assert_eq!(took(&mut queue, now).as_deref(), Some("a"));
        queue.unschedulable("a", BTreeSet::from([Plugin::NodeAffinity]), now);
        queue.put(pod("a", 1, false), now);
        assert_eq!(queue.take(now), Err(Some(now + SECOND)));
        queue.put(pod("a", 1, true), now);
        assert_eq!(queue.take(now + SECOND), Err(None));
        queue.failed_with_error("a", now);
        assert_eq!(queue.take(now + SECOND), Err(None));
    }
}
