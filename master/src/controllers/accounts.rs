//! Every namespace has a service account `default`, for pods that name none.

use async_trait::async_trait;
use serde_json::json;

use super::agenda::Next;
use super::client::{Client, Error, Kind};
use super::queue::{Controller, Queue};
use super::world::{Change, World};

/// Its name in `--controllers`.
pub const NAME: &str = "serviceaccount-controller";
/// The account.
const DEFAULT: &str = "default";

/// The controller.
#[derive(Debug)]
pub struct Accounts {
    client: Client,
    world: World,
}

impl Accounts {
    /// Makes what is missing in that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world }
    }
}

/// Whether something is to be made in a namespace: it stays, and has none.
pub(super) fn wants(world: &World, namespace: &str, kind: &Kind, name: &str) -> bool {
    let stays = world.get(&Kind::NAMESPACE, "", namespace).is_some_and(|found| !found.is_ending);
    stays && world.get(kind, namespace, name).is_none()
}

/// What came of making an object in a namespace: that it is there already, or that the namespace goes, is no failure.
pub(super) fn made(result: Result<super::client::Json, Error>) -> Result<Next, Error> {
    match result {
        Ok(_) => Ok(Next::Change),
        Err(error) if error.exists() || error.is_not_found() || is_ending(&error) => Ok(Next::Change),
        Err(error) => Err(error),
    }
}

fn is_ending(error: &Error) -> bool {
    error.is_forbidden() && error.to_string().contains("being terminated")
}

#[async_trait]
impl Controller for Accounts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::NAMESPACE) && change.now.is_some() {
            queue.add(&object.name);
        } else if change.kind.is(&Kind::SERVICE_ACCOUNT) && change.now.is_none() && object.name == DEFAULT {
            queue.add(&object.namespace);
        }
    }

    async fn look(&self, namespace: &str, _: &Queue) -> Result<Next, Error> {
        if !wants(&self.world, namespace, &Kind::SERVICE_ACCOUNT, DEFAULT) {
            return Ok(Next::Change);
        }
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": DEFAULT, "namespace": namespace},
        });
        made(self.client.create(&Kind::SERVICE_ACCOUNT, namespace, account).await)
    }
}
