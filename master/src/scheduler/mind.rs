//! The state between those who tell it what there is and who asks it what to do next.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::config::Config;
use super::state::{Decision, State};

/// The state, shared.
#[derive(Debug)]
pub struct Mind {
    state: Mutex<State>,
    wake: Notify,
}

impl Mind {
    /// Nothing is known yet but what was set.
    pub fn of(config: &Config) -> Self {
        Self { state: Mutex::new(State::of(config)), wake: Notify::new() }
    }

    /// Waits for the next decision.
    pub async fn next(&self) -> Decision {
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

    /// Has something taken in.
    pub fn tell<T>(&self, what: impl FnOnce(&mut State, Instant) -> T) -> T {
        let told = what(&mut self.lock(), Instant::now());
        self.wake.notify_one();
        told
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
