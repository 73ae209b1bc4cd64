//! What the engine shows, kept up to date: its event stream says when to look, a slow relist catches what it missed.
//!
//! A failed look keeps the old record and is made again after the next relist. One hung look stalls one pod, never
//! the node: each container is looked at by a task of its own, events and relists wait for none of them, and a record
//! is only replaced by a look that began later than the one it came from.

mod records;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::OptionFuture;
use tokio::sync::{Semaphore, watch};
use tokio::time::MissedTickBehavior;

use crate::health::Health;
use crate::metrics::Metrics;
use crate::observed::{self, PodUid, Timestamp};
use crate::runtime::{self, Identity, Runtime, Seen};
use records::Records;

/// Time between two relists: that of the stock kubelet beside its event stream.
pub const RELIST_EVERY: Duration = Duration::from_secs(10);

/// The first wait before the engine is asked again after it failed, doubled up to [`LONGEST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_millis(100);

/// The longest wait before the engine is asked again.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// An observer that has not turned for so long is stuck; the stock kubelet's threshold for its own relist.
const STUCK_AFTER: Duration = Duration::from_secs(180);

/// Looks under way at once; one costs the engine about half a millisecond, so a few keep it busy.
const LOOKS_AT_ONCE: usize = 8;

/// A look that takes longer than this is not the engine's work any more but hangs: others may begin beside it.
const HANGS_AFTER: Duration = Duration::from_secs(1);

/// Whether the engine answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Engine {
    /// Nothing is known yet.
    Unknown,
    /// It does.
    Up,
    /// It does not.
    Down {
        /// Since when.
        since: Timestamp,
        /// What it said last.
        message: String,
    },
}

/// A pod something is left of.
#[derive(Clone, Debug, PartialEq)]
pub struct Known {
    /// Its identity.
    pub uid: PodUid,
    /// Its namespace, from the labels.
    pub namespace: String,
    /// Its name, from the labels.
    pub name: String,
}

/// Keeps the latest record of every pod of this node.
pub struct Observer {
    runtime: Arc<dyn Runtime>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    relisted: Mutex<Option<Instant>>,
    records: Mutex<Records>,
    clock: AtomicU64,
    looks: Semaphore,
    /// Containers that are being looked at, and whether another look is due after this one.
    wanted: Mutex<BTreeMap<String, bool>>,
    synced: watch::Sender<bool>,
    engine: watch::Sender<Engine>,
    found: watch::Sender<()>,
}

impl Observer {
    /// An observer that knows nothing yet; [`Observer::run`] makes it look.
    pub fn new(runtime: Arc<dyn Runtime>, metrics: Arc<Metrics>, health: Arc<Health>) -> Arc<Self> {
        Arc::new(Self {
            runtime,
            metrics,
            health,
            relisted: Mutex::default(),
            records: Mutex::default(),
            clock: AtomicU64::new(1),
            looks: Semaphore::new(LOOKS_AT_ONCE),
            wanted: Mutex::default(),
            synced: watch::Sender::new(false),
            engine: watch::Sender::new(Engine::Unknown),
            found: watch::Sender::new(()),
        })
    }

    /// The latest record of a pod; an empty one when nothing of it is known.
    pub fn pod(&self, uid: &PodUid) -> Arc<observed::Pod> {
        self.records().pod(uid)
    }

    /// Follows the record of a pod.
    pub fn subscribe(&self, uid: &PodUid) -> watch::Receiver<Arc<observed::Pod>> {
        self.records().subscribe(uid)
    }

    /// All pods anything is left of in the engine.
    pub fn known(&self) -> Vec<Known> {
        self.records().known()
    }

    /// Changes whenever a pod appears that was not there, or the last of one goes.
    pub fn found(&self) -> watch::Receiver<()> {
        self.found.subscribe()
    }

    /// True once everything on the node is known to be there; what is not seen yet is marked so in its pod.
    pub fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// Whether the engine answers.
    pub fn engine(&self) -> watch::Receiver<Engine> {
        self.engine.subscribe()
    }

    /// Takes over what a caller has just seen for itself, unless more has been seen since.
    pub fn put(&self, seen: Seen) {
        let moment = self.tick();
        let mut records = self.records();
        if !records.is_behind(&seen) && records.put(moment, seen) {
            self.found.send_replace(());
        }
    }

    /// Takes out what a caller has just removed.
    pub fn forget(&self, uid: &PodUid, id: &str) {
        self.gone(self.tick(), uid, id);
    }

    fn gone(&self, moment: u64, uid: &PodUid, id: &str) {
        if self.records().remove(moment, uid, id) {
            self.found.send_replace(());
        }
    }

    /// Looks at one container now; one that is not there any more is taken out.
    ///
    /// # Errors
    /// The engine does not answer; the old record stays.
    pub async fn refresh(&self, uid: &PodUid, id: &str) -> Result<(), runtime::Error> {
        let moment = self.tick();
        match self.runtime.look(id).await {
            Ok(seen) => self.store(moment, seen),
            Err(runtime::Error::NotFound { .. }) => self.gone(moment, uid, id),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Looks for ever: subscribes, relists, follows events, and begins again when the engine goes away.
    pub async fn run(self: Arc<Self>) {
        let mut retry = FIRST_RETRY;
        loop {
            self.health.beat("observe", STUCK_AFTER);
            match self.follow().await {
                Ok(()) => retry = FIRST_RETRY,
                Err(error) => self.engine_is_down(&error),
            }
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(LONGEST_RETRY);
        }
    }

    /// Follows the engine until its event stream ends.
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
                    Some(Ok(event)) => self.want(event.uid, event.id),
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

    /// Sees to it that a container is looked at: at once, or again when it is being looked at already.
    fn want(self: &Arc<Self>, uid: PodUid, id: String) {
        let mut wanted = self.wanted();
        if let Some(again) = wanted.get_mut(&id) {
            *again = true;
            return;
        }
        wanted.insert(id.clone(), false);
        drop(wanted);
        let observer = self.clone();
        tokio::spawn(async move { observer.look_until_quiet(&uid, &id).await });
    }

    /// Looks once for any number of wishes that come meanwhile.
    async fn look_until_quiet(&self, uid: &PodUid, id: &str) {
        loop {
            let turn = self.looks.acquire().await;
            let mut look = std::pin::pin!(self.refresh(uid, id));
            let quick = tokio::time::timeout(HANGS_AFTER, &mut look).await;
            drop(turn);
            let outcome = match quick {
                Ok(outcome) => outcome,
                Err(_) => look.await,
            };
            if let Err(error) = outcome {
                self.records().doubt(uid, id);
                tracing::warn!(pod = %uid, container = %id, %error, "a look failed; the old record stays until the next");
            }
            let mut wanted = self.wanted();
            match wanted.get_mut(id) {
                Some(again) if *again => *again = false,
                _ => {
                    wanted.remove(id);
                    return;
                }
            }
        }
    }

    /// Lists the node and has a closer look taken at whatever differs from its record.
    async fn relist(self: &Arc<Self>) -> Result<(), runtime::Error> {
        let moment = self.tick();
        let began = Instant::now();
        let listed = self.runtime.list().await?;
        let last = self.relisted.lock().unwrap_or_else(PoisonError::into_inner).replace(began);
        self.metrics.relisted(
            began.elapsed().as_secs_f64(),
            last.map(|last| began.duration_since(last).as_secs_f64()),
        );
        self.engine.send_if_modified(|engine| std::mem::replace(engine, Engine::Up) != Engine::Up);
        let here: BTreeSet<&str> = listed.iter().map(|l| l.id.as_str()).collect();
        let mut is_news = self.records().sweep(moment, &here);
        for listed in listed {
            let mut records = self.records();
            if records.differs(&listed) {
                is_news |= records.expect(moment, &listed.identity, &listed.id);
                drop(records);
                self.want(listed.identity.uid, listed.id);
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
            if let Engine::Down { .. } = engine {
                return false;
            }
            tracing::warn!(%error, "the container engine does not answer; nothing is stopped for that, and it is tried again");
            *engine = Engine::Down { since: Timestamp::now(), message: error.to_string() };
            true
        });
    }

    fn store(&self, moment: u64, seen: Seen) {
        if self.records().put(moment, seen) {
            self.found.send_replace(());
        }
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn wanted(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The identity a record was made under.
fn identity(seen: &Seen) -> &Identity {
    match seen {
        Seen::Sandbox(identity, _) | Seen::Container(identity, _) => identity,
    }
}
