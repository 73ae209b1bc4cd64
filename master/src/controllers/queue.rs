//! An agenda that several may write to and wait on, and the loop of one controller over it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::agenda::{Agenda, Next};
use super::client::Error;
use super::world::{Change, Hear};

/// A controller: it looks at one thing at a time and does what is to be done about it.
#[async_trait]
pub trait Controller: Send + Sync + 'static {
    /// How it is called in flags and in the log.
    fn name(&self) -> &'static str;

    /// How many things it looks at at once.
    fn workers(&self) -> usize {
        1
    }

    /// Something changed: notes what is to be looked at.
    fn hear(&self, change: &Change, queue: &Queue);

    /// Looks at it, and does what is to be done.
    ///
    /// # Errors
    /// What stands in the way now; it is looked at again after a pause.
    async fn look(&self, key: &str, queue: &Queue) -> Result<Next, Error>;
}

/// What a controller is to look at.
#[derive(Debug, Default)]
pub struct Queue {
    agenda: Mutex<Agenda>,
    wake: Notify,
}

impl Queue {
    /// Now.
    pub fn add(&self, key: &str) {
        self.add_in(key, Duration::ZERO);
    }

    /// After a while, unless it is due before.
    pub fn add_in(&self, key: &str, pause: Duration) {
        self.lock().add(key, Instant::now() + pause);
        self.wake.notify_one();
    }

    async fn next(&self) -> String {
        loop {
            let taken = self.lock().take(Instant::now());
            match taken {
                Ok(key) => {
                    // Others may wait for what else is due.
                    self.wake.notify_one();
                    return key;
                }
                Err(None) => self.wake.notified().await,
                Err(Some(at)) => {
                    let _ = tokio::time::timeout_at(at, self.wake.notified()).await;
                }
            }
        }
    }

    fn done(&self, key: &str, next: Next) {
        self.lock().done(key, next, Instant::now());
        self.wake.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Agenda> {
        self.agenda.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A controller with its queue.
pub(super) struct Running {
    pub controller: Arc<dyn Controller>,
    pub queue: Arc<Queue>,
}

impl Hear for Running {
    fn hear(&self, change: &Change) {
        self.controller.hear(change, &self.queue);
    }
}

/// One worker of a controller, for as long as it is polled.
pub(super) async fn work(controller: Arc<dyn Controller>, queue: Arc<Queue>) {
    loop {
        let key = queue.next().await;
        let next = controller.look(&key, &queue).await.unwrap_or_else(|error| {
            let controller = controller.name();
            if error.is_conflict() {
                tracing::debug!(controller, key, %error, "somebody else came before; looking again");
            } else {
                let error = told(&error);
                tracing::warn!(controller, key, error, "cannot do it now; looking again later");
            }
            Next::Failed
        });
        queue.done(&key, next);
    }
}

/// An error with what is behind it.
fn told(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
