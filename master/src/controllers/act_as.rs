//! The identities that the master's own clients act as.

use apiserver::Identity;
use client::Client;

use super::CONTROLLER_MANAGER;

/// A client that can act as other identities. A remote server ignores these identities, and uses the credentials of
/// the connection.
pub trait ActAs {
    /// Returns a client that acts as a service account of `kube-system`.
    fn as_service_account(&self, name: &str) -> Client;

    /// Returns a client that acts as the master itself, in `system:masters`.
    fn as_master(&self) -> Client;

    /// Returns a client that acts as a user without groups.
    fn as_user(&self, user: &str, agent: &str) -> Client;

    /// Returns a client that acts as the controller manager's user, which may read everything.
    fn as_controller_manager(&self) -> Client {
        self.as_user(&format!("system:{CONTROLLER_MANAGER}"), CONTROLLER_MANAGER)
    }
}

impl ActAs for Client {
    fn as_service_account(&self, name: &str) -> Client {
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"].map(str::to_owned);
        let user = format!("system:serviceaccount:kube-system:{name}");
        self.clone().with_extension(Identity::authenticated(user, groups)).with_agent(name)
    }

    fn as_master(&self) -> Client {
        let everything = ["system:masters".to_owned()];
        let identity = Identity::authenticated("system:apiserver", everything);
        self.clone().with_extension(identity).with_agent("master")
    }

    fn as_user(&self, user: &str, agent: &str) -> Client {
        self.clone().with_extension(Identity::authenticated(user, [])).with_agent(agent)
    }
}
