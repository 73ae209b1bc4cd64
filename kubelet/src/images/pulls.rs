//! Pulls under way: one of an image at a time, shared by all who wait for it, a few images beside each other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::StreamExt;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

use super::Progress;
use crate::runtime::{Credentials, Error, Runtime};

/// What is pulled and as whom. Who brings other credentials must not get by on somebody else's, nor fail with them.
type Key = (String, Vec<Credentials>);

pub(super) struct Pulls {
    runtime: Arc<dyn Runtime>,
    at_once: Arc<Semaphore>,
    under_way: Mutex<HashMap<Key, Weak<Pull>>>,
}

/// One pull; it ends when the last who waits for it has gone.
struct Pull {
    state: watch::Receiver<State>,
    task: AbortHandle,
}

#[derive(Clone, Default)]
struct State {
    progress: Progress,
    outcome: Option<Result<(), Error>>,
}

impl Drop for Pull {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Pulls {
    pub(super) fn new(runtime: Arc<dyn Runtime>, at_once: usize) -> Self {
        Self { runtime, at_once: Arc::new(Semaphore::new(at_once.max(1))), under_way: Mutex::default() }
    }

    /// Pulls, or waits for the pull of the same by somebody else; `told` hears how far it is.
    pub(super) async fn pull(
        &self,
        name: &str,
        credentials: Vec<Credentials>,
        told: &(dyn Fn(&Progress) + Sync),
    ) -> Result<(), Error> {
        let pull = self.join((name.to_owned(), credentials));
        let mut state = pull.state.clone();
        loop {
            {
                let state = state.borrow_and_update();
                if let Some(outcome) = &state.outcome {
                    return outcome.clone();
                }
                told(&state.progress);
            }
            if state.changed().await.is_err() {
                let message = "the pull was given up".to_owned();
                return Err(Error::Unreachable { operation: "pull the image", message });
            }
        }
    }

    fn join(&self, key: Key) -> Arc<Pull> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|_, pull| pull.strong_count() > 0);
        if let Some(pull) = under_way.get(&key).and_then(Weak::upgrade)
            && pull.state.borrow().outcome.is_none()
        {
            return pull;
        }
        let (tell, state) = watch::channel(State::default());
        let (runtime, at_once, (name, credentials)) =
            (self.runtime.clone(), self.at_once.clone(), key.clone());
        let task = tokio::spawn(async move {
            let _turn = at_once.acquire().await;
            let outcome = as_anyone(runtime.as_ref(), &name, &credentials, &tell).await;
            tell.send_modify(|state| state.outcome = Some(outcome));
        });
        let pull = Arc::new(Pull { state, task: task.abort_handle() });
        under_way.insert(key, Arc::downgrade(&pull));
        pull
    }
}

/// Tries with each of the credentials, at last without any. What fails with all of them is told by the first, which
/// is the closest to what was meant.
async fn as_anyone(
    runtime: &dyn Runtime,
    name: &str,
    credentials: &[Credentials],
    tell: &watch::Sender<State>,
) -> Result<(), Error> {
    let mut first = None;
    for who in credentials.iter().map(Some).chain([None]) {
        match once(runtime, name, who, tell).await {
            Ok(()) => return Ok(()),
            Err(error) => {
                let another_may = is_about_rights(&error);
                let error = first.get_or_insert(error);
                if !another_may {
                    return Err(error.clone());
                }
            }
        }
    }
    Err(first.unwrap_or_else(|| Error::NotFound { what: name.to_owned() }))
}

async fn once(
    runtime: &dyn Runtime,
    name: &str,
    who: Option<&Credentials>,
    tell: &watch::Sender<State>,
) -> Result<(), Error> {
    let mut steps = runtime.pull(name, who).await?;
    while let Some(step) = steps.next().await {
        let step = step?;
        tell.send_if_modified(|state| {
            let before = state.progress.to_string();
            state.progress.add(step);
            state.progress.to_string() != before
        });
    }
    Ok(())
}

/// Whether somebody else may succeed. Registries say "not found" of what one may not see, and Docker passes their
/// refusals on as failures of its own, so that only the words tell.
fn is_about_rights(error: &Error) -> bool {
    match error {
        Error::NotFound { .. } => true,
        Error::Refused { message, .. } => {
            let words = [
                "unauthorized",
                "authentication required",
                "no basic auth",
                "denied",
                "forbidden",
                "toomanyrequests",
            ];
            let message = message.to_lowercase();
            words.iter().any(|word| message.contains(word))
        }
        Error::Unreachable { .. } | Error::Network(_) => false,
    }
}

#[cfg(test)]
mod tests;
