//! A ResourceQuota refuses what there is too little left for; what passes is reserved in its status first.
//!
//! Reservations are compare-and-swap writes of the quota's status. Writes that come at once share one: whoever is first
//! decides for all that wait in its line.

mod batch;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver::Status;
use apiserver::admission::{Admission, Attempt, Operation};
use apiserver::registry::{self, Registry};
use apiserver::store::{Object, Scope};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::oneshot;

use self::batch::Ask;
use super::lookup::Lookup;
use super::pods::{forbidden, may_grow};
use crate::quota::{self, Quota};

/// The name of quotas in the store.
const QUOTAS: &str = "resourcequotas";
/// Lines in which writes wait for each other; a namespace always waits in the same one, few share one.
const LINES: usize = 64;
/// How often a reservation is tried again because somebody else wrote the quota; the stock server's is 3, but there the
/// others are other servers.
const TRIES: usize = 10;
/// A quota is a moment older than its first count.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);

/// The stock server's `ResourceQuota`.
pub struct ResourceQuotas {
    desk: Arc<Desk>,
}

/// Where is decided; it outlives the requests that are decided about.
struct Desk {
    registry: Arc<Registry>,
    lines: Vec<Line>,
}

/// Writes that wait for each other.
#[derive(Default)]
struct Line {
    turn: tokio::sync::Mutex<()>,
    waiting: Mutex<Vec<Waiting>>,
}

/// A write that waits to be decided about.
struct Waiting {
    namespace: String,
    ask: Ask,
    answer: oneshot::Sender<Result<(), Refused>>,
}

/// Why nothing was reserved.
#[derive(Clone, Debug)]
enum Refused {
    /// There is too little left, in the stock words.
    Exceeded(String),
    /// The quota could not be written.
    Failed(Status),
}

impl ResourceQuotas {
    /// Reserves in that registry.
    pub fn new(registry: Arc<Registry>) -> Self {
        let lines = (0..LINES).map(|_| Line::default()).collect();
        Self { desk: Arc::new(Desk { registry, lines }) }
    }

    /// What the attempt asks for, if it is one that adds to what there is.
    fn ask(&self, attempt: &Attempt<'_>) -> Option<Ask> {
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
        Some(Ask { resource, object: attempt.object.clone(), usage, old })
    }

    /// Waits in line until it is decided whether there is enough left, and that is reserved.
    async fn reserve(&self, namespace: &str, ask: Ask) -> Result<(), Refused> {
        let mut hasher = DefaultHasher::new();
        namespace.hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % LINES as u64).unwrap_or(0);
        let (answer, answered) = oneshot::channel();
        self.desk.wait(at, Waiting { namespace: namespace.to_owned(), ask, answer });
        // Whoever is first decides for others, who still want to know when its client has gone.
        let desk = self.desk.clone();
        tokio::spawn(async move { desk.serve(at).await });
        answered
            .await
            .unwrap_or_else(|_| Err(Refused::Failed(Status::internal("the reservation was given up"))))
    }

    /// Waits until everything has been counted that the attempt adds to.
    ///
    /// # Errors
    /// When nobody counts.
    async fn counted(&self, attempt: &Attempt<'_>, namespace: &str, ask: &Ask) -> Result<(), Status> {
        let unknown = || {
            let all = self.desk.quotas(namespace).into_iter().map(|(_, quota)| quota);
            all.filter(|quota| quota.counts(&ask.resource, &ask.object))
                .map(|quota| (quota.unknown(&ask.resource), quota.name))
                .find(|(names, _)| !names.is_empty())
        };
        let look = || unknown().is_none().then_some(());
        let lookup = Lookup::of(self.desk.registry.clone());
        if look().is_some() || lookup.wait(QUOTAS, namespace, COUNTED_WITHIN, look).await.is_some() {
            return Ok(());
        }
        let (names, quota) = unknown().unwrap_or_default();
        let why = format!("status unknown for quota: {quota}, resources: {}", names.join(","));
        Err(forbidden(attempt, &why))
    }
}

impl Desk {
    fn quotas(&self, namespace: &str) -> Vec<(Object, Quota)> {
        let listing = self.registry.cache().list(QUOTAS, &Scope::Namespace(namespace.to_owned()));
        listing.objects.into_iter().map(|object| (object.clone(), Quota::of(&object.decode()))).collect()
    }

    fn wait(&self, at: usize, waiting: Waiting) {
        if let Some(line) = self.lines.get(at) {
            line.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
        }
    }

    /// Decides for all that wait in a line, once those before them are served; nearly always somebody has decided already.
    async fn serve(&self, at: usize) {
        let Some(line) = self.lines.get(at) else { return };
        let _turn = line.turn.lock().await;
        let mut all = std::mem::take(&mut *line.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        // Nothing is reserved for whoever is gone.
        all.retain(|waiting| !waiting.answer.is_closed());
        while let Some(first) = all.first() {
            let namespace = first.namespace.clone();
            let (own, others) = all.into_iter().partition(|waiting| waiting.namespace == namespace);
            self.decide(&namespace, own).await;
            all = others;
        }
    }

    /// Decides about writes of one namespace, quota by quota.
    async fn decide(&self, namespace: &str, waiting: Vec<Waiting>) {
        let (asks, answers): (Vec<Ask>, Vec<_>) =
            waiting.into_iter().map(|waiting| (waiting.ask, waiting.answer)).unzip();
        let mut verdicts: Vec<Result<(), Refused>> = asks.iter().map(|_| Ok(())).collect();
        // First without writing, so that nothing is reserved for what another quota refuses.
        let quotas = self.quotas(namespace);
        for (_, quota) in &quotas {
            batch::decide(quota, &asks, &mut verdicts);
        }
        for (object, _) in quotas {
            self.write(namespace, object.name(), &asks, &mut verdicts).await;
        }
        for (answer, verdict) in answers.into_iter().zip(verdicts) {
            // Whoever asked may have gone away; what was reserved for them is given back when it is counted anew.
            let _ = answer.send(verdict);
        }
    }

    /// Reserves in one quota for everybody whom it lets pass.
    async fn write(&self, namespace: &str, name: &str, asks: &[Ask], verdicts: &mut [Result<(), Refused>]) {
        let rows = self.registry.rows();
        let Some(row) = rows.find("", "v1", QUOTAS) else { return };
        let mut failure = Status::internal("somebody else writes it all the time");
        for _ in 0..TRIES {
            let Some(object) = self.registry.cache().get(QUOTAS, namespace, name) else { return };
            let mut json = object.decode();
            let quota = Quota::of(&json);
            let mut tried = verdicts.to_vec();
            let used = batch::decide(&quota, asks, &mut tried);
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
            *verdict = Err(Refused::Failed(failed.clone()));
        }
    }
}

#[async_trait]
impl Admission for ResourceQuotas {
    async fn validate(&self, attempt: &Attempt<'_>) -> Result<(), Status> {
        let Some(namespace) = attempt.namespace else { return Ok(()) };
        // Most namespaces have none.
        let quotas = self.desk.quotas(namespace);
        if quotas.is_empty() {
            return Ok(());
        }
        let Some(ask) = self.ask(attempt) else { return Ok(()) };
        let concerned: Vec<&Quota> = quotas
            .iter()
            .map(|(_, quota)| quota)
            .filter(|quota| quota.counts(&ask.resource, &ask.object))
            .collect();
        if concerned.is_empty() {
            return Ok(());
        }
        for quota in &concerned {
            if let Some(unsaid) = quota.unsaid(&ask.resource, &ask.object) {
                return Err(forbidden(attempt, &format!("failed quota: {}: {unsaid}", quota.name)));
            }
        }
        if concerned.iter().all(|quota| ask.share(quota).is_empty()) {
            return Ok(());
        }
        self.counted(attempt, namespace, &ask).await?;
        let reserved = if attempt.dry_run {
            let mut verdicts = [Ok(())];
            for (_, quota) in self.desk.quotas(namespace) {
                batch::decide(&quota, std::slice::from_ref(&ask), &mut verdicts);
            }
            let [verdict] = verdicts;
            verdict
        } else {
            self.reserve(namespace, ask).await
        };
        reserved.map_err(|refused| match refused {
            Refused::Exceeded(why) => forbidden(attempt, &why),
            Refused::Failed(status) => status,
        })
    }
}

#[cfg(test)]
mod tests;
