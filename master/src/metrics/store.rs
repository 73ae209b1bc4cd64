//! A store wrapper that records request durations.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use apiserver::storage::{
    Batches, Error, Expected, Found, Outcome, Page, Revision, Store, Transaction, Write,
};
use async_trait::async_trait;

use super::Metrics;

/// A store whose requests are measured.
pub struct Measured {
    store: Arc<dyn Store>,
    metrics: Arc<Metrics>,
}

impl Measured {
    /// Wraps a store.
    pub fn new(store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics }
    }

    async fn measure<T>(
        &self,
        operation: &'static str,
        key: &str,
        operation_future: impl Future<Output = T>,
    ) -> T {
        let begun = Instant::now();
        let answer = operation_future.await;
        self.metrics.stored(operation, key, begun.elapsed());
        answer
    }
}

#[async_trait]
impl Store for Measured {
    async fn get(&self, key: &str) -> Result<Found, Error> {
        self.measure("get", key, self.store.get(key)).await
    }

    async fn range(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page, Error> {
        self.measure("list", prefix, self.store.range(prefix, after, limit)).await
    }

    async fn commit(&self, transaction: Transaction) -> Result<Outcome, Error> {
        let (operation, key) = name(&transaction);
        self.measure(operation, &key, self.store.commit(transaction)).await
    }

    async fn commit_deferred(&self, transaction: Transaction) -> Result<Outcome, Error> {
        let (operation, key) = name(&transaction);
        self.measure(operation, &key, self.store.commit_deferred(transaction)).await
    }

    async fn flush(&self) -> Result<(), Error> {
        self.store.flush().await
    }

    async fn watch(&self, from: Revision) -> Result<Batches, Error> {
        self.store.watch(from).await
    }

    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.store.compact(revision).await
    }

    async fn revision(&self) -> Result<Revision, Error> {
        self.store.revision().await
    }

    async fn check_health(&self) -> Result<(), Error> {
        self.store.check_health().await
    }

    async fn backup(&self, path: &Path) -> Result<(), Error> {
        self.store.backup(path).await
    }
}

/// The operation label and the key of a transaction.
fn name(transaction: &Transaction) -> (&'static str, Arc<str>) {
    let is_new = transaction.compares.iter().any(|compare| compare.expected == Expected::Absent);
    match transaction.writes.first() {
        Some(Write::Put { key, .. }) => (if is_new { "create" } else { "update" }, key.clone()),
        Some(Write::Delete { key }) => ("delete", key.clone()),
        None => ("get", Arc::from("")),
    }
}
