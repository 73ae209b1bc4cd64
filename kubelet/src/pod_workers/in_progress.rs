//! Actions in progress of a pod worker: one task per key.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::apply::{self, ActionContext, ActionError};
use crate::plan::{Action, Key};

#[derive(Default)]
pub(super) struct ActionsInProgress {
    started: BTreeMap<Key, StartedAction>,
    tasks: JoinSet<CompletedAction>,
}

struct StartedAction {
    task: AbortHandle,
    /// Hash of the spec that the action implements, if it creates or starts something.
    beginning: Option<String>,
}

/// Result of an action.
pub(super) struct CompletedAction {
    pub key: Key,
    pub action: Action,
    /// Hash of the spec that the action implemented.
    pub hash: Option<String>,
    /// Number of the assignment for which the action started.
    pub generation: u64,
    pub result: Result<(), ActionError>,
}

impl ActionsInProgress {
    /// Keys of the actions in progress.
    pub fn keys(&self) -> BTreeSet<Key> {
        self.started.keys().cloned().collect()
    }

    /// Whether an action on this key is in progress.
    pub fn contains(&self, key: &Key) -> bool {
        self.started.contains_key(key)
    }

    /// Whether no action is in progress.
    pub fn is_empty(&self) -> bool {
        self.started.is_empty()
    }

    /// Starts an action for the spec with this hash.
    pub fn start(&mut self, job: ActionContext, action: Action, hash: Option<String>, generation: u64) {
        let key = action.key();
        let beginning = action.makes_something().then_some(hash).flatten();
        let (started_key, hash) = (key.clone(), beginning.clone());
        let task = self.tasks.spawn(async move {
            let result = apply::apply(&job, &action).await;
            CompletedAction { key, action, hash, generation, result }
        });
        self.started.insert(started_key, StartedAction { task, beginning });
    }

    /// Aborts actions for hashes that are no longer desired, so that a hung pull does not delay an edit.
    pub fn abandon(&self, is_wanted: impl Fn(&Key, &String) -> bool) {
        for (key, started) in &self.started {
            if started.beginning.as_ref().is_some_and(|hash| !is_wanted(key, hash)) {
                started.task.abort();
            }
        }
    }

    /// Waits for the next action to end. `None` if it was aborted. Without actions, it waits forever.
    pub async fn next(&mut self) -> Option<CompletedAction> {
        let Some(ended) = self.tasks.join_next().await else { return std::future::pending().await };
        match ended {
            Ok(done) => {
                self.started.remove(&done.key);
                Some(done)
            }
            Err(error) => {
                self.cut_off(&error);
                None
            }
        }
    }

    fn cut_off(&mut self, error: &JoinError) {
        let place = self.started.iter().find(|(_, started)| started.task.id() == error.id());
        if let Some(key) = place.map(|(key, _)| key.clone()) {
            self.started.remove(&key);
        }
    }
}
