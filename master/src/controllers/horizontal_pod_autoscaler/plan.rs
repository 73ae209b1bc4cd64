//! Decides the replicas of an autoscaler's target, with conditions and events. Pure.

use std::time::Instant;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::{History, Limit, Recommendation, normalize};
use super::calculation::Tolerance;
use super::metric::{self, Failure, Proposal, Samples};
use super::status::{ABLE_TO_SCALE, NewCondition, SCALING_ACTIVE, SCALING_LIMITED};
use crate::objects::autoscaling::{HorizontalPodAutoscaler, ScalingRules};

/// What to do with the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// No metric could be evaluated. The scale and `status.desiredReplicas` do not change.
    Unknown,
    Keep,
    Rescale {
        to: i64,
        /// The reason for the event.
        reason: String,
    },
}

/// The result of a synchronization.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub decision: Decision,
    pub conditions: Vec<NewCondition>,
    /// Warnings as reason and message of an event.
    pub warnings: Vec<(&'static str, String)>,
    /// `status.currentMetrics`.
    pub metrics: Vec<Value>,
}

impl Plan {
    fn of(decision: Decision, conditions: Vec<NewCondition>) -> Self {
        Self { decision, conditions, warnings: Vec::new(), metrics: Vec::new() }
    }

    /// The plan for a target without a usable selector.
    pub fn without_pods(reason: &'static str, event: (&'static str, String), message: String) -> Self {
        let condition = NewCondition::new(SCALING_ACTIVE, false, reason, message);
        let (event_reason, why) = event;
        let total = (COMPUTE_FAILED, why.clone());
        Self { warnings: vec![(event_reason, why), total], ..Self::of(Decision::Unknown, vec![condition]) }
    }
}

/// Reason of the event about all metrics.
const COMPUTE_FAILED: &str = "FailedComputeMetricsReplicas";

/// Returns the plan for a target that needs no metrics: it has no replicas, or their number is outside of the limits.
/// Returns `None` if metrics decide.
pub fn without_metrics(scaler: &HorizontalPodAutoscaler, current: i64) -> Option<Plan> {
    let (min, max) = (scaler.min_replicas(), scaler.spec.max_replicas);
    let rescale = |to: i64, reason: &str| {
        Some(Plan::of(Decision::Rescale { to, reason: reason.to_owned() }, Vec::new()))
    };
    if current == 0 && min != 0 {
        let message = "scaling is disabled since the replica count of the target is zero".to_owned();
        let disabled = NewCondition::new(SCALING_ACTIVE, false, "ScalingDisabled", message);
        Some(Plan::of(Decision::Keep, vec![disabled]))
    } else if current > max {
        rescale(max, "Current number of replicas above Spec.MaxReplicas")
    } else if current < min {
        rescale(min, "Current number of replicas below Spec.MinReplicas")
    } else {
        None
    }
}

/// The input of [`by_metrics`].
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    pub scaler: &'a HorizontalPodAutoscaler,
    /// The replicas of the target's scale.
    pub current: i64,
    pub samples: &'a Samples,
    /// The time of conditions of pods.
    pub now: Timestamp,
    /// The time of the history.
    pub instant: Instant,
}

/// Returns the plan for a target that metrics scale. Records the recommendation in the history.
pub fn by_metrics(input: &Input<'_>, history: &mut History) -> Plan {
    let Input { scaler, current, .. } = *input;
    let question = metric::Input {
        samples: input.samples,
        current,
        tolerance: tolerance(scaler),
        namespace: &scaler.metadata.namespace,
        now: input.now,
    };
    let results: Vec<Result<Proposal, Failure>> =
        scaler.spec.metrics.iter().map(|spec| metric::propose(spec, &question)).collect();
    // Like the stock controller, an empty element for a metric without a value keeps the order of `spec.metrics`.
    let status = |result: &Result<Proposal, Failure>| {
        result.as_ref().map_or(json!({"type": ""}), |it| it.status.clone())
    };
    let metrics: Vec<Value> = results.iter().map(status).collect();
    let failures: Vec<&Failure> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    let mut warnings: Vec<_> =
        failures.iter().map(|failure| (failure.reason, failure.message.clone())).collect();
    let mut best: Option<&Proposal> = None;
    for proposal in results.iter().flatten() {
        if best.is_none_or(|best| proposal.replicas > best.replicas) {
            best = Some(proposal);
        }
    }
    // A metric that failed might require more replicas. The others may scale up, but not down.
    let usable = best.filter(|best| failures.is_empty() || best.replicas >= current);
    let Some(best) = usable else {
        let first = failures.first();
        let reason = first.map_or("InvalidMetricSourceType", |failure| failure.reason);
        let why = first.map_or("no metric is specified", |failure| &failure.message);
        let message = format!("the HPA was unable to compute the replica count: {why}");
        let operation = first.map_or("failed to read the metrics", |failure| &failure.operation);
        let total = format!(
            "invalid metrics ({} invalid out of {}), first error is: {operation}: {why}",
            failures.len(),
            results.len()
        );
        warnings.push((COMPUTE_FAILED, total));
        let inactive = NewCondition::new(SCALING_ACTIVE, false, reason, message);
        return Plan { warnings, metrics, ..Plan::of(Decision::Unknown, vec![inactive]) };
    };
    let message = format!("the HPA was able to successfully calculate a replica count from {}", best.metric);
    let active = NewCondition::new(SCALING_ACTIVE, true, "ValidMetricFound", message);
    let recommendation = Recommendation {
        behavior: scaler.spec.behavior.as_ref(),
        min: scaler.min_replicas(),
        max: scaler.spec.max_replicas,
        current,
        desired: best.replicas,
    };
    let normalized = normalize(recommendation, history, input.instant);
    let (reason, message) = normalized.stabilization.reason();
    let able = NewCondition::new(ABLE_TO_SCALE, true, reason, message.to_owned());
    let (reason, message) = normalized.limit.reason();
    let is_limited = normalized.limit != Limit::None;
    let limited = NewCondition::new(SCALING_LIMITED, is_limited, reason, message.to_owned());
    let decision = if normalized.replicas == current {
        Decision::Keep
    } else if normalized.replicas > current {
        Decision::Rescale { to: normalized.replicas, reason: format!("{} above target", best.metric) }
    } else {
        Decision::Rescale { to: normalized.replicas, reason: "All metrics below target".to_owned() }
    };
    Plan { warnings, metrics, ..Plan::of(decision, vec![active, able, limited]) }
}

/// Returns the tolerance of the behavior. Directions without one have the default.
fn tolerance(scaler: &HorizontalPodAutoscaler) -> Tolerance {
    let of = |rules: Option<&ScalingRules>, default: i64| {
        rules.and_then(|rules| rules.tolerance).map_or(default, |tolerance| tolerance.milli())
    };
    let (behavior, default) = (scaler.spec.behavior.as_ref(), Tolerance::default());
    Tolerance {
        up: of(behavior.and_then(|behavior| behavior.scale_up.as_ref()), default.up),
        down: of(behavior.and_then(|behavior| behavior.scale_down.as_ref()), default.down),
    }
}
