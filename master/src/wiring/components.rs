//! The tasks of a running master.

use apiserver::tasks::{TaskError, Tasks};
use tokio::runtime::Handle;

use crate::controllers;

/// Owns the components that run beside the server. Dropping it stops them.
pub(super) struct Components {
    tasks: Tasks,
    /// Components that release a lease when they are stopped.
    lease_holders: Tasks,
    /// The runtime of the components that compute long.
    computing: Handle,
}

impl Components {
    /// Takes over the tasks of the API. `computing` is the runtime for [`Self::spawn_computing`].
    pub(super) fn new(tasks: Tasks, computing: Handle) -> Self {
        Self { tasks, lease_holders: Tasks::default(), computing }
    }

    /// Starts a component.
    pub(super) fn spawn(&mut self, name: &'static str, component: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(name, component);
    }

    /// Starts a component that holds a lease.
    pub(super) fn spawn_lease_holder(
        &mut self,
        name: &'static str,
        component: impl Future<Output = ()> + Send + 'static,
    ) {
        self.lease_holders.spawn(name, component);
    }

    /// Starts a component that holds a lease and may compute for long: controllers decode, hash and compare objects of
    /// users. It does not run on the threads that serve requests, so that health checks and heartbeats do not wait.
    pub(super) fn spawn_computing(
        &mut self,
        name: &'static str,
        component: impl Future<Output = ()> + Send + 'static,
    ) {
        self.lease_holders.spawn_on(name, component, &self.computing);
    }

    /// Waits until a component panics. The master then stops, as it does in a release build, so that a restart
    /// starts the component again.
    pub(super) async fn failure(&mut self) -> TaskError {
        tokio::select! {
            failed = self.tasks.failure() => failed,
            failed = self.lease_holders.failure() => failed,
        }
    }

    /// Waits until the leases are released, so that other masters can take over at once. A lease that cannot be
    /// released expires.
    ///
    /// # Errors
    /// If a component panics.
    pub(super) async fn release_leases(mut self) -> Result<(), TaskError> {
        tokio::time::timeout(controllers::RELEASE_TIMEOUT, self.lease_holders.join()).await.unwrap_or(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    //! A component that computes beside a server with one thread.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn a_component_that_computes_holds_up_no_request() {
        let computing = Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let serving = Builder::new_current_thread().enable_all().build().unwrap();
        serving.block_on(async {
            let mut components = Components::new(Tasks::default(), computing.handle().clone());
            let (begun, is_computing) = tokio::sync::oneshot::channel();
            let (finish, finished) = mpsc::channel::<()>();
            components.spawn_computing("busy", async move {
                begun.send(()).unwrap();
                finished.recv_timeout(Duration::from_secs(30)).unwrap();
            });
            is_computing.await.unwrap();
            // This thread still runs: it ends the computation.
            finish.send(()).unwrap();
            components.release_leases().await.unwrap();
        });
    }
}
