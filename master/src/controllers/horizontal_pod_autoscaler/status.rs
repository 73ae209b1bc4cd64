//! The status of a HorizontalPodAutoscaler and its events, built in the course of one synchronization. Pure.

use jiff::Timestamp;

use super::plan::{Decision, Plan};
use crate::objects::autoscaling::{AutoscalerStatus, HorizontalPodAutoscaler};
use crate::objects::replica_set::whole_seconds;
use crate::objects::{Condition, List};

/// Whether the scale of the target can be read and written.
pub const ABLE_TO_SCALE: &str = "AbleToScale";
/// Whether metrics decide.
pub const SCALING_ACTIVE: &str = "ScalingActive";
/// Whether a limit prevented the recommended number.
pub const SCALING_LIMITED: &str = "ScalingLimited";

/// A condition to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCondition {
    kind: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl NewCondition {
    pub fn new(kind: &'static str, is_true: bool, reason: &'static str, message: String) -> Self {
        Self { kind, is_true, reason, message }
    }
}

/// An event about an autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

/// The new status, and the events.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub status: AutoscalerStatus,
    pub events: Vec<Event>,
    now: Timestamp,
}

impl Report {
    /// Starts with the present status.
    pub fn new(scaler: &HorizontalPodAutoscaler, now: Timestamp) -> Self {
        let observed_generation = Some(scaler.metadata.generation);
        let status = AutoscalerStatus { observed_generation, ..scaler.status.clone() };
        Self { status, events: Vec::new(), now: whole_seconds(now) }
    }

    /// Sets a condition. The time of a transition changes only with the status.
    pub fn set(&mut self, new: NewCondition) {
        let status = if new.is_true { "True" } else { "False" };
        let known = self.status.conditions.of_type(new.kind);
        let since =
            known.filter(|known| &*known.status == status).and_then(|known| known.last_transition_time);
        let condition = Condition {
            r#type: new.kind.into(),
            status: status.into(),
            reason: new.reason.into(),
            message: new.message.into(),
            last_transition_time: since.or(Some(self.now)),
            ..Condition::default()
        };
        let mut conditions: Vec<Condition> = self.status.conditions.to_vec();
        match conditions.iter_mut().find(|known| known.r#type == condition.r#type) {
            Some(known) => *known = condition,
            None => conditions.push(condition),
        }
        self.status.conditions = List::from(conditions);
    }

    pub fn warn(&mut self, reason: &'static str, message: String) {
        self.events.push(Event { is_warning: true, reason, message });
    }

    /// Records that the scale of the target cannot be read.
    pub fn scale_is_unknown(&mut self, why: &str) {
        self.warn("FailedGetScale", why.to_owned());
        let message = format!("the HPA controller was unable to get the target's current scale: {why}");
        self.set(NewCondition::new(ABLE_TO_SCALE, false, "FailedGetScale", message));
    }

    pub fn scale_is_known(&mut self) {
        let message = "the HPA controller was able to get the target's current scale".to_owned();
        self.set(NewCondition::new(ABLE_TO_SCALE, true, "SucceededGetScale", message));
    }

    /// Records conditions, warnings and metrics of a plan.
    pub fn add(&mut self, plan: Plan, current: i64) {
        for condition in plan.conditions {
            self.set(condition);
        }
        for (reason, message) in plan.warnings {
            self.warn(reason, message);
        }
        self.status.current_metrics = plan.metrics.into();
        self.status.current_replicas = current;
        if plan.decision == Decision::Keep {
            self.status.desired_replicas = current;
        }
    }

    pub fn rescaled(&mut self, to: i64, reason: &str) {
        let message = format!("the HPA controller was able to update the target scale to {to}");
        self.set(NewCondition::new(ABLE_TO_SCALE, true, "SucceededRescale", message));
        let message = format!("New size: {to}; reason: {reason}");
        self.events.push(Event { is_warning: false, reason: "SuccessfulRescale", message });
        self.status.desired_replicas = to;
        self.status.last_scale_time = Some(self.now);
    }

    /// Records that the scale of the target could not be updated.
    pub fn rescale_failed(&mut self, to: i64, reason: &str, why: &str) {
        self.warn("FailedRescale", format!("New size: {to}; reason: {reason}; error: {why}"));
        let message = format!("the HPA controller was unable to update the target scale: {why}");
        self.set(NewCondition::new(ABLE_TO_SCALE, false, "FailedUpdateScale", message));
    }
}
