//! The status of a Deployment: counts, conditions, and the progress deadline. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::plan::Rollout;
use crate::objects::deployment::{DeploymentCondition, DeploymentStatus};
use crate::objects::replica_set::whole_seconds;
use crate::objects::{Condition, Deployment};

const AVAILABLE: &str = "Available";
pub const PROGRESSING: &str = "Progressing";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const NEW_AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// What the status reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Counts and availability, for a Deployment that is paused, scaled or deleted.
    Counts,
    /// Also the progress of the rollout, and failures of the ReplicaSets.
    Progress,
}

impl DeploymentStatus {
    /// Sets a condition, unless it has this status and reason. The transition time changes with the status.
    pub(super) fn set(&mut self, kind: &str, status: &str, reason: &str, message: String, now: Timestamp) {
        let time = Some(whole_seconds(now));
        self.put(DeploymentCondition {
            r#type: kind.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_update_time: time,
            last_transition_time: time,
        });
    }

    fn put(&mut self, mut new: DeploymentCondition) {
        if let Some(known) = self.condition(&new.r#type) {
            if (&known.status, &known.reason) == (&new.status, &new.reason) {
                return;
            }
            if known.status == new.status {
                new.last_transition_time = known.last_transition_time;
            }
        }
        let kind = new.r#type.clone();
        self.remove(&kind);
        self.conditions = self.conditions.iter().cloned().chain([new]).collect();
    }

    fn remove(&mut self, kind: &str) {
        self.conditions = self.conditions.iter().filter(|one| &*one.r#type != kind).cloned().collect();
    }
}

/// Whether the Deployment has a progress deadline. The largest number means that it has none.
pub fn has_deadline(deployment: &Deployment) -> bool {
    deployment.spec.progress_deadline_seconds.is_some_and(|seconds| seconds < i64::from(i32::MAX))
}

/// Whether all pods have the current template and are available.
pub fn is_complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let wanted = deployment.replicas();
    status.updated_replicas == wanted
        && status.replicas == wanted
        && status.available_replicas == wanted
        && status.observed_generation >= deployment.metadata.generation
}

/// Returns the status with a condition about pause and resume, so that the time of a pause does not count towards
/// the progress deadline.
pub(super) fn with_pause(deployment: &Deployment, now: Timestamp) -> DeploymentStatus {
    let mut status = deployment.status.clone();
    let reason = status.condition(PROGRESSING).map(|condition| condition.reason.clone());
    let reason = reason.as_deref();
    if !has_deadline(deployment) || reason == Some(TIMED_OUT) {
        return status;
    }
    if deployment.spec.paused && reason != Some(PAUSED) {
        status.set(PROGRESSING, "Unknown", PAUSED, "Deployment is paused".to_owned(), now);
    } else if !deployment.spec.paused && reason == Some(PAUSED) {
        status.set(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed".to_owned(), now);
    }
    status
}

/// Returns the status after the planned changes.
pub(super) fn status(rollout: &Rollout<'_>, mode: Mode) -> DeploymentStatus {
    let mut status = counts(rollout);
    let wanted = rollout.deployment.replicas();
    let is_available = status.available_replicas >= wanted - rollout.limits.unavailable;
    let (is_true, reason, message) = if is_available {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    status.set(AVAILABLE, is_true, reason, message.to_owned(), rollout.now);
    if mode == Mode::Progress {
        report_progress(rollout, &mut status);
        match failure(rollout) {
            Some(failure) => status.put(DeploymentCondition {
                r#type: failure.r#type.clone(),
                status: failure.status.clone(),
                reason: failure.reason.clone(),
                message: failure.message.clone(),
                last_update_time: failure.last_transition_time,
                last_transition_time: failure.last_transition_time,
            }),
            None => status.remove(REPLICA_FAILURE),
        }
    }
    status
}

fn counts(rollout: &Rollout<'_>) -> DeploymentStatus {
    let statuses = || rollout.members.iter().map(|member| &member.set.status);
    let available = statuses().map(|status| status.available_replicas).sum();
    DeploymentStatus {
        observed_generation: rollout.deployment.metadata.generation,
        replicas: statuses().map(|status| status.replicas).sum(),
        updated_replicas: rollout.newest().map_or(0, |new| new.set.status.replicas),
        ready_replicas: statuses().map(|status| status.ready_replicas).sum(),
        available_replicas: available,
        unavailable_replicas: (rollout.total_replicas() - available).max(0),
        terminating_replicas: statuses().map(|status| status.terminating_replicas).sum(),
        collision_count: rollout.status.collision_count,
        conditions: rollout.status.conditions.clone(),
    }
}

fn report_progress(rollout: &Rollout<'_>, status: &mut DeploymentStatus) {
    let deployment = rollout.deployment;
    if !has_deadline(deployment) {
        return status.remove(PROGRESSING);
    }
    let current = rollout.status.condition(PROGRESSING);
    let was_available = current.is_some_and(|condition| &*condition.reason == NEW_AVAILABLE);
    if was_available && status.replicas == status.updated_replicas {
        return;
    }
    let about = match rollout.newest() {
        Some(new) => format!("ReplicaSet {:?}", new.set.metadata.name),
        None => format!("Deployment {:?}", deployment.metadata.name),
    };
    if is_complete(deployment, status) {
        let message = format!("{about} has successfully progressed.");
        status.set(PROGRESSING, "True", NEW_AVAILABLE, message, rollout.now);
    } else if has_progressed(&deployment.status, status) {
        let time = Some(whole_seconds(rollout.now));
        let since = current.filter(|condition| &*condition.status == "True");
        let since = since.map_or(time, |condition| condition.last_transition_time);
        // The time of the last progress changes even if the reason does not.
        status.remove(PROGRESSING);
        status.put(DeploymentCondition {
            r#type: PROGRESSING.into(),
            status: "True".into(),
            reason: "ReplicaSetUpdated".into(),
            message: format!("{about} is progressing.").into(),
            last_update_time: time,
            last_transition_time: since,
        });
    } else if has_timed_out(deployment, status, rollout.now) {
        let message = format!("{about} has timed out progressing.");
        status.set(PROGRESSING, "False", TIMED_OUT, message, rollout.now);
    }
}

/// Whether pods were updated, deleted, or became ready or available.
fn has_progressed(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    now.updated_replicas > before.updated_replicas
        || now.replicas - now.updated_replicas < before.replicas - before.updated_replicas
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

fn has_timed_out(deployment: &Deployment, status: &DeploymentStatus, now: Timestamp) -> bool {
    status.condition(PROGRESSING).is_some_and(|condition| match &*condition.reason {
        NEW_AVAILABLE => false,
        TIMED_OUT => true,
        _ => left(deployment, condition, now).is_some_and(|left| left < SignedDuration::ZERO),
    })
}

/// Returns the time until the progress deadline, which is negative after the deadline.
fn left(deployment: &Deployment, condition: &DeploymentCondition, now: Timestamp) -> Option<SignedDuration> {
    let deadline = SignedDuration::from_secs(deployment.spec.progress_deadline_seconds?);
    Some(deadline - now.duration_since(condition.last_update_time?))
}

/// Returns the time until the progress deadline has passed. Returns `None` if the rollout is complete, has failed or
/// has no deadline.
pub fn until_deadline(
    deployment: &Deployment,
    status: &DeploymentStatus,
    now: Timestamp,
) -> Option<Duration> {
    let condition = status.condition(PROGRESSING)?;
    let is_over = matches!(&*condition.reason, NEW_AVAILABLE | TIMED_OUT);
    if !has_deadline(deployment) || is_over || is_complete(deployment, status) {
        return None;
    }
    let left = left(deployment, condition, now)?.max(SignedDuration::ZERO);
    // Times have whole seconds.
    Some(Duration::try_from(left).unwrap_or_default() + Duration::from_secs(1))
}

/// Returns the failure of the new ReplicaSet, or else of an old one.
fn failure<'a>(rollout: &'a Rollout<'_>) -> Option<&'a Condition> {
    let new = rollout.newest().into_iter();
    new.chain(&rollout.members).find_map(|member| member.set.status.conditions.of_type(REPLICA_FAILURE))
}

/// Returns the status of a Deployment whose ReplicaSet could not be created.
pub fn creation_failed(deployment: &Deployment, message: &str, now: Timestamp) -> DeploymentStatus {
    let mut status = deployment.status.clone();
    if has_deadline(deployment) {
        status.set(PROGRESSING, "False", "ReplicaSetCreateError", message.to_owned(), now);
    }
    status
}
