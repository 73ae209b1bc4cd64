//! The tasks of a running master.

use apiserver::tasks::{TaskError, Tasks};

use crate::controllers;

/// Owns the components that run beside the server. Dropping it stops them.
pub(super) struct Components {
    tasks: Tasks,
    /// Components that release a lease when they are stopped.
    lease_holders: Tasks,
}

impl Components {
    /// Takes over the tasks of the API.
    pub(super) fn new(tasks: Tasks) -> Self {
        Self { tasks, lease_holders: Tasks::default() }
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
