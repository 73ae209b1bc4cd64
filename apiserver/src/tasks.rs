//! Owners of background tasks: a task ends with its owner, and a task that fails is reported.

use std::collections::HashMap;
use std::future::pending;

use tokio::runtime::Handle;
use tokio::task::{AbortHandle, Id, JoinError, JoinHandle, JoinSet};

/// The background tasks of one owner. Dropping it aborts them.
#[derive(Debug, Default)]
pub struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

/// A background task does not do its work any more.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The task returned, although it must run until the program stops.
    #[error("the background task \"{name}\" has ended; this is a bug, please report it")]
    Ended {
        /// Name of the task.
        name: &'static str,
    },
    /// The task panicked.
    #[error("the background task \"{name}\" has panicked; this is a bug, please report it")]
    Panicked {
        /// Name of the task.
        name: &'static str,
        /// The panic, as tokio reports it.
        source: JoinError,
    },
}

impl Tasks {
    /// Starts a task. The name is for messages. An abort by the returned handle is no failure.
    pub fn spawn(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        self.spawn_on(name, task, &Handle::current())
    }

    /// Starts a task on the threads of another runtime.
    pub fn spawn_on(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
        runtime: &Handle,
    ) -> AbortHandle {
        let handle = self.running.spawn_on(task, runtime);
        self.names.insert(handle.id(), name);
        handle
    }

    /// The next task that returns or panics; `None` if all have ended. Cancel safe.
    async fn next_end(&mut self) -> Option<TaskError> {
        loop {
            let ended = self.running.join_next_with_id().await?;
            let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
            let name = self.names.remove(&id).unwrap_or_default();
            match ended {
                Ok(_) => return Some(TaskError::Ended { name }),
                Err(source) if source.is_panic() => return Some(TaskError::Panicked { name, source }),
                Err(_) => {}
            }
        }
    }

    /// Waits until all tasks have ended. Cancel safe.
    ///
    /// # Errors
    /// If a task panics. The error is that of the first one. The other tasks keep running.
    pub async fn join(&mut self) -> Result<(), TaskError> {
        while let Some(ended) = self.next_end().await {
            if let TaskError::Panicked { .. } = ended {
                return Err(ended);
            }
        }
        Ok(())
    }

    /// Waits until a task panics; forever if none does. Cancel safe.
    pub async fn failure(&mut self) -> TaskError {
        match self.join().await {
            Err(failed) => failed,
            Ok(()) => pending().await,
        }
    }

    /// Waits until a task returns or panics, for tasks that run until the program stops; without tasks, forever. Cancel
    /// safe.
    pub async fn first_end(&mut self) -> TaskError {
        match self.next_end().await {
            Some(ended) => ended,
            None => pending().await,
        }
    }
}

/// A task that ends when this value is dropped.
#[derive(Debug)]
pub struct OwnedTask(AbortHandle);

impl OwnedTask {
    /// Starts a task that reports its result through a channel of its own.
    pub fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }

    /// Starts a task, and logs if it panics.
    pub fn supervised(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(spawn_supervised(name, task).abort_handle())
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts a task that ends with its input, such as a connection, and logs if it panics.
pub fn supervise(name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    drop(spawn_supervised(name, task));
}

fn spawn_supervised(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let mut tasks = Tasks::default();
    tasks.spawn(name, task);
    tokio::spawn(async move {
        if let Err(error) = tasks.join().await {
            tracing::error!(%error, "a background task failed");
        }
    })
}

#[cfg(test)]
mod tests {
    //! Tasks that end, panic, are aborted and outlive their owner.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn task_failure_contains_the_task_name() {
        let mut tasks = Tasks::default();
        tasks.join().await.unwrap();
        tasks.spawn("quick", async {});
        tasks.spawn("broken", async { panic!("for this test") });
        assert!(matches!(tasks.failure().await, TaskError::Panicked { name: "broken", .. }));
        tasks.join().await.unwrap();
    }

    #[tokio::test]
    async fn early_end_of_a_task_is_reported_unless_it_was_aborted() {
        let mut tasks = Tasks::default();
        tasks.spawn("aborted", pending()).abort();
        let (sender, receiver) = oneshot::channel::<()>();
        tasks.spawn("short", async { drop(receiver.await) });
        drop(sender);
        assert!(matches!(tasks.first_end().await, TaskError::Ended { name: "short" }));
        tasks.spawn("broken", async { panic!("for this test") });
        assert!(matches!(tasks.first_end().await, TaskError::Panicked { name: "broken", .. }));
    }

    #[tokio::test]
    async fn tasks_end_with_their_owner() {
        let task = || {
            let (running, ended) = oneshot::channel::<()>();
            let task = async {
                let _running = running;
                pending().await
            };
            (task, ended)
        };
        let (mut tasks, (in_group, group_ended)) = (Tasks::default(), task());
        tasks.spawn("forever", in_group);
        let ((owned, owned_ended), (supervised, supervised_ended)) = (task(), task());
        let (owned, supervised) = (OwnedTask::spawn(owned), OwnedTask::supervised("forever", supervised));
        drop((tasks, owned, supervised));
        assert!(group_ended.await.is_err());
        assert!(owned_ended.await.is_err());
        assert!(supervised_ended.await.is_err());
    }
}
