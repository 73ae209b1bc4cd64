//! Does what a plan names, one action at a time, and says why it could not.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{Assignment, Tools, create, stop};
use crate::cgroups::PodCgroup;
use crate::disk;
use crate::observed::{self, PodUid};
use crate::plan::{Action, Hashes};
use crate::report::{About, Severity};
use crate::runtime;
use crate::spec::{self, CgroupDriver, Facts};
use crate::volumes;

/// Everything an action needs to know; a snapshot of the moment it was planned.
pub(super) struct Job {
    pub tools: Arc<Tools>,
    pub uid: PodUid,
    pub assignment: Assignment,
    /// What the worker is told meanwhile.
    pub assigned: watch::Receiver<Assignment>,
    pub hashes: Arc<Hashes>,
    pub observed: Arc<observed::Pod>,
}

/// Why an action failed, and what the pod's owner is told.
#[derive(Debug)]
pub(super) struct Fault {
    /// `state.waiting.reason`.
    pub reason: &'static str,
    /// Reason of the event.
    pub event: &'static str,
    /// What happened and what to do.
    pub message: String,
    /// The event is told each time, not only when its message is new.
    pub repeats: bool,
    /// The first wait before another try.
    pub first_wait: Duration,
    /// The longest.
    pub longest_wait: Duration,
}

impl Fault {
    /// Tried again soon: nobody has to do anything.
    pub fn passing(reason: &'static str, event: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            event,
            message: message.into(),
            repeats: false,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(10),
        }
    }

    /// Somebody has to mend something first; an edit of the pod or of what it refers to is tried at once.
    pub fn lasting(reason: &'static str, event: &'static str, message: impl Into<String>) -> Self {
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

impl From<runtime::Error> for Fault {
    fn from(error: runtime::Error) -> Self {
        let message = error.to_string();
        match error {
            runtime::Error::Unreachable { .. }
            | runtime::Error::NotFound { .. }
            | runtime::Error::Network(_) => Self::passing("ContainerCreating", "FailedSync", message),
            runtime::Error::Refused { .. } => Self::lasting("CreateContainerError", "Failed", message),
        }
    }
}

impl Job {
    pub fn about_container(&self, name: &str) -> About {
        About::container(&self.assignment.pod.pod, name)
    }

    pub fn normal(&self, container: &str, reason: &'static str, message: impl Into<String>) {
        self.tools.outbox.note(self.about_container(container), Severity::Normal, reason, message);
    }

    pub fn warn(&self, container: &str, reason: &'static str, message: impl Into<String>) {
        self.tools.outbox.note(self.about_container(container), Severity::Warning, reason, message);
    }

    pub fn facts(&self) -> Arc<Facts> {
        self.tools.facts.borrow().clone()
    }

    pub fn warn_pod(&self, reason: &'static str, message: impl Into<String>) {
        let about = About::pod(&self.assignment.pod.pod);
        self.tools.outbox.note(about, Severity::Warning, reason, message);
    }

    pub fn wanted_volumes<'a>(&'a self, facts: &'a Facts) -> volumes::Wanted<'a> {
        volumes::Wanted {
            uid: &self.uid,
            pod: &self.assignment.pod.pod,
            references: &self.assignment.references,
            facts,
        }
    }
}

/// Does one action.
pub(super) async fn apply(job: &Job, action: &Action) -> Result<(), Fault> {
    match action {
        Action::MountVolumes => {
            hold_in_cgroup(job).await;
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
        Action::EmptyVolumes => job.tools.volumes.empty(&job.uid).await.map_err(volume_fault),
        Action::CleanUp => clean_up(job).await,
    }
}

/// Makes the pod's cgroup; a pod runs without one rather than not at all.
async fn hold_in_cgroup(job: &Job) {
    let facts = job.facts();
    let (Some(driver), Some(pod)) = (facts.cgroup_driver, cgroup(job, &facts)) else { return };
    let (tools, uid) = (job.tools.clone(), job.uid.clone());
    let held = disk::run(move || match driver {
        CgroupDriver::Cgroupfs => tools.cgroups.as_ref().map_or(Ok(()), |cgroups| cgroups.hold(&uid, &pod)),
        CgroupDriver::Systemd => tools.slices.as_ref().map_or(Ok(()), |slices| slices.hold(&uid, &pod)),
    });
    if let Err(error) = held.await {
        job.warn_pod("FailedCgroup", format!("the limits of the pod as a whole do not hold: {error}"));
    }
}

/// Takes it away again.
async fn release_cgroup(job: &Job) {
    let slice = cgroup(job, &job.facts()).map(|pod| pod.path).filter(|path| path.ends_with(".slice"));
    let (tools, uid) = (job.tools.clone(), job.uid.clone());
    let released = disk::run(move || match (&tools.slices, &slice, &tools.cgroups) {
        (Some(slices), Some(slice), _) => slices.release(&uid, slice),
        (_, None, Some(cgroups)) => cgroups.release(&uid),
        (None, Some(_), _) | (_, None, None) => Ok(()),
    });
    if let Err(error) = released.await {
        tracing::warn!(pod = %job.uid, %error, "a cgroup stays behind");
    }
}

fn cgroup(job: &Job, facts: &Facts) -> Option<PodCgroup> {
    let (path, burstable, resources) = spec::pod_cgroup(&job.assignment.pod.pod, facts)?;
    Some(PodCgroup { path, burstable, resources })
}

/// Makes what is not there yet and brings the rest up to date.
async fn mount_volumes(job: &Job) -> Result<(), Fault> {
    let facts = job.facts();
    let wanted = job.wanted_volumes(&facts);
    let notes = job.tools.volumes.mount(&wanted).await.map_err(volume_fault)?;
    for note in notes {
        job.warn_pod(note.reason, note.message);
    }
    let refreshed = job.tools.volumes.refresh(&wanted).await.map_err(volume_fault)?;
    if !refreshed.changed.is_empty() {
        tracing::info!(pod = %job.uid, volumes = refreshed.changed.join(","), "volumes have new content");
    }
    for kept in refreshed.kept {
        job.warn_pod("FailedMount", format!("{kept}; the volume keeps what it had"));
    }
    Ok(())
}

fn volume_fault(error: volumes::Error) -> Fault {
    Fault::lasting("ContainerCreating", "FailedMount", error.to_string())
}

async fn remove(job: &Job, id: &str) -> Result<(), Fault> {
    job.tools.runtime.remove(id).await?;
    job.tools.observer.forget(&job.uid, id);
    Ok(())
}

async fn clean_up(job: &Job) -> Result<(), Fault> {
    release_cgroup(job).await;
    let unmounted = job.tools.volumes.unmount(&job.uid).await;
    unmounted.map_err(|error| Fault::lasting("Terminating", "FailedUnmount", error.to_string()))
}

/// Looks at a container again after something was done to it.
pub(super) async fn look(job: &Job, id: &str) -> Result<(), Fault> {
    job.tools.observer.refresh(&job.uid, id).await.map_err(Fault::from)
}
