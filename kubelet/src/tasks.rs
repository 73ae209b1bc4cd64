//! Owners of background tasks. A task ends with its owner, and a task that ends too early is reported.

use std::collections::HashMap;

use tokio::task::{AbortHandle, Id, JoinError, JoinSet};

/// Tasks that run until the kubelet stops. Dropping the group ends them.
#[derive(Default)]
pub struct TaskGroup {
    tasks: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

/// The error for a task that has ended, although it must run until the kubelet stops.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The task returned.
    #[error("the task {name:?} of the kubelet has ended; this is a bug, please report it")]
    Ended {
        /// Name of the task.
        name: &'static str,
    },
    #[error("the task {name:?} of the kubelet has panicked; this is a bug, please report it")]
    Panicked {
        /// Name of the task.
        name: &'static str,
        /// The error of the panic.
        source: JoinError,
    },
}

impl TaskGroup {
    /// Starts a task.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let id = self.tasks.spawn(task).id();
        self.names.insert(id, name);
    }

    /// Waits until a task has ended. Without tasks, it waits forever. Cancel safe.
    pub async fn failure(&mut self) -> TaskError {
        let name = |names: &mut HashMap<Id, &'static str>, id| names.remove(&id).unwrap_or_default();
        match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => TaskError::Ended { name: name(&mut self.names, id) },
            Some(Err(source)) => TaskError::Panicked { name: name(&mut self.names, source.id()), source },
            None => std::future::pending().await,
        }
    }
}

/// A task that ends when this value is dropped. It reports its result through a channel of its own.
#[derive(Debug)]
pub struct OwnedTask(AbortHandle);

impl OwnedTask {
    /// Starts a task.
    pub fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task).abort_handle())
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    //! Tests of tasks that end, panic and outlive their owner.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_group_names_the_task_that_ends() {
        let mut group = TaskGroup::default();
        group.spawn("forever", pending());
        let (sender, receiver) = oneshot::channel::<()>();
        group.spawn("short", async { drop(receiver.await) });
        drop(sender);
        assert!(matches!(group.failure().await, TaskError::Ended { name: "short" }));
        group.spawn("broken", async { panic!("of this test") });
        assert!(matches!(group.failure().await, TaskError::Panicked { name: "broken", .. }));
    }

    #[tokio::test]
    async fn tasks_end_with_their_owner() {
        let (in_group, group_ended) = oneshot::channel::<()>();
        let (owned, owned_ended) = oneshot::channel::<()>();
        let mut group = TaskGroup::default();
        group.spawn("forever", async {
            let _in_group = in_group;
            pending().await
        });
        let task = OwnedTask::spawn(async {
            let _owned = owned;
            pending().await
        });
        drop((group, task));
        assert!(group_ended.await.is_err());
        assert!(owned_ended.await.is_err());
    }
}
