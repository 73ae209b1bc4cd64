//! CronJobs.

use api::time::seconds;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::meta::ObjectMeta;
use super::values::{List, time};

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CronJob {
    pub metadata: ObjectMeta,
    /// Specification.
    pub spec: CronJobSpec,
    pub status: CronJobStatus,
}

/// `spec` of a CronJob. The template of its Jobs is copied from JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobSpec {
    /// When Jobs start, as five fields or a descriptor.
    pub schedule: Box<str>,
    /// Name of the schedule's time zone. `None` is UTC.
    pub time_zone: Option<Box<str>>,
    /// How late a Job may start. `None` sets no limit.
    pub starting_deadline_seconds: Option<i64>,
    pub concurrency_policy: ConcurrencyPolicy,
    /// Whether no Jobs start.
    pub suspend: Option<bool>,
    /// Number of complete Jobs to keep. `None` keeps all.
    pub successful_jobs_history_limit: Option<i64>,
    /// Number of failed Jobs to keep. `None` keeps all.
    pub failed_jobs_history_limit: Option<i64>,
}

/// What happens if a Job still runs when the next one is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ConcurrencyPolicy {
    /// The next one does not start before the other has finished.
    Forbid,
    /// The running one is deleted.
    Replace,
    /// Both run.
    #[default]
    #[serde(other)]
    Allow,
}

/// `status` of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobStatus {
    /// Jobs that have not finished.
    pub active: List<JobReference>,
    /// The scheduled time of the last Job.
    #[serde(deserialize_with = "time")]
    pub last_schedule_time: Option<Timestamp>,
    /// When the last complete Job finished.
    #[serde(deserialize_with = "time")]
    pub last_successful_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobReference {
    pub name: Box<str>,
    pub namespace: Box<str>,
    pub uid: Box<str>,
    pub resource_version: Box<str>,
}

impl CronJob {
    /// Whether no Jobs start for now.
    pub fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }
}

impl CronJobStatus {
    /// Whether the status lists a Job as active.
    pub fn is_active(&self, uid: &str) -> bool {
        self.active.iter().any(|job| *job.uid == *uid)
    }

    pub fn to_json(&self) -> Value {
        let mut status = Map::new();
        if !self.active.is_empty() {
            let active = self.active.iter().map(JobReference::to_json).collect();
            status.insert("active".to_owned(), Value::Array(active));
        }
        for (field, time) in
            [("lastScheduleTime", self.last_schedule_time), ("lastSuccessfulTime", self.last_successful_time)]
        {
            if let Some(time) = time {
                status.insert(field.to_owned(), seconds(time).into());
            }
        }
        Value::Object(status)
    }
}

impl JobReference {
    fn to_json(&self) -> Value {
        let mut reference = json!({
            "apiVersion": "batch/v1", "kind": "Job", "name": self.name, "namespace": self.namespace, "uid": self.uid,
        });
        if !self.resource_version.is_empty() {
            reference["resourceVersion"] = (*self.resource_version).into();
        }
        reference
    }
}
