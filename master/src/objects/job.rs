//! Jobs.

use api::time::seconds;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::meta::ObjectMeta;
use super::replica_set::set_texts;
use super::selector::LabelSelector;
use super::values::{List, time};

/// The value of `spec.managedBy` that names the job controller of the control plane.
pub const JOB_CONTROLLER: &str = "kubernetes.io/job-controller";

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Job {
    pub metadata: ObjectMeta,
    /// Specification.
    pub spec: JobSpec,
    pub status: JobStatus,
}

/// `spec` of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    /// Maximum number of active pods. See [`Job::parallelism`].
    pub parallelism: Option<i64>,
    /// Number of pods that must succeed. `None` makes the pods a work queue: the first success ends the Job.
    pub completions: Option<i64>,
    /// Completion mode: `NonIndexed` or `Indexed`.
    pub completion_mode: Box<str>,
    /// Number of failed pods that the Job tolerates. See [`Job::backoff_limit`].
    pub backoff_limit: Option<i64>,
    /// Number of failed pods that each index tolerates.
    pub backoff_limit_per_index: Option<i64>,
    /// Number of failed indexes that the Job tolerates. `None` lets all indexes run.
    pub max_failed_indexes: Option<i64>,
    /// How long the Job may be active.
    pub active_deadline_seconds: Option<i64>,
    pub pod_failure_policy: Option<PodFailurePolicy>,
    pub success_policy: Option<SuccessPolicy>,
    /// When a pod is replaced: `Failed` or `TerminatingOrFailed`.
    pub pod_replacement_policy: Option<Box<str>>,
    /// Whether the Job has no pods for now.
    pub suspend: Option<bool>,
    /// The controller of the Job. See [`Job::is_managed_elsewhere`].
    pub managed_by: Option<Box<str>>,
    /// Selects pods.
    pub selector: LabelSelector,
    pub template: JobPodTemplate,
}

/// The fields of a Job's pod template that the controller reads. Its content is copied from JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct JobPodTemplate {
    pub spec: JobPodSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobPodSpec {
    /// Restart policy of containers: `OnFailure` or `Never`.
    pub restart_policy: Box<str>,
}

/// Rules for failed pods. The first rule that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodFailurePolicy {
    pub rules: List<FailureRule>,
}

/// A rule that matches exit codes or pod conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FailureRule {
    pub action: FailureAction,
    pub on_exit_codes: Option<ExitCodes>,
    pub on_pod_conditions: List<ConditionPattern>,
}

/// What happens when a failed pod matches a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum FailureAction {
    /// The Job fails.
    FailJob,
    /// The index of the pod fails.
    FailIndex,
    /// The failure does not count.
    Ignore,
    /// The failure counts, as without a policy.
    #[default]
    #[serde(other)]
    Count,
}

/// Matches a container that terminated with an exit code other than 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExitCodes {
    /// The container. `None` matches all containers.
    pub container_name: Option<Box<str>>,
    /// Operator: `In` or `NotIn`.
    pub operator: Box<str>,
    pub values: List<i64>,
}

/// Matches a pod condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConditionPattern {
    pub r#type: Box<str>,
    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: Box<str>,
}

/// Rules by which an Indexed Job succeeds before all indexes have succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SuccessPolicy {
    pub rules: List<SuccessRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SuccessRule {
    /// The indexes of the rule in the format of `status.completedIndexes`. `None` stands for all indexes.
    pub succeeded_indexes: Option<Box<str>>,
    /// Number of these indexes that must succeed. `None` stands for all of them.
    pub succeeded_count: Option<i64>,
}

/// `status` of a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    pub conditions: List<JobCondition>,
    /// When the Job started, or was resumed.
    #[serde(deserialize_with = "time")]
    pub start_time: Option<Timestamp>,
    /// When the Job completed. Absent for a failed Job.
    #[serde(deserialize_with = "time")]
    pub completion_time: Option<Timestamp>,
    /// Number of pods that have not ended and are not being deleted.
    pub active: i64,
    pub succeeded: i64,
    pub failed: i64,
    /// Number of pods that are being deleted and have not ended.
    pub terminating: Option<i64>,
    pub ready: Option<i64>,
    /// Indexes with a successful pod, such as `1,3-5`.
    pub completed_indexes: Box<str>,
    /// Indexes that have failed. Only with `backoffLimitPerIndex`.
    pub failed_indexes: Option<Box<str>>,
    /// Pods that have ended and are not yet in the counters.
    pub uncounted_terminated_pods: UncountedPods,
}

/// UIDs of pods that have ended and are not yet in the counters, because they may still have the finalizer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UncountedPods {
    pub succeeded: List<Box<str>>,
    pub failed: List<Box<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobCondition {
    /// Type of the condition: `Suspended`, `SuccessCriteriaMet`, `FailureTarget`, `Complete` or `Failed`.
    pub r#type: Box<str>,
    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: Box<str>,
    /// Reason of the status, in one word.
    pub reason: Box<str>,
    /// Message for users.
    pub message: Box<str>,
    #[serde(deserialize_with = "time")]
    pub last_probe_time: Option<Timestamp>,
    /// Time of the last change of the status.
    #[serde(deserialize_with = "time")]
    pub last_transition_time: Option<Timestamp>,
}

impl Job {
    /// Returns the maximum number of active pods. The API server sets the default, 1.
    pub fn parallelism(&self) -> i64 {
        self.spec.parallelism.unwrap_or(1)
    }

    /// Returns the number of failed pods that the Job tolerates. The API server sets the default, 6.
    pub fn backoff_limit(&self) -> i64 {
        self.spec.backoff_limit.unwrap_or(6)
    }

    /// Whether each pod has a completion index.
    pub fn is_indexed(&self) -> bool {
        &*self.spec.completion_mode == "Indexed"
    }

    /// Whether the Job is to have no pods for now.
    pub fn is_suspended(&self) -> bool {
        self.spec.suspend == Some(true)
    }

    /// Whether a pod is replaced only when it has reached the phase `Failed`, not when it is being deleted.
    pub fn replaces_only_failed(&self) -> bool {
        self.spec.pod_failure_policy.is_some()
            || self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    /// Whether another controller than that of the control plane is responsible for the Job.
    pub fn is_managed_elsewhere(&self) -> bool {
        self.spec.managed_by.as_deref().is_some_and(|manager| manager != JOB_CONTROLLER)
    }

    /// Whether the Job has the condition `Complete` or `Failed`.
    pub fn is_finished(&self) -> bool {
        self.status.is_true("Complete") || self.status.is_true("Failed")
    }
}

impl JobStatus {
    pub fn condition(&self, kind: &str) -> Option<&JobCondition> {
        self.conditions.iter().find(|condition| &*condition.r#type == kind)
    }

    /// Whether the condition of this type is true.
    pub fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| &*condition.status == "True")
    }

    /// Returns the status as JSON. Zero counts are absent, except those that are optional.
    pub fn to_json(&self) -> Value {
        let mut status = Map::new();
        let counts = [("active", self.active), ("succeeded", self.succeeded), ("failed", self.failed)];
        for (field, count) in counts.into_iter().filter(|(_, count)| *count != 0) {
            status.insert(field.to_owned(), count.into());
        }
        for (field, count) in [("terminating", self.terminating), ("ready", self.ready)] {
            if let Some(count) = count {
                status.insert(field.to_owned(), count.into());
            }
        }
        for (field, time) in [("startTime", self.start_time), ("completionTime", self.completion_time)] {
            if let Some(time) = time {
                status.insert(field.to_owned(), seconds(time).into());
            }
        }
        if !self.completed_indexes.is_empty() {
            status.insert("completedIndexes".to_owned(), (*self.completed_indexes).into());
        }
        if let Some(indexes) = &self.failed_indexes {
            status.insert("failedIndexes".to_owned(), (**indexes).into());
        }
        if !self.conditions.is_empty() {
            let conditions = self.conditions.iter().map(JobCondition::to_json).collect();
            status.insert("conditions".to_owned(), Value::Array(conditions));
        }
        let mut uncounted = Map::new();
        let pods = &self.uncounted_terminated_pods;
        for (field, pods) in [("succeeded", &pods.succeeded), ("failed", &pods.failed)] {
            if !pods.is_empty() {
                uncounted.insert(field.to_owned(), pods.iter().map(|uid| Value::from(&**uid)).collect());
            }
        }
        status.insert("uncountedTerminatedPods".to_owned(), Value::Object(uncounted));
        Value::Object(status)
    }
}

impl JobCondition {
    fn to_json(&self) -> Value {
        let mut json = json!({"type": self.r#type, "status": self.status});
        let times =
            [("lastProbeTime", self.last_probe_time), ("lastTransitionTime", self.last_transition_time)];
        for (field, time) in times {
            if let Some(time) = time {
                json[field] = seconds(time).into();
            }
        }
        set_texts(&mut json, &self.reason, &self.message);
        json
    }
}
