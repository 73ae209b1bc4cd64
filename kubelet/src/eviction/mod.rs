//! The eviction manager: observes the node, publishes its pressure conditions, reclaims resources, and evicts pods.
//! After the pressure it lets pods of local sources (files, URLs and the API of the node) return.
//!
//! Conditions and evictions come from the same observation and the same thresholds. [`decide()`] and [`rank()`] decide;
//! everything else observes or carries out. At most one pod is evicted at a time: the next observation follows when the
//! pod has released its resources.

mod candidates;
mod decide;
mod image_gc;
mod rank;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

use self::candidates::{Candidates, DiskScope};
use self::decide::{Met, State, decide, is_resolved, pressure_of};
pub use self::image_gc::ImageGarbageCollection;
use self::rank::{message, rank, resource_of};
use crate::images::ImageCollector;
use crate::node::{Observed, PressureMonitor};
use crate::observed::{self, PodUid, Pressure, PressureStates, Timestamp, active_pressures};
use crate::options::{Eviction, Signal};
use crate::plan::MINIMUM_GRACE;
use crate::pod_workers::Dependencies;
use crate::pod_workers::evictions::{Evicted, Request};
use crate::report::{About, Severity};
use crate::spec;
use crate::stats::StatsProvider;

/// Interval between observations, as in the stock kubelet.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// How long an evicted pod may take to release its resources, beyond its grace period, before the node is observed again;
/// `podCleanupTimeout` of the stock kubelet.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an exited container stays before it is removed to reclaim disk space.
const MIN_DEAD_AGE: Duration = Duration::from_secs(10);

/// The eviction manager of one node.
pub struct EvictionManager {
    pub node: String,
    pub settings: Eviction,
    pub monitor: PressureMonitor,
    pub deps: Arc<Dependencies>,
    pub stats: Arc<StatsProvider>,
    pub images: Arc<ImageCollector>,
    /// The engine's data directory. A change triggers an observation.
    pub data_root: watch::Receiver<PathBuf>,
    /// The pressure conditions. They are `None` before the first observation.
    pub pressures: watch::Sender<Option<PressureStates>>,
}

impl EvictionManager {
    /// Runs until the sender of the data directory is dropped.
    pub async fn run(mut self) {
        let mut state = State::default();
        let mut due = interval(CHECK_INTERVAL);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = due.tick() => {}
                changed = self.data_root.changed() => if changed.is_err() { return },
            }
            while self.synchronize(&mut state).await {}
        }
    }

    /// Observes and acts once. Returns whether a pod was evicted, so that the node must be observed again.
    async fn synchronize(&mut self, state: &mut State) -> bool {
        let observed = self.observe().await;
        let decision = decide(state, &self.settings, &observed.amounts, Instant::now());
        *state = decision.state;
        let pressures = Some(decision.pressures.clone());
        self.pressures.send_if_modified(|before| std::mem::replace(before, pressures.clone()) != pressures);
        match decision.reclaim {
            Some(met) => self.reclaim(&met, &observed).await,
            None => {
                self.let_one_return(&decision.pressures);
                false
            }
        }
    }

    async fn observe(&mut self) -> Observed {
        let data_root = self.data_root.borrow_and_update().clone();
        self.monitor.observe(&data_root).await
    }

    /// Reclaims a resource: first without pods, then by the eviction of one pod. Returns whether a pod was evicted.
    async fn reclaim(&mut self, met: &Met, observed: &Observed) -> bool {
        let signal = met.threshold.signal;
        let resource = resource_of(signal);
        let about = About::node(&self.node);
        let message = format!("Attempting to reclaim {resource}");
        self.deps.outbox.note(about, Severity::Warning, "EvictionThresholdMet", message);
        if is_of_engine(signal, observed.is_image_fs_dedicated) {
            self.remove_dead_containers(Timestamp::now()).await;
            if let Err(error) = self.images.remove_unused(Timestamp::now()).await {
                tracing::warn!(%error, "cannot remove unused images");
            }
            let now = self.observe().await;
            if is_resolved(&self.settings, &now.amounts) {
                tracing::info!(resource, "reclaimed enough without evicting pods");
                return false;
            }
        }
        self.evict_one(met, disk_scope(signal, observed.is_image_fs_dedicated)).await
    }

    /// Removes exited containers, except the newest of each name. After a restart, the exit of the newest may not be in the
    /// history of the pod yet; without it, a container that has completed would run again.
    async fn remove_dead_containers(&self, now: Timestamp) {
        for known in self.deps.pleg.known() {
            let pod = self.deps.pleg.pod(&known.uid);
            for container in removable(&pod, now) {
                match self.deps.runtime.remove(&container.id).await {
                    Ok(()) => self.deps.pleg.forget(&known.uid, &container.id),
                    Err(error) => {
                        tracing::warn!(container = container.id, %error, "cannot remove an exited container");
                    }
                }
            }
        }
    }

    /// Evicts the pod that ranks first, and waits until it has released its resources.
    async fn evict_one(&self, met: &Met, scope: DiskScope) -> bool {
        let signal = met.threshold.signal;
        let candidates = Candidates::observe(&self.deps, &self.stats, signal, scope).await;
        let mut ranked = candidates.candidates();
        rank(signal, &mut ranked);
        let grace = if met.threshold.is_hard() {
            MINIMUM_GRACE
        } else {
            self.settings.max_pod_grace.max(MINIMUM_GRACE)
        };
        for candidate in ranked {
            let request = Request {
                signal: signal.as_str(),
                message: message(met, &candidates.containers(&candidate.uid)),
                grace,
                pressure: Some(pressure_of(signal)),
            };
            if self.deps.evictions.evict(&candidate.uid, request) {
                self.wait_released(&candidate.uid, grace).await;
                return true;
            }
        }
        tracing::debug!(%signal, "eviction thresholds are met, but no pod can be evicted");
        false
    }

    async fn wait_released(&self, uid: &PodUid, grace: Duration) {
        if timeout(RELEASE_TIMEOUT + grace, self.deps.evictions.released(uid)).await.is_err() {
            tracing::warn!(pod = %uid, "an evicted pod has not released its resources yet");
        }
    }

    /// Lets the most important evicted pod start again, if the node has no pressure. One per observation, so that the
    /// pods do not cause the next pressure together.
    fn let_one_return(&self, pressures: &[(Pressure, bool)]) {
        if !active_pressures(pressures).is_empty() {
            return;
        }
        if let Some(uid) = next_to_return(self.deps.evictions.waiting()) {
            self.deps.evictions.let_return(&uid, Timestamp::now());
        }
    }
}

/// The evicted pod that returns first: that with the highest priority, then the one that was evicted first.
fn next_to_return(waiting: Vec<Evicted>) -> Option<PodUid> {
    let first =
        waiting.into_iter().min_by_key(|evicted| (Reverse(spec::priority(&evicted.pod.pod)), evicted.at));
    first.map(|evicted| evicted.pod.uid.clone())
}

/// Whether exited containers and unused images are on the file system of the signal.
fn is_of_engine(signal: Signal, is_image_fs_dedicated: Option<bool>) -> bool {
    match signal {
        Signal::ImageFsAvailable | Signal::ImageFsInodesFree => true,
        Signal::NodeFsAvailable | Signal::NodeFsInodesFree => is_image_fs_dedicated == Some(false),
        Signal::MemoryAvailable | Signal::PidAvailable => false,
    }
}

/// The part of a pod's storage that is on the file system of the signal. The engine keeps logs with the writable layers.
fn disk_scope(signal: Signal, is_image_fs_dedicated: Option<bool>) -> DiskScope {
    match (signal, is_image_fs_dedicated) {
        (_, Some(false)) => DiskScope::All,
        (Signal::ImageFsAvailable | Signal::ImageFsInodesFree, _) => DiskScope::Engine,
        _ => DiskScope::Volumes,
    }
}

/// The exited containers that can be removed.
fn removable(pod: &observed::Pod, now: Timestamp) -> impl Iterator<Item = &observed::Container> {
    let is_newest = |container: &observed::Container| {
        pod.attempts(&container.name).next().is_some_and(|newest| newest.id == container.id)
    };
    pod.containers.iter().filter(move |container| is_dead(container, now) && !is_newest(container))
}

fn is_dead(container: &observed::Container, now: Timestamp) -> bool {
    match &container.state {
        observed::State::Exited(exit) => {
            let age = Duration::try_from(now.duration_since(exit.finished_at)).unwrap_or_default();
            age >= MIN_DEAD_AGE
        }
        observed::State::Created | observed::State::Running { .. } => false,
    }
}
