//! The disruption controller: computes how many pods each PodDisruptionBudget lets be evicted
//! (`docs/node-lifecycle.md`).

mod scale;
mod status;

use std::time::Duration;

use apiserver::selector::matches_selector;
use async_trait::async_trait;
use client::{Client, Error, Kind};
use jiff::Timestamp;
use serde_json::{Map, Value};

use self::status::BudgetTarget;
use super::informers::{Change, SharedInformers};
use super::object::{Object, at};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};

/// The stock name in `--controllers`.
pub const NAME: &str = "disruption-controller";
/// Retry interval of a budget that could not be computed; the pods' owner may appear after them.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct DisruptionController {
    client: Client,
    informers: SharedInformers,
}

impl DisruptionController {
    /// Counts the pods of these informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers }
    }
}

/// Whether the selector of a budget matches a pod.
fn covers(selector: Option<&Value>, pod: &Object) -> bool {
    let none = Map::new();
    let labels = pod.field("/metadata/labels").and_then(Value::as_object).unwrap_or(&none);
    selector.is_some_and(|selector| matches_selector(selector, labels))
}

/// Whether a pod change may affect a budget.
fn affects_budget(before: &Object, now: &Object) -> bool {
    let labels = |pod: &Object| pod.field("/metadata/labels").cloned();
    (before.is_ready, before.is_terminating) != (now.is_ready, now.is_terminating)
        || before.owners != now.owners
        || labels(before) != labels(now)
}

#[async_trait]
impl Controller for DisruptionController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::DISRUPTION_BUDGET) {
            if let Some(budget) = &change.now {
                queue.add(&budget.key());
            }
            return;
        }
        if !change.kind.is(&Kind::POD) {
            return;
        }
        if let (Some(before), Some(now)) = (&change.before, &change.now)
            && !affects_budget(before, now)
        {
            return;
        }
        let Some(pod) = change.object() else { return };
        for budget in self.informers.list(&Kind::DISRUPTION_BUDGET, &pod.namespace) {
            let selector = budget.field("/spec/selector");
            let states = [&change.before, &change.now];
            if states.into_iter().flatten().any(|pod| covers(selector, pod)) {
                queue.add(&budget.key());
            }
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let found = self.client.find(&Kind::DISRUPTION_BUDGET, namespace, name).await?;
        let Some(mut budget) = found.filter(|budget| at(budget, "/metadata/deletionTimestamp").is_none())
        else {
            return Ok(Action::AwaitChange);
        };
        let selector = at(&budget, "/spec/selector");
        let pods = self.informers.list(&Kind::POD, namespace);
        let pods: Vec<&Object> = pods.iter().map(AsRef::as_ref).filter(|pod| covers(selector, pod)).collect();
        let expected = if BudgetTarget::of(&budget).needs_scale() {
            scale::expected_pods(&self.client, &self.informers, &pods).await?
        } else {
            Ok(i64::try_from(pods.len()).unwrap_or(i64::MAX))
        };
        let now = Timestamp::now();
        let (status, again) = match expected {
            Ok(expected) => status::healthy_status(&budget, &pods, expected, now),
            Err(why) => (status::failed_status(&budget, &why, now), Some(RETRY_INTERVAL)),
        };
        if !status::is_written(&budget, &status) {
            budget.insert("status".to_owned(), status);
            // An eviction since the read causes a conflict, and the budget is computed again.
            self.client.update(&Kind::DISRUPTION_BUDGET, "status", budget).await?;
        }
        Ok(again.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}
