//! Executes a pod action and classifies its error.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{Assignment, Dependencies, create, stop};
use crate::cgroups::PodCgroup;
use crate::disk;
use crate::observed::{self, PodUid};
use crate::plan::{Action, Hashes};
use crate::report::{About, Severity};
use crate::runtime;
use crate::spec::{self, CgroupDriver, Facts};
use crate::volumes;

/// The context of an action at the time when it was planned.
pub(super) struct ActionContext {
    pub deps: Arc<Dependencies>,
    pub uid: PodUid,
    pub assignment: Assignment,
    /// Updates of the assignment while the action runs.
    pub assigned: watch::Receiver<Assignment>,
    pub hashes: Arc<Hashes>,
    pub observed: Arc<observed::Pod>,
}

/// Error of an action, with its event and retry delays.
#[derive(Debug)]
pub(super) struct ActionError {
    /// Reason for `state.waiting.reason`.
    pub reason: &'static str,
    /// Reason of the event.
    pub event: &'static str,
    /// The message: what happened and what to do.
    pub message: String,
    /// Whether every occurrence is reported, not only a new message.
    pub repeats: bool,
    /// First retry delay.
    pub first_wait: Duration,
    /// Longest retry delay.
    pub longest_wait: Duration,
}

impl ActionError {
    /// Creates an error that is likely to disappear without a change by the user. The first retry follows after 0.5 s,
    /// later ones after at most 10 s.
    pub fn transient(reason: &'static str, event: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            event,
            message: message.into(),
            repeats: false,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(10),
        }
    }

    /// Creates an error that the user must resolve. An edit of the pod or of a referenced object retries the action
    /// at once.
    pub fn persistent(reason: &'static str, event: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            event,
            message: message.into(),
            repeats: false,
            first_wait: Duration::from_secs(2),
            longest_wait: Duration::from_secs(120),
        }
    }
}

impl From<runtime::Error> for ActionError {
    fn from(error: runtime::Error) -> Self {
        let message = error.to_string();
        match error {
            runtime::Error::Unreachable { .. }
            | runtime::Error::NotFound { .. }
            | runtime::Error::Network(_) => Self::transient("ContainerCreating", "FailedSync", message),
            runtime::Error::Refused { .. } => Self::persistent("CreateContainerError", "Failed", message),
        }
    }
}

impl ActionContext {
    /// The pod as `namespace/name`, for the log.
    pub fn full_name(&self) -> String {
        About::pod(&self.assignment.pod.pod).full_name()
    }

    pub fn about_container(&self, name: &str) -> About {
        About::container(&self.assignment.pod.pod, name)
    }

    pub fn normal(&self, container: &str, reason: &'static str, message: impl Into<String>) {
        self.deps.outbox.note(self.about_container(container), Severity::Normal, reason, message);
    }

    pub fn warn(&self, container: &str, reason: &'static str, message: impl Into<String>) {
        self.deps.outbox.note(self.about_container(container), Severity::Warning, reason, message);
    }

    pub fn facts(&self) -> Arc<Facts> {
        self.deps.facts.borrow().clone()
    }

    pub fn warn_pod(&self, reason: &'static str, message: impl Into<String>) {
        let about = About::pod(&self.assignment.pod.pod);
        self.deps.outbox.note(about, Severity::Warning, reason, message);
    }

    pub fn wanted_volumes<'a>(&'a self, facts: &'a Facts) -> volumes::VolumeInput<'a> {
        volumes::VolumeInput {
            uid: &self.uid,
            pod: &self.assignment.pod.pod,
            references: &self.assignment.references,
            facts,
        }
    }
}

/// Executes an action.
pub(super) async fn apply(job: &ActionContext, action: &Action) -> Result<(), ActionError> {
    match action {
        Action::MountVolumes => {
            create_cgroup(job).await;
            mount_volumes(job).await
        }
        Action::CreateSandbox { attempt } => create::sandbox(job, *attempt).await,
        Action::StartSandbox { id } => create::start_sandbox(job, id).await,
        Action::PrepareContainer { name } => create::prepare(job, name).await,
        Action::CreateContainer { name, attempt, back_off } => {
            create::container(job, name, *attempt, *back_off).await
        }
        Action::StartContainer { name, id } => create::start_container(job, name, id).await,
        Action::StopContainer { name, id, grace, reason } => {
            stop::container(job, name, id, *grace, *reason).await
        }
        Action::Remove { id } => remove(job, id).await,
        Action::EmptyVolumes => job.deps.volumes.empty(&job.uid).await.map_err(volume_fault),
        Action::CleanUp => clean_up(job).await,
    }
}

/// Creates the pod's cgroup. On failure, the pod runs without it.
async fn create_cgroup(job: &ActionContext) {
    let facts = job.facts();
    let (Some(driver), Some(pod)) = (facts.cgroup_driver, cgroup(job, &facts)) else { return };
    let (deps, uid) = (job.deps.clone(), job.uid.clone());
    let held = disk::run(move || match driver {
        CgroupDriver::Cgroupfs => deps.cgroups.as_ref().map_or(Ok(()), |cgroups| cgroups.apply(&uid, &pod)),
        CgroupDriver::Systemd => deps.slices.as_ref().map_or(Ok(()), |slices| slices.apply(&uid, &pod)),
    });
    if let Err(error) = held.await {
        job.warn_pod(
            "FailedCreatePodContainer",
            format!("cannot apply the resource limits of the pod: {error}"),
        );
    }
}

/// Removes the pod's cgroup.
async fn release_cgroup(job: &ActionContext) {
    let slice = cgroup(job, &job.facts()).map(|pod| pod.path).filter(|path| path.ends_with(".slice"));
    let (deps, uid) = (job.deps.clone(), job.uid.clone());
    let released = disk::run(move || match (&deps.slices, &slice, &deps.cgroups) {
        (Some(slices), Some(slice), _) => slices.release(&uid, slice),
        (_, None, Some(cgroups)) => cgroups.release(&uid),
        (None, Some(_), _) | (_, None, None) => Ok(()),
    });
    if let Err(error) = released.await {
        tracing::warn!(pod = job.full_name(), %error, "cannot remove the cgroup of a pod");
    }
}

fn cgroup(job: &ActionContext, facts: &Facts) -> Option<PodCgroup> {
    let (path, burstable, resources) = spec::pod_cgroup(&job.assignment.pod.pod, facts)?;
    Some(PodCgroup { path, burstable, resources })
}

/// Mounts new volumes and refreshes the others.
async fn mount_volumes(job: &ActionContext) -> Result<(), ActionError> {
    let facts = job.facts();
    let wanted = job.wanted_volumes(&facts);
    let notes = job.deps.volumes.mount(&wanted).await.map_err(volume_fault)?;
    for note in notes {
        job.warn_pod(note.reason, note.message);
    }
    let refreshed = job.deps.volumes.refresh(&wanted).await.map_err(volume_fault)?;
    if !refreshed.changed.is_empty() {
        tracing::info!(pod = job.full_name(), volumes = refreshed.changed.join(","), "volumes were updated");
    }
    for kept in refreshed.kept {
        job.warn_pod("FailedMount", format!("{kept}; the volume keeps its previous content"));
    }
    Ok(())
}

fn volume_fault(error: volumes::Error) -> ActionError {
    ActionError::persistent("ContainerCreating", "FailedMount", error.to_string())
}

async fn remove(job: &ActionContext, id: &str) -> Result<(), ActionError> {
    job.deps.runtime.remove(id).await?;
    job.deps.pleg.forget(&job.uid, id);
    Ok(())
}

async fn clean_up(job: &ActionContext) -> Result<(), ActionError> {
    release_cgroup(job).await;
    let unmounted = job.deps.volumes.unmount(&job.uid).await;
    unmounted.map_err(|error| ActionError::persistent("Terminating", "FailedUnmount", error.to_string()))
}

/// Inspects a container after an action changed it.
pub(super) async fn refresh(job: &ActionContext, id: &str) -> Result<(), ActionError> {
    job.deps.pleg.refresh(&job.uid, id).await.map_err(ActionError::from)
}
