//! A namespace that is deleted takes everything in it along: pods first, then the rest, then itself.

mod plan;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::plan::{Remains, Seen};
use super::agenda::Next;
use super::client::{Client, Delete, Error, Json, Kind, Propagation};
use super::discovery::{self, Served};
use super::object::{Object, at};
use super::queue::{Controller, Queue};
use super::world::{Change, World};

/// Its name in `--controllers`.
pub const NAME: &str = "namespace-controller";
/// The finalizer in a namespace's spec that this controller takes off.
const FINALIZER: &str = "kubernetes";
/// Namespaces that are emptied at once; the stock controller's.
const WORKERS: usize = 10;
/// Objects that are deleted at once: enough for the store to write several in one commit.
const DELETIONS: usize = 16;
/// When something goes in a namespace that ends, others usually go with it.
const GATHER: Duration = Duration::from_millis(50);
/// How long at most until a namespace that is not empty is looked at again: resources without a watch tell nobody.
const AGAIN: Duration = Duration::from_secs(15);

/// The controller.
#[derive(Debug)]
pub struct Namespaces {
    client: Client,
    world: World,
    deletions: Arc<Semaphore>,
}

impl Namespaces {
    /// Empties the namespaces of that world.
    pub fn new(client: Client, world: World) -> Self {
        Self { client, world, deletions: Arc::new(Semaphore::new(DELETIONS)) }
    }

    /// Deletes what is there and says what is left of it.
    async fn empty(&self, namespace: &str) -> Remains {
        let mut remains = Remains::default();
        let served = match discovery::discover(&self.client).await {
            Ok(served) => served,
            Err(error) => {
                remains.undiscovered = Some(error.to_string());
                return remains;
            }
        };
        let can_go = |served: &Served| served.kind.namespaced && served.can(&["list", "delete"]);
        let kinds: Vec<Kind> = served.into_iter().filter(can_go).map(|served| served.kind).collect();
        // What runs goes before what it may still use.
        let (pods, others): (Vec<Kind>, Vec<Kind>) = kinds.into_iter().partition(|kind| kind.is(&Kind::POD));
        for kinds in [pods, others] {
            for kind in kinds {
                match self.empty_of(namespace, &kind).await {
                    Ok(left) => remains.add(&kind, left),
                    Err(error) => remains.failed.push(format!("{}: {error}", kind.qualified())),
                }
            }
            if !remains.is_nothing() {
                break;
            }
        }
        remains
    }

    /// Deletes all objects of a kind; those that are still there then.
    async fn empty_of(&self, namespace: &str, kind: &Kind) -> Result<Vec<Object>, Error> {
        let found = self.list(namespace, kind).await?;
        if found.is_empty() {
            return Ok(found);
        }
        let mut tasks = JoinSet::new();
        for object in found.into_iter().filter(|object| !object.is_ending) {
            let (client, kind, deletions) = (self.client.clone(), kind.clone(), self.deletions.clone());
            tasks.spawn(async move {
                // It is never closed.
                let _turn = deletions.acquire().await;
                let how = Delete { propagation: Some(Propagation::Background), ..Delete::default() };
                client.delete(&kind, &object.namespace, &object.name, &how).await
            });
        }
        while let Some(deleted) = tasks.join_next().await {
            // One that was stopped is looked for again.
            deleted.unwrap_or(Ok(()))?;
        }
        self.list(namespace, kind).await
    }

    async fn list(&self, namespace: &str, kind: &Kind) -> Result<Vec<Object>, Error> {
        let mut found = Vec::new();
        // Nothing but metadata is kept: the name of no resource keeps fields.
        match self.client.list(kind, namespace, |object| found.push(Object::of("", &object))).await {
            Ok(_) => Ok(found),
            // Its definition is gone, and its objects with it.
            Err(error) if error.is_no_such_path() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Writes the status, if it says anything new; the object as it is then.
    async fn tell(&self, namespace: Json, seen: Seen<'_>) -> Result<Json, Error> {
        match plan::status(&namespace, seen, Timestamp::now()) {
            None => Ok(namespace),
            Some(status) => {
                let mut object = namespace;
                object.insert("status".to_owned(), status);
                self.client.update(&Kind::NAMESPACE, "status", object).await
            }
        }
    }
}

#[async_trait]
impl Controller for Namespaces {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn hear(&self, change: &Change, queue: &Queue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::NAMESPACE) {
            if object.is_ending && change.now.is_some() {
                queue.add(&object.name);
            }
        } else if change.now.is_none() && !object.namespace.is_empty() {
            let namespace = self.world.get(&Kind::NAMESPACE, "", &object.namespace);
            if namespace.is_some_and(|namespace| namespace.is_ending) {
                queue.add_in(&object.namespace, GATHER);
            }
        }
    }

    async fn look(&self, name: &str, _: &Queue) -> Result<Next, Error> {
        let Some(namespace) = self.client.find(&Kind::NAMESPACE, "", name).await? else {
            return Ok(Next::Change);
        };
        let is_ours = |namespace: &Json| {
            let finalizers = at(namespace, "/spec/finalizers").and_then(Value::as_array);
            finalizers.into_iter().flatten().any(|finalizer| finalizer == FINALIZER)
        };
        if at(&namespace, "/metadata/deletionTimestamp").is_none() || !is_ours(&namespace) {
            return Ok(Next::Change);
        }
        let namespace = self.tell(namespace, Seen::Nothing).await?;
        let remains = self.empty(name).await;
        let namespace = self.tell(namespace, Seen::Remains(&remains)).await?;
        if let Some(first) = remains.failed.first() {
            tracing::warn!(
                namespace = name,
                failed = remains.failed.len(),
                first,
                "not everything can be deleted"
            );
        }
        if !remains.is_nothing() {
            return Ok(Next::In(AGAIN));
        }
        match self.client.update(&Kind::NAMESPACE, "finalize", plan::without(namespace, FINALIZER)).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(Next::Change),
        }
    }
}
