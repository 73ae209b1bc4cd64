//! Background tasks. Each has an owner that reports its failure.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

/// The background tasks of one owner. Dropping it aborts them.
#[derive(Debug, Default)]
pub struct Tasks {
    running: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

/// The error for a background task that panicked, so that its work is no longer done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the background task \"{name}\" failed")]
pub struct TaskFailed {
    /// The name of the task.
    pub name: &'static str,
}

impl Tasks {
    /// Starts a task. Messages show its name.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.running.spawn(task).id();
        self.names.insert(id, name);
    }

    /// Waits until all tasks have ended.
    ///
    /// # Errors
    /// If a task fails. The error is that of the first one. The other tasks keep running.
    pub async fn join(&mut self) -> Result<(), TaskFailed> {
        while let Some(ended) = self.running.join_next_with_id().await {
            let (id, is_failed) = match ended {
                Ok((id, ())) => (id, false),
                Err(error) => (error.id(), error.is_panic()),
            };
            let name = self.names.remove(&id).unwrap_or_default();
            if is_failed {
                return Err(TaskFailed { name });
            }
        }
        Ok(())
    }

    /// Waits until a task fails. If none fails, it waits forever.
    pub async fn failure(&mut self) -> TaskFailed {
        match self.join().await {
            Err(failed) => failed,
            Ok(()) => std::future::pending().await,
        }
    }
}

/// Starts a task that ends with its input, such as a connection. Logs an error if it fails.
pub fn supervise(name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
    let mut tasks = Tasks::default();
    tasks.spawn(name, task);
    tokio::spawn(async move {
        if let Err(error) = tasks.join().await {
            tracing::error!(%error, "a task failed; this is a defect of the program");
        }
    });
}

#[cfg(test)]
mod tests {
    //! Tests of ends of tasks.
    #![allow(clippy::panic, reason = "tests")]

    use super::*;

    #[tokio::test]
    async fn a_failure_has_the_name_of_its_task() {
        let mut tasks = Tasks::default();
        assert_eq!(tasks.join().await, Ok(()));
        tasks.spawn("quick", async {});
        tasks.spawn("broken", async { panic!("for this test") });
        assert_eq!(tasks.failure().await, TaskFailed { name: "broken" });
        assert_eq!(tasks.join().await, Ok(()));
    }
}
