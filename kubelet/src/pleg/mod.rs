//! PLEG (pod lifecycle event generator): keeps the pod cache up to date from the engine's event stream and a
//! periodic relist.
//!
//! If an inspection fails, the cached state stays, and the inspection is repeated after the next relist. A hung
//! inspection delays one pod, never the node. Each container is inspected by its own task, and events and relists
//! do not wait for these tasks. A cache entry is only replaced by an inspection that started later.

mod cache;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::backoff::Backoff;
use futures_util::StreamExt;
use futures_util::future::OptionFuture;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::health::Health;
use crate::metrics::Metrics;
use crate::observed::{self, PodUid, Timestamp};
use crate::runtime::{self, Identity, Inspected, Runtime};
use cache::PodCache;

/// Interval between relists; that of the stock kubelet with its event-based PLEG.
pub const RELIST_EVERY: Duration = Duration::from_secs(10);

/// Backoff after an error of the engine: first and longest delay.
const INITIAL_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(5);

/// How long the loop of the PLEG may make no progress before the PLEG is unhealthy; the relist threshold of the
/// stock kubelet.
const STUCK_AFTER: Duration = Duration::from_secs(180);

/// Maximum number of inspections in parallel. One takes the engine about half a millisecond, so a few keep it busy.
const MAX_PARALLEL_INSPECTIONS: usize = 8;

/// How long an inspection may take before it counts as hung, so that its slot is free for another.
const HANGS_AFTER: Duration = Duration::from_secs(1);

/// Health of the container engine.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineHealth {
    /// No request has completed yet.
    Unknown,
    /// The engine answers.
    Up,
    /// The engine does not answer.
    Down {
        /// When the outage started.
        since: Timestamp,
        /// The latest error.
        message: String,
    },
}

/// A pod that has containers in the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownPod {
    pub uid: PodUid,
    /// Namespace of the pod, as the labels of its containers store it.
    pub namespace: String,
    /// Name of the pod, as the labels of its containers store it.
    pub name: String,
}

/// The PLEG and pod cache of this node.
pub struct Pleg {
    runtime: Arc<dyn Runtime>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    relisted: Mutex<Option<Instant>>,
    cache: Mutex<PodCache>,
    clock: AtomicU64,
    inspections: Semaphore,
    /// Containers under inspection. `true` requests another inspection afterwards.
    pending: Mutex<BTreeMap<String, bool>>,
    inspection_tasks: Mutex<JoinSet<()>>,
    synced: watch::Sender<bool>,
    engine: watch::Sender<EngineHealth>,
    found: watch::Sender<()>,
}

impl Pleg {
    /// Creates an empty pod cache. [`Pleg::run`] fills it.
    pub fn new(runtime: Arc<dyn Runtime>, metrics: Arc<Metrics>, health: Arc<Health>) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            metrics,
            health,
            relisted: Mutex::default(),
            cache: Mutex::default(),
            clock: AtomicU64::new(1),
            inspections: Semaphore::new(MAX_PARALLEL_INSPECTIONS),
            pending: Mutex::default(),
            inspection_tasks: Mutex::default(),
            synced: watch::Sender::new(false),
            engine: watch::Sender::new(EngineHealth::Unknown),
            found: watch::Sender::new(()),
        })
    }

    /// The cached state of a pod; empty if it has no containers.
    pub fn pod(&self, uid: &PodUid) -> Arc<observed::Pod> {
        self.cache().pod(uid)
    }

    /// Subscribes to the cached state of a pod.
    pub fn subscribe(&self, uid: &PodUid) -> watch::Receiver<Arc<observed::Pod>> {
        self.cache().subscribe(uid)
    }

    /// All pods that have containers in the engine.
    pub fn known(&self) -> Vec<KnownPod> {
        self.cache().known()
    }

    /// Notifies when the first container of a pod appears or the last one disappears.
    pub fn found(&self) -> watch::Receiver<()> {
        self.found.subscribe()
    }

    /// Becomes true after the first relist. Containers that are not inspected yet are marked in their pod.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    pub fn engine(&self) -> watch::Receiver<EngineHealth> {
        self.engine.subscribe()
    }

    /// Stores the result of an operation of the caller, unless the cache has newer state.
    pub fn put(&self, seen: Inspected) {
        let moment = self.tick();
        let mut cache = self.cache();
        if !cache.is_newer_than(&seen) && cache.put(moment, seen) {
            self.found.send_replace(());
        }
    }

    /// Removes a container that the caller has removed from the engine.
    pub fn forget(&self, uid: &PodUid, id: &str) {
        self.gone(self.tick(), uid, id);
    }

    fn gone(&self, moment: u64, uid: &PodUid, id: &str) {
        if self.cache().remove(moment, uid, id) {
            self.found.send_replace(());
        }
    }

    /// Inspects a container now. Removes it from the cache if it no longer exists.
    ///
    /// # Errors
    /// If the engine does not answer. The cached state then stays.
    pub async fn refresh(&self, uid: &PodUid, id: &str) -> Result<(), runtime::Error> {
        let moment = self.tick();
        match self.runtime.inspect(id).await {
            Ok(seen) => self.store(moment, seen),
            Err(runtime::Error::NotFound { .. }) => self.gone(moment, uid, id),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Runs the PLEG loop: subscribe, relist, follow events, and start again after an engine failure.
    pub async fn run(self: Arc<Self>) {
        let mut backoff = Backoff::new(INITIAL_BACKOFF, MAX_BACKOFF);
        loop {
            self.health.beat("observe", STUCK_AFTER);
            match self.follow().await {
                Ok(()) => backoff.reset(),
                Err(error) => self.engine_is_down(&error),
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Follows events until the stream ends.
    async fn follow(self: &Arc<Self>) -> Result<(), runtime::Error> {
        let mut events = self.runtime.events().await?;
        let mut relist = Some(Box::pin(self.relist()));
        let mut tick = tokio::time::interval(RELIST_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tick.reset();
        loop {
            self.health.beat("observe", STUCK_AFTER);
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) if event.removed => self.forget(&event.uid, &event.id),
                    Some(Ok(event)) => self.schedule_inspection(event.uid, event.id),
                    Some(Err(error)) => return Err(error),
                    None => return Ok(()),
                },
                done = OptionFuture::from(relist.as_mut()), if relist.is_some() => {
                    relist = None;
                    done.unwrap_or(Ok(()))?;
                }
                _ = tick.tick(), if relist.is_none() => relist = Some(Box::pin(self.relist())),
            }
        }
    }

    /// Starts an inspection of a container, or requests another one if one is running.
    fn schedule_inspection(self: &Arc<Self>, uid: PodUid, id: String) {
        let mut pending = self.pending();
        if let Some(again) = pending.get_mut(&id) {
            *again = true;
            return;
        }
        pending.insert(id.clone(), false);
        drop(pending);
        let pleg = self.clone();
        let mut tasks = self.inspection_tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move { pleg.inspect_until_current(&uid, &id).await });
    }

    /// Inspects a container, and repeats that if another inspection was requested meanwhile.
    async fn inspect_until_current(&self, uid: &PodUid, id: &str) {
        loop {
            let turn = self.inspections.acquire().await;
            let mut look = std::pin::pin!(self.refresh(uid, id));
            let quick = tokio::time::timeout(HANGS_AFTER, &mut look).await;
            drop(turn);
            let outcome = match quick {
                Ok(outcome) => outcome,
                Err(_) => look.await,
            };
            if let Err(error) = outcome {
                self.cache().mark_failed(uid, id);
                let pod = self.pod(uid);
                let pod = format!("{}/{}", pod.namespace, pod.name);
                tracing::warn!(pod, %uid, container = %id, %error, "cannot inspect a container; its last known state stays in use");
            }
            let mut pending = self.pending();
            match pending.get_mut(id) {
                Some(again) if *again => *again = false,
                _ => {
                    pending.remove(id);
                    return;
                }
            }
        }
    }

    /// Lists all containers and inspects those that differ from the cache.
    async fn relist(self: &Arc<Self>) -> Result<(), runtime::Error> {
        let moment = self.tick();
        let began = Instant::now();
        let listed = self.runtime.list().await?;
        let last = self.relisted.lock().unwrap_or_else(PoisonError::into_inner).replace(began);
        self.metrics.relisted(
            began.elapsed().as_secs_f64(),
            last.map(|last| began.duration_since(last).as_secs_f64()),
        );
        self.engine
            .send_if_modified(|engine| std::mem::replace(engine, EngineHealth::Up) != EngineHealth::Up);
        let here: BTreeSet<&str> = listed.iter().map(|l| l.id.as_str()).collect();
        let mut is_news = self.cache().remove_unlisted(moment, &here);
        for listed in listed {
            let mut cache = self.cache();
            if cache.needs_inspection(&listed) {
                is_news |= cache.expect(moment, &listed.identity, &listed.id);
                drop(cache);
                self.schedule_inspection(listed.identity.uid, listed.id);
            }
        }
        if is_news {
            self.found.send_replace(());
        }
        self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
        Ok(())
    }

    fn engine_is_down(&self, error: &runtime::Error) {
        self.engine.send_if_modified(|engine| {
            if let EngineHealth::Down { .. } = engine {
                return false;
            }
            tracing::warn!(%error, "the container engine does not answer; containers keep running, retrying");
            *engine = EngineHealth::Down { since: Timestamp::now(), message: error.to_string() };
            true
        });
    }

    fn store(&self, moment: u64, seen: Inspected) {
        if self.cache().put(moment, seen) {
            self.found.send_replace(());
        }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cache(&self) -> MutexGuard<'_, PodCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The identity in the result of an inspection.
fn identity(seen: &Inspected) -> &Identity {
    match seen {
        Inspected::Sandbox(identity, _) | Inspected::Container(identity, _) => identity,
    }
}
