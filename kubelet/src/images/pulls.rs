//! Pulls images. Concurrent requests for the same image share one pull, and the number of parallel pulls is
//! limited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use apiserver::tasks::OwnedTask;
use futures_util::StreamExt;
use tokio::sync::{Semaphore, watch};

use super::Progress;
use crate::runtime::{Credentials, Error, Refusal, Runtime};

/// Image and credentials of a pull. Requests with different credentials are separate, so that the result of one
/// does not affect the other.
type Key = (String, Vec<Credentials>);

pub(super) struct Pulls {
    runtime: Arc<dyn Runtime>,
    at_once: Arc<Semaphore>,
    in_progress: Mutex<HashMap<Key, Weak<Pull>>>,
}

/// A running pull. It is aborted when the last waiter drops it.
struct Pull {
    state: watch::Receiver<State>,
    _task: OwnedTask,
}

#[derive(Clone, Default)]
struct State {
    progress: Progress,
    outcome: Option<Result<(), Error>>,
}

impl Pulls {
    pub(super) fn new(runtime: Arc<dyn Runtime>, at_once: usize) -> Self {
        Self { runtime, at_once: Arc::new(Semaphore::new(at_once.max(1))), in_progress: Mutex::default() }
    }

    /// Pulls an image, or joins a running pull. `on_progress` receives the progress.
    pub(super) async fn pull(
        &self,
        name: &str,
        credentials: Vec<Credentials>,
        on_progress: &(dyn Fn(&Progress) + Sync),
    ) -> Result<(), Error> {
        let pull = self.join((name.to_owned(), credentials));
        let mut state = pull.state.clone();
        loop {
            {
                let state = state.borrow_and_update();
                if let Some(outcome) = &state.outcome {
                    return outcome.clone();
                }
                on_progress(&state.progress);
            }
            if state.changed().await.is_err() {
                let message = "the pull was aborted".to_owned();
                return Err(Error::Unreachable { operation: "pull the image", message });
            }
        }
    }

    fn join(&self, key: Key) -> Arc<Pull> {
        let mut in_progress = self.in_progress.lock().unwrap_or_else(PoisonError::into_inner);
        in_progress.retain(|_, pull| pull.strong_count() > 0);
        if let Some(pull) = in_progress.get(&key).and_then(Weak::upgrade)
            && pull.state.borrow().outcome.is_none()
        {
            return pull;
        }
        let (sender, state) = watch::channel(State::default());
        let (runtime, at_once, (name, credentials)) =
            (self.runtime.clone(), self.at_once.clone(), key.clone());
        let task = OwnedTask::spawn(async move {
            let _turn = at_once.acquire().await;
            let outcome = pull_with_credentials(runtime.as_ref(), &name, &credentials, &sender).await;
            sender.send_modify(|state| state.outcome = Some(outcome));
        });
        let pull = Arc::new(Pull { state, _task: task });
        in_progress.insert(key, Arc::downgrade(&pull));
        pull
    }
}

/// Pulls with each of the credentials, and then anonymously. If all fail, it returns the error of the first, most
/// specific one.
async fn pull_with_credentials(
    runtime: &dyn Runtime,
    name: &str,
    credentials: &[Credentials],
    sender: &watch::Sender<State>,
) -> Result<(), Error> {
    let mut first = None;
    for credential in credentials.iter().map(Some).chain([None]) {
        match once(runtime, name, credential, sender).await {
            Ok(()) => return Ok(()),
            Err(error) => {
                let another_may = is_access_error(&error);
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
    credential: Option<&Credentials>,
    sender: &watch::Sender<State>,
) -> Result<(), Error> {
    let mut steps = runtime.pull(name, credential).await?;
    while let Some(step) = steps.next().await {
        let step = step?;
        sender.send_if_modified(|state| {
            let before = state.progress.to_string();
            state.progress.add(step);
            state.progress.to_string() != before
        });
    }
    Ok(())
}

/// Whether other credentials may succeed. Without access, registries answer "not found".
fn is_access_error(error: &Error) -> bool {
    match error {
        Error::NotFound { .. } => true,
        Error::Refused { cause, .. } => *cause == Refusal::AccessDenied,
        Error::Unreachable { .. } | Error::Network(_) => false,
    }
}

#[cfg(test)]
mod tests;
