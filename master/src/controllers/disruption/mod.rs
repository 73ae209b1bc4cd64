//! The disruption controller: computes how many pods may be evicted under each PodDisruptionBudget
//! (`docs/node-lifecycle.md`).

mod scale;
mod stale_condition;
mod status;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use client::{Client, Error, Kind};
use jiff::Timestamp;

use self::scale::ExpectedPods;
use self::status::{Budget, BudgetTarget};
use super::event_recorder::{NewEvent, record_event};
use super::fields::Fields;
use super::informers::{Change, SharedInformers};
use super::object::{Object, unreadable};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use crate::objects::LabelSelector;

/// The controller's stock name in `--controllers`.
pub const NAME: &str = "disruption-controller";
/// The reason of the event about a budget without pods.
const NO_PODS: &str = "NoPods";
/// Retry interval of a budget that could not be computed. The pods' owner may be created after the pods.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct DisruptionController {
    client: Client,
    informers: SharedInformers,
    /// UID of each budget with a problem, by its key, and the reason of the last event.
    recorded: Mutex<HashMap<String, (Box<str>, &'static str)>>,
}

impl DisruptionController {
    /// Creates the controller. It counts the pods of the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers, recorded: Mutex::default() }
    }

    /// Records an event when a budget gets another problem. A problem that stays, such as a pod without a controller
    /// that is not always ready, is recorded once.
    async fn record_problem(&self, key: &str, budget: &Budget, problem: Option<Problem>) {
        let metadata = &budget.fields.metadata;
        let state = problem.as_ref().map(|problem| (metadata.uid.clone(), problem.reason));
        let before = match state.clone() {
            Some(state) => self.recorded().insert(key.to_owned(), state),
            None => self.recorded().remove(key),
        };
        let Some(problem) = problem.filter(|_| before != state) else { return };
        let event = NewEvent {
            kind: &Kind::DISRUPTION_BUDGET,
            namespace: &metadata.namespace,
            name: &metadata.name,
            uid: &metadata.uid,
            is_warning: problem.reason != NO_PODS,
            reason: problem.reason,
            message: &problem.message,
            component: NAME,
        };
        record_event(&self.client, event).await;
    }

    fn recorded(&self) -> MutexGuard<'_, HashMap<String, (Box<str>, &'static str)>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a budget protects fewer pods than its owner may expect.
struct Problem {
    /// The stock reason of the event.
    reason: &'static str,
    message: String,
}

impl Problem {
    fn of(pods: usize, expected: &Result<ExpectedPods, String>) -> Option<Self> {
        let (reason, message) = match expected {
            _ if pods == 0 => (NO_PODS, "The selector matches no pod.".to_owned()),
            Err(why) => ("CalculateExpectedPodCountFailed", format!("The expected pods are unknown: {why}.")),
            Ok(ExpectedPods { unmanaged: 0, .. }) => return None,
            Ok(_) => {
                let message = "Some pods that the selector matches have no controller, so the budget does not count \
                               them. To count them, set spec.minAvailable to a number.";
                ("UnmanagedPods", message.to_owned())
            }
        };
        Some(Self { reason, message })
    }
}

/// Whether the selector of a budget matches a pod.
fn covers(selector: Option<&LabelSelector>, pod: &Object) -> bool {
    selector.is_some_and(|selector| selector.matches(&pod.labels))
}

/// Whether a pod change may affect a budget or the age of its condition `DisruptionTarget`.
fn is_relevant(before: &Object, now: &Object) -> bool {
    before.pod().is_ready != now.pod().is_ready
        || before.pod().disruption_start != now.pod().disruption_start
        || before.is_terminating != now.is_terminating
        || before.owners != now.owners
        || before.labels != now.labels
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
            && !is_relevant(before, now)
        {
            return;
        }
        let Some(pod) = change.object() else { return };
        if let Some(key) = stale_condition::key_of(pod) {
            queue.add(&key);
        }
        for budget in self.informers.list(&Kind::DISRUPTION_BUDGET, &pod.namespace) {
            let Fields::PodDisruptionBudget { selector } = &budget.fields else { continue };
            let states = [&change.before, &change.now];
            if states.into_iter().flatten().any(|pod| covers(selector.as_deref(), pod)) {
                queue.add(&budget.key());
            }
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        if let Some((namespace, name)) = stale_condition::pod_of(key) {
            let pod = self.informers.get(&Kind::POD, namespace, name);
            return match pod {
                Some(pod) => stale_condition::reconcile(&self.client, &pod, Timestamp::now()).await,
                None => Ok(Action::AwaitChange),
            };
        }
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(found) = self.client.find(&Kind::DISRUPTION_BUDGET, namespace, name).await? else {
            self.recorded().remove(key);
            return Ok(Action::AwaitChange);
        };
        let budget = Budget::read(found).map_err(|source| unreadable(&self.client, source))?;
        if budget.fields.metadata.is_terminating() {
            return Ok(Action::AwaitChange);
        }
        let selector = budget.fields.spec.selector.as_ref();
        let pods = self.informers.list(&Kind::POD, namespace);
        let pods: Vec<&Object> = pods.iter().map(AsRef::as_ref).filter(|pod| covers(selector, pod)).collect();
        let expected = if BudgetTarget::of(&budget.fields.spec).needs_scale() {
            scale::expected_pods(&self.client, &self.informers, &pods).await?
        } else {
            Ok(ExpectedPods { count: i64::try_from(pods.len()).unwrap_or(i64::MAX), unmanaged: 0 })
        };
        let now = Timestamp::now();
        let (status, again) = match &expected {
            Ok(expected) => status::healthy_status(&budget, &pods, expected.count, now),
            Err(why) => (status::failed_status(&budget, why, now), Some(RETRY_INTERVAL)),
        };
        if !status::is_written(&budget.json, &status) {
            let mut written = budget.json.clone();
            written.insert("status".to_owned(), status);
            // An eviction since the read causes a conflict, and the budget is computed again.
            self.client.update(&Kind::DISRUPTION_BUDGET, "status", written).await?;
        }
        self.record_problem(key, &budget, Problem::of(pods.len(), &expected)).await;
        Ok(again.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}
