//! The TTL-after-finished controller: deletes finished Jobs after `ttlSecondsAfterFinished`.

use std::time::Duration;

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Json, Kind, Propagation};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::informers::Change;
use super::object::{at, text};
use super::rate_limited_queue::Action;
use super::work_queue::{Controller, WorkQueue};

/// The controller's name in `--controllers`.
pub const NAME: &str = "ttl-after-finished-controller";

#[derive(Debug)]
pub struct TtlAfterFinishedController {
    client: Client,
}

/// What to do with a Job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    Wait(Duration),
    Delete,
}

impl TtlAfterFinishedController {
    /// Creates the controller; it deletes Jobs through `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

fn plan(job: &Json, now: Timestamp) -> Plan {
    let keep = at(job, "/spec/ttlSecondsAfterFinished").and_then(Value::as_i64);
    let (Some(seconds), Some(finished)) = (keep, finished(job)) else { return Plan::Nothing };
    if at(job, "/metadata/deletionTimestamp").is_some() {
        return Plan::Nothing;
    }
    let left = SignedDuration::from_secs(seconds) - now.duration_since(finished);
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Plan::Wait(left),
        _ => Plan::Delete,
    }
}

/// When the Job finished, if it has.
fn finished(job: &Json) -> Option<Timestamp> {
    let conditions = at(job, "/status/conditions").and_then(Value::as_array);
    let is_end = |condition: &&Value| {
        let is = |field: &str, of: &[&str]| of.contains(&text(condition.get(field)).as_str());
        is("type", &["Complete", "Failed"]) && is("status", &["True"])
    };
    let end = conditions.into_iter().flatten().find(is_end)?;
    text(end.get("lastTransitionTime")).parse().ok()
}

#[async_trait]
impl Controller for TtlAfterFinishedController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::JOB)
            && let Some(job) = &change.now
            && plan(&job.fields, Timestamp::UNIX_EPOCH) != Plan::Nothing
        {
            queue.add(&job.key());
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(job) = self.client.find(&Kind::JOB, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        match plan(&job, Timestamp::now()) {
            Plan::Nothing => Ok(Action::AwaitChange),
            Plan::Wait(left) => Ok(Action::RequeueAfter(left)),
            Plan::Delete => {
                let (uid, resource_version) =
                    (text(at(&job, "/metadata/uid")), text(at(&job, "/metadata/resourceVersion")));
                let how = DeleteOptions {
                    uid: Some(&uid),
                    resource_version: Some(&resource_version),
                    propagation: Some(Propagation::Foreground),
                    grace_seconds: None,
                };
                self.client.delete(&Kind::JOB, namespace, name, &how).await?;
                Ok(Action::AwaitChange)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Expiry of finished Jobs.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_goes_when_its_time_is_up() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let ended = json!([{"type": "Suspended", "status": "False"},
            {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        for (job, expected) in [
            (json!({"spec": {}, "status": {"conditions": ended}}), Plan::Nothing),
            (json!({"spec": {"ttlSecondsAfterFinished": 1}, "status": {}}), Plan::Nothing),
            (json!({"spec": {"ttlSecondsAfterFinished": 60}, "status": {"conditions": ended}}), Plan::Delete),
            (json!({"spec": {"ttlSecondsAfterFinished": 0}, "status": {"conditions": ended}}), Plan::Delete),
            (
                json!({"spec": {"ttlSecondsAfterFinished": 90}, "status": {"conditions": ended}}),
                Plan::Wait(Duration::from_secs(30)),
            ),
            (
                json!({"metadata": {"deletionTimestamp": "x"}, "spec": {"ttlSecondsAfterFinished": 1}, "status": {"conditions": ended}}),
                Plan::Nothing,
            ),
        ] {
            assert_eq!(plan(job.as_object().unwrap(), now), expected, "{job}");
        }
    }
}
