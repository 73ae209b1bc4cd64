//! The TTL-after-finished controller: deletes finished Jobs after `ttlSecondsAfterFinished`.

use std::time::Duration;

use async_trait::async_trait;
use client::{Client, DeleteOptions, Error, Kind, Propagation};
use jiff::{SignedDuration, Timestamp};

use super::informers::Change;
use super::object::Object;
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

fn plan(job: &Object, now: Timestamp) -> Plan {
    let Some(fields) = job.job() else { return Plan::Nothing };
    let (Some(seconds), Some(finished)) = (fields.ttl_seconds, fields.end.and_then(|end| end.at)) else {
        return Plan::Nothing;
    };
    if job.is_terminating {
        return Plan::Nothing;
    }
    let left = SignedDuration::from_secs(seconds) - now.duration_since(finished);
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Plan::Wait(left),
        _ => Plan::Delete,
    }
}

#[async_trait]
impl Controller for TtlAfterFinishedController {
    fn name(&self) -> &'static str {
        NAME
    }

    fn on_change(&self, change: &Change, queue: &WorkQueue) {
        if change.kind.is(&Kind::JOB)
            && let Some(job) = &change.now
            && plan(job, Timestamp::UNIX_EPOCH) != Plan::Nothing
        {
            queue.add(&job.key());
        }
    }

    async fn reconcile(&self, key: &str, _: &WorkQueue) -> Result<Action, Error> {
        let (namespace, name) = key.split_once('/').unwrap_or_default();
        let Some(job) = Object::find(&self.client, &Kind::JOB, namespace, name).await? else {
            return Ok(Action::AwaitChange);
        };
        match plan(&job, Timestamp::now()) {
            Plan::Nothing => Ok(Action::AwaitChange),
            Plan::Wait(left) => Ok(Action::RequeueAfter(left)),
            Plan::Delete => {
                let how = DeleteOptions {
                    uid: Some(&job.uid),
                    resource_version: Some(&job.resource_version),
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
    //! Tests of expiry of finished Jobs.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finished_job_is_deleted_after_its_ttl() {
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
                json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:30Z"}, "spec": {"ttlSecondsAfterFinished": 1}, "status": {"conditions": ended}}),
                Plan::Nothing,
            ),
        ] {
            let object = Object::decode("jobs.batch", job.as_object().unwrap()).unwrap();
            assert_eq!(plan(&object, now), expected, "{job}");
        }
    }
}
