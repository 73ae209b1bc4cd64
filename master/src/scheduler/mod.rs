//! The scheduler: an API client that assigns each pending pod to a node.
//!
//! Informers feed the scheduler cache (`cluster`). The scheduler takes one pod at a time from the `queue`.
//! `schedule_one` finds its node: it runs every `filter` plugin, then every `score` plugin. The pod is assumed on
//! that node at once, and the `binder` writes the binding while the next pod is scheduled.

mod binder;
mod claim_binder;
mod claim_waits;
mod cluster;
mod config;
mod event_handlers;
mod events;
mod extender;
mod filter;
#[cfg(test)]
mod fixtures;
mod node;
mod nominated_pods;
mod pod;
mod preempt;
mod queue;
mod resource;
mod schedule_one;
mod score;
mod selector_sources;
mod spec_cache;
mod state;
mod store;
mod topology_counts;
mod volumes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::binder::Binder;
pub use self::config::Config;
use self::events::EventRecorder;
use self::extender::Extenders;
use self::state::{Decision, State};
use crate::controllers::{ActAs as _, Client, LeaderElector};

/// User name of the scheduler, as in stock Kubernetes.
const USER: &str = "system:kube-scheduler";
/// User agent of the scheduler and name of its lease, as in stock Kubernetes.
const AGENT: &str = "kube-scheduler";

/// Schedules pods while this instance holds the leader-election lease, until `stopped` changes.
///
/// `own` is the identity of the lease holder. It must be unique among running instances. An instance that restarts
/// with the same identity resumes its lease.
pub async fn run(client: Client, own: &str, config: Config, stopped: watch::Receiver<bool>) {
    let client = client.as_user(USER, AGENT);
    let lease = LeaderElector::new(client.clone(), AGENT, own);
    lease.run(|| schedule(client.clone(), &config), stopped).await;
}

/// Schedules pods until the future is dropped.
async fn schedule(client: Client, config: &Config) {
    let state = Arc::new(SharedState::of(config));
    let mut tasks = event_handlers::start_informers(&client, &state);
    let (events, receiver) = EventRecorder::new();
    tasks.spawn(events::write(client.clone(), receiver));
    let extenders = Extenders::new(config.extenders.clone(), client.clone());
    let binder = Binder::new(client, state.clone(), events, extenders);
    // Writes in progress are aborted with this future: another instance may hold the lease by then.
    let mut in_progress = JoinSet::new();
    loop {
        let permit = binder.acquire().await;
        let decision = state.next().await;
        while in_progress.try_join_next().is_some() {}
        in_progress.spawn(binder.clone().execute(decision, permit));
    }
}

/// The scheduler's state, shared by the informers, the scheduling loop and the binder.
#[derive(Debug)]
struct SharedState {
    state: Mutex<State>,
    wake: Notify,
}

impl SharedState {
    fn of(config: &Config) -> Self {
        Self { state: Mutex::new(State::of(config)), wake: Notify::new() }
    }

    /// Waits for the next decision.
    async fn next(&self) -> Decision {
        loop {
            let decided = self.lock().next(Instant::now());
            match decided {
                Ok(decision) => return decision,
                Err(None) => self.wake.notified().await,
                Err(Some(at)) => {
                    let _ = tokio::time::timeout_at(at, self.wake.notified()).await;
                }
            }
        }
    }

    /// Applies a change to the state and wakes the scheduling loop.
    fn update<T>(&self, change: impl FnOnce(&mut State, Instant) -> T) -> T {
        let changed = change(&mut self.lock(), Instant::now());
        self.wake.notify_one();
        changed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
