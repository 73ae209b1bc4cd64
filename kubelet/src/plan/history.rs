//! Pod history: facts about a pod that the engine does not keep.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Hashes, Key};
use crate::observed::{self, EVICTED, Pressure, State, Timestamp};

/// The history of one pod. It is part of the checkpoint, except for facts that a restarted kubelet can observe
/// again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct History {
    /// When the kubelet accepted the pod; `status.startTime`.
    pub started_at: Option<Timestamp>,
    /// The terminal state, once the pod has reached a terminal phase.
    pub terminal: Option<Terminal>,
    /// Id of the sandbox in which all init containers have completed.
    pub initialized_in: Option<String>,
    /// When an edit restarted the finished pod. Earlier runs do not count.
    pub revived_at: Option<Timestamp>,
    /// Number of sandboxes that were created.
    pub sandboxes: u32,
    /// The last known pod IPs.
    pub ips: Vec<IpAddr>,
    /// The newest run of each container, which keeps restart counts and exit codes after a container is removed.
    pub last: BTreeMap<String, LastRun>,
    /// Failed actions, and when they are retried.
    #[serde(skip)]
    pub failures: BTreeMap<Key, Failure>,
    /// Hashes of the container versions that can be created, by container name.
    #[serde(skip)]
    pub prepared: BTreeMap<String, String>,
    #[serde(skip)]
    pub volumes_mounted: bool,
    /// Whether the `emptyDir` volumes of an evicted pod have been deleted.
    #[serde(skip)]
    pub emptied: bool,
    /// Whether the directory of a terminating pod has been removed.
    #[serde(skip)]
    pub cleaned_up: bool,
}

/// The newest observed run of a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    /// Restart count of the run.
    pub attempt: u32,
    /// Hash of the container spec.
    pub hash: String,
    /// Restart back-off after the run.
    pub back_off: Duration,
    pub sandbox_id: String,
    /// Exit code and time, or `None` while the container runs.
    pub ended: Option<(i32, Timestamp)>,
}

/// Terminal state of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminal {
    /// Phase: `true` for Succeeded, `false` for Failed.
    pub succeeded: bool,
    /// Reason, such as `DeadlineExceeded` or `Evicted`; empty if the containers exited on their own.
    pub reason: String,
    /// Message for the pod status.
    pub message: String,
    /// The value of [`Hashes::all`] when the pod finished. An edit that changes it restarts the pod.
    pub hashes: String,
    /// The value of [`Hashes::spec`] when the pod finished, if any edit restarts the pod. Otherwise empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spec: String,
    /// Restart policy when the pod finished. Empty in checkpoints of older versions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub restart_policy: String,
    /// How and why the pod was evicted. `None` for other terminal states, and in checkpoints of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction: Option<Eviction>,
}

/// How and why a pod was evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    pub at: Timestamp,
    /// Longest grace period of the pod's containers.
    pub grace: Duration,
    /// The node pressure because of which the pod was evicted. `None` if the pod exceeded a limit of its own.
    pub pressure: Option<Pressure>,
}

/// A failed action that is retried later.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// CamelCase reason for `state.waiting.reason`.
    pub reason: String,
    /// The message: what happened and what to do.
    pub message: String,
    /// Time of the next attempt.
    pub retry_at: Timestamp,
    /// Delay before the next attempt.
    pub delay: Duration,
}

impl Terminal {
    /// The terminal state of an evicted pod. Any edit of the pod's spec restarts it, because no container hash
    /// contains the resource limits of volumes.
    pub fn evicted(message: String, eviction: Eviction, hashes: &Hashes) -> Self {
        let ended = Self::ended(false, EVICTED, message, hashes);
        Self { spec: hashes.spec.clone(), eviction: Some(eviction), ..ended }
    }

    /// Creates a terminal state that persists until an edit changes a container, the sandbox or the restart policy.
    pub fn ended(succeeded: bool, reason: &str, message: String, hashes: &Hashes) -> Self {
        let restart_policy = hashes.restart_policy.clone();
        let (reason, hashes) = (reason.to_owned(), hashes.all());
        Self { succeeded, reason, message, hashes, spec: String::new(), restart_policy, eviction: None }
    }

    /// Whether the pod stays terminated, because no later edit restarts it.
    pub fn still_applies(&self, hashes: &Hashes) -> bool {
        let is_same = |then: &String, now: &String| then.is_empty() || then == now;
        self.hashes == hashes.all()
            && is_same(&self.spec, &hashes.spec)
            && is_same(&self.restart_policy, &hashes.restart_policy)
    }

    /// Whether the pod was evicted.
    pub fn is_eviction(&self) -> bool {
        self.reason == EVICTED
    }
}

/// Reason of a failed image pull.
pub const ERR_IMAGE_PULL: &str = "ErrImagePull";

/// How long the status shows a failed pull or the end of a container before it shows the back-off. The stock kubelet
/// shows it until the next sync of the pod, after ten seconds or more. Clients poll every two seconds.
pub(super) const FAILURE_SHOWN: Duration = Duration::from_secs(3);

/// How recent the end of a container is that this kubelet process did not see running.
const RECENT: Duration = Duration::from_secs(60);

impl Failure {
    /// When a failed pull is first shown as `ImagePullBackOff`, or `None` for other failures.
    pub fn backs_off_at(&self) -> Option<Timestamp> {
        let failed_at = self.retry_at.checked_sub(self.delay).ok()?;
        (self.reason == ERR_IMAGE_PULL).then(|| failed_at.checked_add(FAILURE_SHOWN).ok()).flatten()
    }

    /// Whether the failure is shown as `ImagePullBackOff`.
    pub fn is_back_off(&self, now: Timestamp) -> bool {
        self.backs_off_at().is_some_and(|at| at <= now)
    }
}

impl History {
    /// Restarts an edited pod that had reached a terminal phase. Runs before `now` no longer count.
    pub fn revive(&mut self, hashes: &Hashes, now: Timestamp) {
        if self.terminal.as_ref().is_some_and(|terminal| !terminal.still_applies(hashes)) {
            self.restart(now);
        }
    }

    /// Restarts a pod that was evicted because of node pressure, if it was evicted before `returned_at`. Returns the
    /// pressure.
    pub fn end_eviction(&mut self, returned_at: Timestamp, now: Timestamp) -> Option<Pressure> {
        let eviction = self.terminal.as_ref()?.eviction.as_ref()?;
        let pressure = eviction.pressure.filter(|_| eviction.at < returned_at)?;
        self.restart(now);
        Some(pressure)
    }

    fn restart(&mut self, now: Timestamp) {
        self.terminal = None;
        self.started_at = Some(now);
        self.revived_at = Some(now);
        self.initialized_in = None;
        self.emptied = false;
    }

    /// Whether the newest run of a container is recorded only in this history: the engine has removed the container or
    /// is removing it, and the saved checkpoint is older.
    pub fn has_unsaved_runs(
        &self,
        written: &Self,
        observed: &observed::Pod,
        in_progress: &BTreeSet<Key>,
    ) -> bool {
        let is_kept = |name: &str, newest: u32| {
            let stays = |id: &String| !in_progress.contains(&Key::Dead(id.clone()));
            observed.attempts(name).any(|container| container.attempt >= newest && stays(&container.id))
        };
        self.last.iter().any(|(name, last)| {
            let is_written = written.last.get(name).is_some_and(|written| written.attempt >= last.attempt);
            !is_written && !is_kept(name, last.attempt)
        })
    }

    /// Containers that the kernel has killed for lack of memory since the last [`Self::remember`]. An older end that is
    /// not in the history does not count: an earlier kubelet process has reported it.
    pub fn new_oom_kills<'a>(
        &self,
        observed: &'a observed::Pod,
        now: Timestamp,
    ) -> Vec<&'a observed::Container> {
        let is_new = |container: &&observed::Container| {
            let State::Exited(exit) = &container.state else { return false };
            let last = self.last.get(&container.name).filter(|last| last.attempt >= container.attempt);
            let is_unknown =
                last.is_none_or(|last| last.attempt == container.attempt && last.ended.is_none());
            let age = Duration::try_from(now.duration_since(exit.finished_at)).unwrap_or_default();
            exit.oom_killed && is_unknown && (last.is_some() || age < RECENT)
        };
        observed.containers.iter().filter(is_new).collect()
    }

    /// Records facts about the observed pod that the engine may forget.
    pub fn remember(&mut self, observed: &observed::Pod, now: Timestamp) {
        self.started_at.get_or_insert(now);
        if let Some(sandbox) = observed.sandbox() {
            self.sandboxes = self.sandboxes.max(sandbox.attempt + 1);
            if !sandbox.ips.is_empty() && self.ips != sandbox.ips {
                self.ips.clone_from(&sandbox.ips);
            }
        }
        for container in observed.containers.iter().rev() {
            let ended = match &container.state {
                State::Created => continue,
                State::Running { .. } => None,
                State::Exited(exit) => Some((exit.code, exit.finished_at)),
            };
            let is_newer = self.last.get(&container.name).is_none_or(|last| {
                container.attempt > last.attempt
                    || (container.attempt == last.attempt && ended.is_some() && ended != last.ended)
            });
            if is_newer {
                let run = LastRun {
                    attempt: container.attempt,
                    hash: container.hash.clone(),
                    back_off: container.back_off,
                    sandbox_id: container.sandbox_id.clone(),
                    ended,
                };
                self.last.insert(container.name.clone(), run);
            }
        }
    }
}
