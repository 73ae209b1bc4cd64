//! The HorizontalPodAutoscaler controller: sets the replicas of workloads by the resource usage of their pods.
//!
//! Every autoscaler is synchronized when it appears, and then every 15 seconds. [`plan`] decides.

pub mod behavior;
pub mod calculation;
mod metric;
mod plan;
mod state;
mod status;
mod target;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use async_trait::async_trait;
use client::{Client, Error, Json, Kind};
use jiff::Timestamp;

use self::plan::{Decision, Plan};
use self::state::AutoscalerStates;
use self::status::{Event, Report};
use self::target::{InvalidSelector, Target};
use super::event_recorder::{NewEvent, record_event};
use super::informers::{Change, SharedInformers};
use super::object::unreadable;
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};
use crate::objects::autoscaling::{AutoscalerStatus, HorizontalPodAutoscaler};

/// The controller's stock name in `--controllers`.
pub const NAME: &str = "horizontal-pod-autoscaler-controller";
/// The service account of the controller. It is also the source of its events.
pub const ACCOUNT: &str = "horizontal-pod-autoscaler";
/// Number of concurrent reconciliations, the stock default.
const WORKERS: usize = 5;
/// Pause between two synchronizations of an autoscaler, the stock default. Metrics cause no change of an object, so
/// there is nothing to watch.
const SYNC_PERIOD: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub struct HorizontalPodAutoscalerController {
    client: Client,
    informers: SharedInformers,
    states: AutoscalerStates,
}

/// An autoscaler that was read from the API server, not from the cache.
#[derive(Clone, Copy)]
struct Live<'a> {
    key: &'a str,
    namespace: &'a str,
    scaler: &'a HorizontalPodAutoscaler,
    /// The object to write back.
    json: &'a Json,
}

impl HorizontalPodAutoscalerController {
    /// Creates the controller. It finds the kinds of targets in the given informers.
    pub fn new(client: Client, informers: SharedInformers) -> Self {
        Self { client, informers, states: AutoscalerStates::default() }
    }

    /// Scales the target if necessary. Returns the new status and the events.
    async fn synchronize(&self, live: &Live<'_>) -> Report {
        let Live { key, namespace, scaler, .. } = *live;
        self.states.start(key, &scaler.metadata.uid);
        let mut report = Report::new(scaler, Timestamp::now());
        let found =
            target::find(&self.client, &self.informers, namespace, &scaler.spec.scale_target_ref).await;
        let target = match found {
            Ok(target) => target,
            Err(why) => {
                report.scale_is_unknown(&why);
                return report;
            }
        };
        report.scale_is_known();
        let current = target.scale.spec.replicas;
        let start = (current, Instant::now());
        // The current replicas are the first recommendation, so that a restart does not scale down at once.
        let is_known = self.states.with_history(key, start, |_| ()).is_some();
        let plan = match plan::without_metrics(scaler, current) {
            Some(plan) => Some(plan),
            None if is_known => self.plan_by_metrics(live, &target).await,
            None => None,
        };
        // `None`: the autoscaler was deleted during this synchronization.
        let Some(plan) = plan else { return report };
        let decision = plan.decision.clone();
        report.add(plan, current);
        if let Decision::Rescale { to, reason } = decision {
            match target.rescale(&self.client, to).await {
                Ok(()) => {
                    report.rescaled(to, &reason);
                    let now = Instant::now();
                    self.states.with_history(key, start, |history| history.record_change(current, to, now));
                }
                Err(why) => report.rescale_failed(to, &reason, &why),
            }
        }
        report
    }

    /// Lists pods and metrics of a target, and decides. Returns `None` if the autoscaler was deleted meanwhile.
    async fn plan_by_metrics(&self, live: &Live<'_>, target: &Target) -> Option<Plan> {
        let selector = &*target.scale.status.selector;
        if selector.is_empty() {
            let event = ("SelectorRequired", "selector is required".to_owned());
            let message = "the HPA target's scale is missing a selector".to_owned();
            return Some(Plan::without_pods("InvalidSelector", event, message));
        }
        let samples = match target::samples(&self.client, live.namespace, selector).await {
            Ok(samples) => samples,
            Err(InvalidSelector(why)) => {
                let event = ("InvalidSelector", why.clone());
                return Some(Plan::without_pods("InvalidSelector", event, why));
            }
        };
        let pods = samples.pods.iter().flatten().map(|pod| pod.metadata.name.clone()).collect();
        if let Some(all) = self.states.set_pods(live.key, pods) {
            let all = all.join(" ");
            let why = format!("pods by selector {selector} are controlled by multiple HPAs: [{all}]");
            let event = ("AmbiguousSelector", why.clone());
            return Some(Plan::without_pods("AmbiguousSelector", event, why));
        }
        let (current, instant) = (target.scale.spec.replicas, Instant::now());
        let input =
            plan::Input { scaler: live.scaler, current, samples: &samples, now: Timestamp::now(), instant };
        self.states.with_history(live.key, (current, instant), |history| plan::by_metrics(&input, history))
    }

    async fn update_status(&self, live: &Live<'_>, status: &AutoscalerStatus) -> Result<(), Error> {
        if *status != live.scaler.status {
            let mut object = live.json.clone();
            object.insert("status".to_owned(), status.to_json());
            self.client.update(&Kind::HORIZONTAL_POD_AUTOSCALER, "status", object).await?;
        }
        Ok(())
    }

    async fn record(&self, live: &Live<'_>, event: &Event) {
        let event = NewEvent {
            kind: &Kind::HORIZONTAL_POD_AUTOSCALER,
            namespace: live.namespace,
            name: &live.scaler.metadata.name,
            uid: &live.scaler.metadata.uid,
            is_warning: event.is_warning,
            reason: event.reason,
            message: &event.message,
            component: ACCOUNT,
        };
        record_event(&self.client, event).await;
    }
}

#[async_trait]
impl Controller for HorizontalPodAutoscalerController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn workers(&self) -> usize {
        WORKERS
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if !change.kind.is(&Kind::HORIZONTAL_POD_AUTOSCALER) {
            return;
        }
        match (&change.before, &change.now) {
            (None, Some(new)) => queue.add(&new.key()),
            // Updates by users and by this controller take effect in the next periodic synchronization.
            (Some(_), Some(_)) | (None, None) => {}
            (Some(gone), None) => self.states.forget(&gone.key()),
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        match self.sync(key).await {
            Ok(action) => Ok(action),
            // Another client changed the autoscaler. The next synchronization writes its status.
            Err(error) if error.is_conflict() => Ok(Action::RequeueAfter(SYNC_PERIOD)),
            // The retry waits for the whole period and not for a backoff, as in stock Kubernetes: the metrics would
            // hardly have changed.
            Err(error) => {
                let error = error.full_message();
                tracing::warn!(controller = NAME, key, error, "cannot synchronize an autoscaler; retrying");
                Ok(Action::RequeueAfter(SYNC_PERIOD))
            }
        }
    }
}

impl HorizontalPodAutoscalerController {
    async fn sync(&self, key: &str) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(json) = self.client.find(&Kind::HORIZONTAL_POD_AUTOSCALER, namespace, name).await? else {
            self.states.forget(key);
            return Ok(Action::AwaitChange);
        };
        let scaler: HorizontalPodAutoscaler =
            serde::Deserialize::deserialize(&json).map_err(|source| unreadable(&self.client, source))?;
        let live = Live { key, namespace, scaler: &scaler, json: &json };
        let Report { status, events, .. } = self.synchronize(&live).await;
        for event in self.states.without_repeated_warnings(key, events, Instant::now()) {
            self.record(&live, &event).await;
        }
        self.update_status(&live, &status).await?;
        Ok(Action::RequeueAfter(SYNC_PERIOD))
    }
}
