//! A pod of a Job: whether it is active, succeeded or failed, and which rule its failure matches. Pure.

use jiff::Timestamp;

use crate::controllers::fields::{JOB_TRACKING, JobPodFields};
use crate::controllers::object::Object;
use crate::controllers::workloads::replica::Replica;
use crate::objects::Job;
use crate::objects::job::{ExitCodes, FailureAction, FailureRule};

/// The fields of a pod that the job controller reads.
#[derive(Clone, Copy, Debug)]
pub struct JobPod<'a> {
    pub replica: Replica<'a>,
    pub namespace: &'a str,
    pub resource_version: &'a str,
    /// The phase: `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: &'a str,
    /// Whether the pod has the finalizer [`JOB_TRACKING`], so that it is not yet counted.
    pub is_tracked: bool,
    pub fields: &'a JobPodFields,
}

/// What the failure of a pod means for its Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FailureEffect {
    /// The failure counts.
    Count,
    /// The failure does not count.
    Ignore,
    /// The failure counts, and the index of the pod fails.
    FailIndex,
    /// The failure counts, and the Job fails with this message.
    FailJob(String),
}

impl<'a> JobPod<'a> {
    /// Reads a cached pod. Returns `None` if the pod does not belong to a Job.
    pub fn of(pod: &'a Object) -> Option<Self> {
        let fields = pod.pod();
        Some(Self {
            replica: Replica::of(pod),
            namespace: &pod.namespace,
            resource_version: &pod.resource_version,
            phase: &fields.phase,
            is_tracked: pod.has_finalizer(JOB_TRACKING),
            fields: fields.job.as_deref()?,
        })
    }

    pub fn uid(&self) -> &'a str {
        self.replica.uid
    }

    /// Whether the pod has not ended and is not being deleted.
    pub fn is_active(&self) -> bool {
        self.replica.is_active()
    }

    /// Whether the pod is being deleted and has not ended.
    pub fn is_terminating(&self) -> bool {
        self.replica.is_terminating && !self.replica.is_terminal()
    }

    pub fn has_succeeded(&self) -> bool {
        self.phase == "Succeeded"
    }

    /// Whether the pod counts as failed. A pod that is being deleted may never reach the phase `Failed`, so it counts
    /// unless the Job replaces only failed pods.
    pub fn has_failed(&self, job: &Job) -> bool {
        self.phase == "Failed" || (self.is_terminating() && !job.replaces_only_failed())
    }

    /// Returns when the pod finished, or was created if that is unknown.
    pub fn finished(&self) -> Option<Timestamp> {
        self.fields.finished.or(self.replica.created)
    }

    /// Returns the completion index of the pod, if it is one of the Job.
    pub fn index_of(&self, completions: u32) -> Option<u32> {
        self.fields.index.filter(|index| *index < completions)
    }

    /// Returns what the failure means by the first rule of the pod failure policy that matches.
    pub fn failure_effect(&self, job: &Job) -> FailureEffect {
        let rules = job.spec.pod_failure_policy.iter().flat_map(|policy| &policy.rules).enumerate();
        let mut matching = rules.filter_map(|(at, rule)| Some((at, rule.action, self.matching(rule)?)));
        match matching.next() {
            None | Some((_, FailureAction::Count, _)) => FailureEffect::Count,
            Some((_, FailureAction::Ignore, _)) => FailureEffect::Ignore,
            Some((_, FailureAction::FailIndex, _)) => FailureEffect::FailIndex,
            Some((at, FailureAction::FailJob, why)) => {
                FailureEffect::FailJob(format!("{why} matching FailJob rule at index {at}"))
            }
        }
    }

    /// Returns what about the pod matches a rule.
    fn matching(&self, rule: &FailureRule) -> Option<String> {
        let (namespace, name) = (self.namespace, self.replica.name);
        if let Some(codes) = &rule.on_exit_codes {
            let mut exits = self.fields.exits.iter();
            let exit = exits.find(|exit| matches_exit(codes, &exit.name, exit.exit_code))?;
            let (container, code) = (&exit.name, exit.exit_code);
            return Some(format!(
                "Container {container} for pod {namespace}/{name} failed with exit code {code}"
            ));
        }
        let patterns = &rule.on_pod_conditions;
        let mut conditions = self.fields.conditions.iter();
        let (kind, _) = conditions
            .find(|(kind, status)| patterns.iter().any(|one| one.r#type == *kind && one.status == *status))?;
        Some(format!("Pod {namespace}/{name} has condition {kind}"))
    }
}

fn matches_exit(codes: &ExitCodes, container: &str, code: i64) -> bool {
    let is_listed = codes.values.contains(&code);
    let is_container = codes.container_name.as_deref().is_none_or(|name| name == container);
    let is_code = match &*codes.operator {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    };
    code != 0 && is_container && is_code
}
