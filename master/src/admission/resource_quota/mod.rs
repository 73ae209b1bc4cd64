//! The ResourceQuota plugin: rejects requests that exceed a quota, and reserves usage in the quota's status.
//!
//! Reservations are compare-and-swap writes of the status. Concurrent requests share one write: the first request
//! evaluates all that wait in its shard.

mod batch;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest, Operation};
use apiserver::registry::{self, Registry};
use apiserver::tasks;
use apiserver::watch_cache::{Object, Scope};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::oneshot;

use self::batch::QuotaRequest;
use super::lister::Lister;
use super::pods::{forbidden, may_grow};
use crate::quota::{self, Quota};

/// The resource name of ResourceQuotas.
const QUOTAS: &str = "resourcequotas";
/// Number of evaluation queues. Each namespace uses one of them.
const SHARDS: usize = 64;
/// Maximum number of attempts after write conflicts. The stock server tries 3 times, but its only conflicts are with
/// other servers.
const MAX_ATTEMPTS: usize = 10;
/// How long a request waits for the first recount of a new quota.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// The stock plugin `ResourceQuota`.
pub struct ResourceQuota {
    evaluator: Arc<QuotaEvaluator>,
}

/// The evaluator. It continues after a single request has ended.
struct QuotaEvaluator {
    registry: Arc<Registry>,
    shards: Vec<Shard>,
}

/// One evaluation queue.
#[derive(Default)]
struct Shard {
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Vec<Waiter>>,
}

/// A request that waits for its evaluation.
struct Waiter {
    namespace: String,
    request: QuotaRequest,
    answer: oneshot::Sender<Result<(), QuotaError>>,
}

/// The reason why a reservation failed.
#[derive(Clone, Debug)]
enum QuotaError {
    /// The quota is exceeded. The text is the stock message.
    Exceeded(String),
    /// The quota's status could not be written.
    Failed(Status),
}

impl ResourceQuota {
    /// Creates the plugin, which reserves usage in a registry.
    pub fn new(registry: Arc<Registry>) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Self { evaluator: Arc::new(QuotaEvaluator { registry, shards }) }
    }

    /// The usage that a request adds, or `None` if it adds none.
    fn request(&self, attempt: &AdmissionRequest<'_>) -> Option<QuotaRequest> {
        let resource = attempt.resource.stored().to_owned();
        let grows = ["services", "persistentvolumeclaims"].contains(&resource.as_str());
        let old = match (attempt.operation, attempt.subresource) {
            (Operation::Create, None) => None,
            (Operation::Update, None) if grows => attempt.old,
            (Operation::Update, Some(_)) if may_grow(attempt) => attempt.old,
            _ => return None,
        };
        let now = Timestamp::now();
        let usage = quota::usage(&resource, &attempt.object, now);
        let old = old.map(|old| (old.clone(), quota::usage(&resource, old, now)));
        Some(QuotaRequest { resource, object: attempt.object.clone(), usage, old })
    }

    /// Waits until the request has been evaluated and its usage reserved.
    async fn reserve(&self, namespace: &str, request: QuotaRequest) -> Result<(), QuotaError> {
        let mut hasher = DefaultHasher::new();
        namespace.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % SHARDS as u64).unwrap_or(0);
        let (answer, answered) = oneshot::channel();
        self.evaluator.enqueue(at, Waiter { namespace: namespace.to_owned(), request, answer });
        // A spawned task evaluates the shard, so that it completes even if this request is cancelled.
        let evaluator = self.evaluator.clone();
        tasks::supervise("quota evaluation", async move { evaluator.evaluate_shard(at).await });
        answered
            .await
            .unwrap_or_else(|_| Err(QuotaError::Failed(Status::internal("the quota evaluation was aborted"))))
    }

    /// Waits until the quotas' status covers all resources of the request.
    ///
    /// # Errors
    /// If the status stays incomplete. The error is the stock message.
    async fn wait_until_counted(
        &self,
        attempt: &AdmissionRequest<'_>,
        namespace: &str,
        request: &QuotaRequest,
    ) -> Result<(), Status> {
        let unknown = || {
            let all = self.evaluator.quotas(namespace).into_iter().map(|(_, quota)| quota);
            all.filter(|quota| quota.counts(&request.resource, &request.object))
                .map(|quota| (quota.uncounted(&request.resource), quota.name))
                .find(|(names, _)| !names.is_empty())
        };
        let look = || unknown().is_none().then_some(());
        let lister = Lister::new(self.evaluator.registry.clone());
        if look().is_some() || lister.wait_for(QUOTAS, namespace, STATUS_TIMEOUT, look).await.is_some() {
            return Ok(());
        }
        let (names, quota) = unknown().unwrap_or_default();
        let why = format!("status unknown for quota: {quota}, resources: {}", names.join(","));
        Err(forbidden(attempt, &why))
    }
}

impl QuotaEvaluator {
    fn quotas(&self, namespace: &str) -> Vec<(Object, Quota)> {
        let listing = self.registry.cache().list(QUOTAS, &Scope::Namespace(namespace.to_owned()));
        listing.objects.into_iter().map(|object| (object.clone(), Quota::of(&object.decode()))).collect()
    }

    fn enqueue(&self, at: usize, waiting: Waiter) {
        if let Some(shard) = self.shards.get(at) {
            shard.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
        }
    }

    /// Evaluates all waiting requests of a shard. Usually an earlier call has already done that.
    async fn evaluate_shard(&self, at: usize) {
        let Some(shard) = self.shards.get(at) else { return };
        let _turn = shard.turn.lock().await;
        let mut all = std::mem::take(&mut *shard.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        // Cancelled requests are dropped.
        all.retain(|waiting| !waiting.answer.is_closed());
        while let Some(first) = all.first() {
            let namespace = first.namespace.clone();
            let (own, others) = all.into_iter().partition(|waiting| waiting.namespace == namespace);
            self.decide(&namespace, own).await;
            all = others;
        }
    }

    /// Evaluates the requests of one namespace, quota by quota.
    async fn decide(&self, namespace: &str, waiting: Vec<Waiter>) {
        let (requests, answers): (Vec<QuotaRequest>, Vec<_>) =
            waiting.into_iter().map(|waiting| (waiting.request, waiting.answer)).unzip();
        let mut verdicts: Vec<Result<(), QuotaError>> = requests.iter().map(|_| Ok(())).collect();
        // The first pass does not write, so that no usage is reserved for requests that another quota rejects.
        let quotas = self.quotas(namespace);
        for (_, quota) in &quotas {
            batch::decide(quota, &requests, &mut verdicts);
        }
        for (object, _) in quotas {
            self.write(namespace, object.name(), &requests, &mut verdicts).await;
        }
        for (answer, verdict) in answers.into_iter().zip(verdicts) {
            // The request may be cancelled; the next recount releases its reservation.
            let _ = answer.send(verdict);
        }
    }

    /// Reserves the usage of all accepted requests in one quota.
    async fn write(
        &self,
        namespace: &str,
        name: &str,
        requests: &[QuotaRequest],
        verdicts: &mut [Result<(), QuotaError>],
    ) {
        let rows = self.registry.rows();
        let Some(row) = rows.find("", "v1", QUOTAS) else { return };
        let mut failure = Status::internal("too many concurrent updates of the quota");
        for _ in 0..MAX_ATTEMPTS {
            let Some(object) = self.registry.cache().get(QUOTAS, namespace, name) else { return };
            let mut json = object.decode();
            let quota = Quota::of(&json);
            let mut tried = verdicts.to_vec();
            let used = batch::decide(&quota, requests, &mut tried);
            if used == quota.used {
                verdicts.clone_from_slice(&tried);
                return;
            }
            let status = json.entry("status").or_insert_with(|| json!({}));
            status["used"] = quota::texts(&used);
            match self.registry.replace(row, &object, &json).await {
                Ok(_) => {
                    verdicts.clone_from_slice(&tried);
                    return;
                }
                Err(registry::Error::Changed) => {}
                Err(error) => {
                    failure = error.into();
                    break;
                }
            }
        }
        let failed = Status { message: format!("cannot reserve in quota {name}: {failure}"), ..failure };
        for verdict in verdicts.iter_mut().filter(|verdict| verdict.is_ok()) {
            *verdict = Err(QuotaError::Failed(failed.clone()));
        }
    }
}

#[async_trait]
impl Admission for ResourceQuota {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let Some(namespace) = attempt.namespace else { return Ok(()) };
        // Most namespaces have no quota.
        let quotas = self.evaluator.quotas(namespace);
        if quotas.is_empty() {
            return Ok(());
        }
        let Some(request) = self.request(attempt) else { return Ok(()) };
        let concerned: Vec<&Quota> = quotas
            .iter()
            .map(|(_, quota)| quota)
            .filter(|quota| quota.counts(&request.resource, &request.object))
            .collect();
        if concerned.is_empty() {
            return Ok(());
        }
        for quota in &concerned {
            if let Some(missing_requests) = quota.missing_requests(&request.resource, &request.object) {
                return Err(forbidden(attempt, &format!("failed quota: {}: {missing_requests}", quota.name)));
            }
        }
        if concerned.iter().all(|quota| request.share(quota).is_empty()) {
            return Ok(());
        }
        self.wait_until_counted(attempt, namespace, &request).await?;
        let reserved = if attempt.dry_run {
            let mut verdicts = [Ok(())];
            for (_, quota) in self.evaluator.quotas(namespace) {
                batch::decide(&quota, std::slice::from_ref(&request), &mut verdicts);
            }
            let [verdict] = verdicts;
            verdict
        } else {
            self.reserve(namespace, request).await
        };
        reserved.map_err(|refused| match refused {
            QuotaError::Exceeded(why) => forbidden(attempt, &why),
            QuotaError::Failed(status) => status,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Concurrent writes, of which one is canceled.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use apiserver::{Catalog, kinds, storage};
    use futures_util::FutureExt as _;
    use serde_json::Map;

    use super::*;

    #[tokio::test]
    async fn evaluation_continues_after_its_leading_request_is_cancelled() {
        let store = Arc::new(storage::Memory::new(storage::Limits::default()));
        let registry = Registry::open(store, Catalog::new(kinds::all())).await.unwrap();
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "shop"},
            "spec": {"hard": {"secrets": "3"}}, "status": {"hard": {"secrets": "3"}, "used": {"secrets": "0"}},
        });
        let row = registry.rows().find("", "v1", QUOTAS).unwrap().clone();
        registry.create(&row, quota.as_object().unwrap()).await.unwrap();
        let quotas = ResourceQuota::new(registry);
        let request = || QuotaRequest {
            resource: "secrets".to_owned(),
            object: Map::new(),
            usage: quota::usage("secrets", &Map::new(), Timestamp::UNIX_EPOCH),
            old: None,
        };
        let mut first = Box::pin(quotas.reserve("shop", request()));
        let mut second = Box::pin(quotas.reserve("shop", request()));
        assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
        // Both requests have left the queue before the first one is canceled.
        while !quotas.evaluator.shards.iter().all(|shard| shard.waiting.lock().unwrap().is_empty()) {
            tokio::task::yield_now().await;
        }
        drop(first);
        second.await.unwrap();
        quotas.reserve("shop", request()).await.unwrap();
        let refused = quotas.reserve("shop", request()).await;
        assert!(matches!(refused, Err(QuotaError::Exceeded(_))), "{refused:?}");
    }
}
