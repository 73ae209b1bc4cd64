//! The namespace controller: deletes the content of terminating namespaces, pods first, then removes the finalizer.

mod plan;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Json, Kind, Propagation, Scope, Typed};
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use self::plan::{Namespace, Progress, RemainingContent};
use super::discovery::{self, Served};
use super::informers::{Change, SharedInformers};
use super::object::{Source as _, unreadable};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use crate::objects::{ObjectMeta, PartialObject};

/// The controller's name in `--controllers`.
pub const NAME: &str = "namespace-controller";
/// The finalizer in `spec.finalizers` that this controller removes.
const FINALIZER: &str = "kubernetes";
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 10;
/// Number of concurrent deletions, so that the store can write several in one commit.
const CONCURRENT_DELETES: usize = 16;
/// Batch period. Many deletions in a terminating namespace happen at once.
const BATCH_PERIOD: Duration = Duration::from_millis(50);
/// Retry interval of a namespace with remaining content. Resources without a watch cause no events.
const RETRY_INTERVAL: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub struct NamespaceController {
    client: Client,
    informers: SharedInformers,
    deletions: Arc<Semaphore>,
}

impl NamespaceController {
    /// Creates the controller. It deletes the content of terminating namespaces of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers, deletions: Arc::new(Semaphore::new(CONCURRENT_DELETES)) }
    }

    /// Deletes the content of a namespace and returns what remains.
    async fn delete_content(&self, namespace: &str) -> RemainingContent {
        let mut remains = RemainingContent::default();
        let served = match discovery::discover(&self.client).await {
            Ok(served) => served,
            Err(error) => {
                remains.undiscovered = Some(error.to_string());
                return remains;
            }
        };
        let can_go = |served: &Served| served.kind.namespaced && served.can(&["list", "delete"]);
        let kinds: Vec<Kind> = served.into_iter().filter(can_go).map(|served| served.kind).collect();
        // Pods are deleted before the objects that they may still use.
        let (pods, others): (Vec<Kind>, Vec<Kind>) = kinds.into_iter().partition(|kind| kind.is(&Kind::POD));
        for kinds in [pods, others] {
            for kind in kinds {
                match self.delete_kind(namespace, &kind).await {
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

    /// Deletes all objects of a kind, and returns those that remain.
    async fn delete_kind(&self, namespace: &str, kind: &Kind) -> Result<Vec<ObjectMeta>, Error> {
        let found = self.list(namespace, kind).await?;
        if found.is_empty() {
            return Ok(found);
        }
        let mut tasks = JoinSet::new();
        for object in found.into_iter().filter(|object| !object.is_terminating()) {
            let (client, kind, deletions) = (self.client.clone(), kind.clone(), self.deletions.clone());
            tasks.spawn(async move {
                // The semaphore is never closed.
                let _turn = deletions.acquire().await;
                let how =
                    DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
                client.delete(&kind, &object.namespace, &object.name, &how).await
            });
        }
        while let Some(deleted) = tasks.join_next().await {
            // An aborted deletion is repeated on the next reconciliation.
            deleted.unwrap_or(Ok(()))?;
        }
        self.list(namespace, kind).await
    }

    async fn list(&self, namespace: &str, kind: &Kind) -> Result<Vec<ObjectMeta>, Error> {
        let mut found = Vec::new();
        let (scope, seed) = (Scope::namespace(namespace), Typed::<PartialObject>::default());
        match self.client.list_with(kind, &scope, seed, |object| found.push(object.metadata)).await {
            Ok(_) => Ok(found),
            // The resource is no longer served, so its objects are gone.
            Err(error) if error.is_unknown_resource() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Writes the status if it changes, and returns the object.
    async fn update_status(&self, namespace: Json, seen: Progress<'_>) -> Result<Json, Error> {
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
impl Controller for NamespaceController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        let Some(object) = change.object() else { return };
        if change.kind.is(&Kind::NAMESPACE) {
            if object.is_terminating && change.now.is_some() {
                queue.add(&object.name);
            }
        } else if change.now.is_none() && !object.namespace.is_empty() {
            let namespace = self.informers.get(&Kind::NAMESPACE, "", &object.namespace);
            if namespace.is_some_and(|namespace| namespace.is_terminating) {
                queue.add_in(&object.namespace, BATCH_PERIOD);
            }
        }
    }

    async fn reconcile(&self, name: &str, _: &WorkQueue) -> Result<Action, Error> {
        let Some(namespace) = self.client.find(&Kind::NAMESPACE, "", name).await? else {
            return Ok(Action::AwaitChange);
        };
        let read: Result<Namespace, _> = namespace.read();
        let Namespace { metadata, spec } = read.map_err(|source| unreadable(&self.client, source))?;
        if !metadata.is_terminating() || !spec.finalizers.iter().any(|own| **own == *FINALIZER) {
            return Ok(Action::AwaitChange);
        }
        let namespace = self.update_status(namespace, Progress::Started).await?;
        let remains = self.delete_content(name).await;
        let namespace = self.update_status(namespace, Progress::Deleted(&remains)).await?;
        if let Some(first) = remains.failed.first() {
            tracing::warn!(
                namespace = name,
                failed = remains.failed.len(),
                first,
                "cannot delete all content of the namespace; retrying"
            );
        }
        if !remains.is_nothing() {
            return Ok(Action::RequeueAfter(RETRY_INTERVAL));
        }
        let finalized = plan::without(namespace, &spec.finalizers, FINALIZER);
        match self.client.update(&Kind::NAMESPACE, "finalize", finalized).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(Action::AwaitChange),
        }
    }
}
