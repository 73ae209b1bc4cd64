//! The service account controller: creates the service account `default` in every namespace.

use async_trait::async_trait;
use client::{Client, Error, Kind};
use serde_json::json;

use super::informers::{Change, SharedInformers};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};

/// The controller's name in `--controllers`.
pub const NAME: &str = "serviceaccount-controller";
/// The service account of pods that name none.
const DEFAULT_ACCOUNT: &str = "default";

#[derive(Debug)]
pub struct ServiceAccountController {
    client: Client,
    informers: SharedInformers,
}

impl ServiceAccountController {
    /// Creates the controller. It creates missing service accounts in the namespaces of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers }
    }
}

/// Whether a namespace lacks an object and is not terminating.
pub(super) fn is_missing(informers: &SharedInformers, namespace: &str, kind: &Kind, name: &str) -> bool {
    let stays = informers.get(&Kind::NAMESPACE, "", namespace).is_some_and(|found| !found.is_terminating);
    stays && informers.get(kind, namespace, name).is_none()
}

/// Ignores the errors of a create that need no retry: the object exists, or its namespace is terminating or does
/// not exist.
pub(super) fn ignore_existing(result: Result<client::Json, Error>) -> Result<Action, Error> {
    match result {
        Ok(_) => Ok(Action::AwaitChange),
        Err(error) if error.exists() || error.is_not_found() || error.is_namespace_terminating() => {
            Ok(Action::AwaitChange)
        }
        Err(error) => Err(error),
    }
}

#[async_trait]
impl Controller for ServiceAccountController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::NAMESPACE) && change.now.is_some() {
            queue.add(&object.name);
        } else if change.kind.is(&Kind::SERVICE_ACCOUNT)
            && change.now.is_none()
            && object.name == DEFAULT_ACCOUNT
        {
            queue.add(&object.namespace);
        }
    }

    async fn reconcile(&self, namespace: &str, _: &WorkQueue) -> Result<Action, Error> {
        if !is_missing(&self.informers, namespace, &Kind::SERVICE_ACCOUNT, DEFAULT_ACCOUNT) {
            return Ok(Action::AwaitChange);
        }
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": DEFAULT_ACCOUNT, "namespace": namespace},
        });
        ignore_existing(self.client.create(&Kind::SERVICE_ACCOUNT, namespace, account).await)
    }
}
