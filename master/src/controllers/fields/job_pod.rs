//! The fields of a Job's pod that the informers cache beside those of every pod.

use jiff::{SignedDuration, Timestamp};

use super::pod::{ContainerStatus, Pod, Terminated};
use crate::objects::List;

/// The finalizer that keeps a pod of a Job until the Job has counted it.
pub const JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Fields of a pod that belongs to a Job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobPodFields {
    /// The completion index. `None` if the annotation is absent or no number.
    pub index: Option<u32>,
    /// Failures of earlier pods of the index that count towards `backoffLimitPerIndex`, and failures that do not.
    pub earlier_failures: (u32, u32),
    /// When the last container finished, or an estimate of this time.
    pub finished: Option<Timestamp>,
    /// Terminated containers, app containers first.
    pub exits: List<ContainerExit>,
    /// Type and status of each condition.
    pub conditions: List<(Box<str>, Box<str>)>,
    /// Sum of all restarts of containers.
    pub restarts: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerExit {
    /// Name of the container.
    pub name: Box<str>,
    pub exit_code: i64,
}

impl JobPodFields {
    /// Returns the fields if the pod belongs to a Job, or has its finalizer.
    pub(super) fn of(pod: &Pod) -> Option<Self> {
        let metadata = &pod.metadata;
        let is_owned =
            metadata.owner_references.iter().any(|owner| owner.controller && &*owner.kind == "Job");
        if !is_owned && !metadata.finalizers.iter().any(|finalizer| &**finalizer == JOB_TRACKING) {
            return None;
        }
        let annotations = &metadata.annotations;
        let number = |text: &Option<Box<str>>| text.as_deref().and_then(|text| text.parse::<u32>().ok());
        let status = &pod.status;
        let containers = || status.container_statuses.iter().chain(&status.init_container_statuses);
        let exit = |status: &ContainerStatus| {
            let exit_code = status.terminated()?.exit_code;
            Some(ContainerExit { name: status.name.clone(), exit_code })
        };
        let conditions = status.conditions.iter();
        Some(Self {
            index: number(&annotations.index),
            earlier_failures: (
                number(&annotations.failures).unwrap_or(0),
                number(&annotations.ignored_failures).unwrap_or(0),
            ),
            finished: finished(pod),
            exits: containers().filter_map(exit).collect(),
            conditions: conditions.map(|one| (one.r#type.clone(), one.status.clone())).collect(),
            restarts: containers().map(|status| status.restart_count).sum(),
        })
    }
}

/// Returns when the last app container or sidecar finished. If one has not, the time at which the pod became unready
/// or was deleted.
fn finished(pod: &Pod) -> Option<Timestamp> {
    let sidecars = pod.status.init_container_statuses.iter().filter(|status| pod.is_sidecar(status));
    let all = pod.status.container_statuses.iter().chain(sidecars);
    let times: Option<Vec<Timestamp>> =
        all.map(|status| status.terminated().and_then(|end: &Terminated| end.finished_at)).collect();
    let last = times.and_then(|times| times.into_iter().max());
    let unready = || {
        let ready = pod.ready().filter(|ready| &*ready.status == "False")?;
        ready.last_transition_time
    };
    let deleted = || {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        pod.metadata.deletion_timestamp?.checked_sub(SignedDuration::from_secs(grace)).ok()
    };
    last.or_else(unready).or_else(deleted)
}
