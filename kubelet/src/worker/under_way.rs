//! What a worker has begun and not finished: one task a key.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::{AbortHandle, JoinError, JoinSet};

use super::apply::{self, Fault, Job};
use crate::plan::{Action, Key};

/// Actions under way.
#[derive(Default)]
pub(super) struct UnderWay {
    begun: BTreeMap<Key, Begun>,
    tasks: JoinSet<Done>,
}

struct Begun {
    task: AbortHandle,
    /// It makes or starts something, for what was wanted with this hash.
    beginning: Option<String>,
}

/// How an action ended.
pub(super) struct Done {
    pub key: Key,
    pub action: Action,
    /// What it made something for.
    pub hash: Option<String>,
    /// The assignment it was begun for.
    pub generation: u64,
    pub result: Result<(), Fault>,
}

impl UnderWay {
    /// What is being worked on.
    pub fn keys(&self) -> BTreeSet<Key> {
        self.begun.keys().cloned().collect()
    }

    /// Something is being done on that.
    pub fn contains(&self, key: &Key) -> bool {
        self.begun.contains_key(key)
    }

    /// Nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Begins an action that makes what was wanted with that hash, if it makes anything.
    pub fn begin(&mut self, job: Job, action: Action, hash: Option<String>, generation: u64) {
        let key = action.key();
        let beginning = action.makes_something().then_some(hash).flatten();
        let (begun_key, hash) = (key.clone(), beginning.clone());
        let task = self.tasks.spawn(async move {
            let result = apply::apply(&job, &action).await;
            Done { key, action, hash, generation, result }
        });
        self.begun.insert(begun_key, Begun { task, beginning });
    }

    /// Cuts off what is being begun for a hash that is not wanted: a pull that hangs holds up no edit.
    pub fn abandon(&self, is_wanted: impl Fn(&Key, &String) -> bool) {
        for (key, begun) in &self.begun {
            if begun.beginning.as_ref().is_some_and(|hash| !is_wanted(key, hash)) {
                begun.task.abort();
            }
        }
    }

    /// Waits for the next action to end: how it did, or `None` when it was cut off. Waits for ever when none is under way.
    pub async fn next(&mut self) -> Option<Done> {
        let Some(ended) = self.tasks.join_next().await else { return std::future::pending().await };
        match ended {
            Ok(done) => {
                self.begun.remove(&done.key);
                Some(done)
            }
            Err(error) => {
                self.cut_off(&error);
                None
            }
        }
    }

    fn cut_off(&mut self, error: &JoinError) {
        let place = self.begun.iter().find(|(_, begun)| begun.task.id() == error.id());
        if let Some(key) = place.map(|(key, _)| key.clone()) {
            self.begun.remove(&key);
        }
    }
}
