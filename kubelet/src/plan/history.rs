//! What has been: the facts about a pod that the engine alone would forget.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Hashes, Key};
use crate::observed::{self, State, Timestamp};

/// What is remembered about one pod. Kept on disk but for what a restarted kubelet finds out again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct History {
    /// When the kubelet first took the pod on: `status.startTime`.
    pub started_at: Option<Timestamp>,
    /// How it came to its end by itself.
    pub terminal: Option<Terminal>,
    /// The sandbox in which all init containers have done their work.
    pub initialized_in: Option<String>,
    /// When an edit last made a finished pod begin anew; what ended before does not count.
    pub revived_at: Option<Timestamp>,
    /// Sandboxes made so far.
    pub sandboxes: u32,
    /// Its last addresses.
    pub ips: Vec<IpAddr>,
    /// The newest run of each container, so that counts and results outlive a removed container.
    pub last: BTreeMap<String, LastRun>,
    /// What could not be done.
    #[serde(skip)]
    pub failures: BTreeMap<Key, Failure>,
    /// Containers that could be made as they are wanted, by name, with the hash of that.
    #[serde(skip)]
    pub prepared: BTreeMap<String, String>,
    /// Its volumes are there.
    #[serde(skip)]
    pub volumes_mounted: bool,
    /// The pod is evicted and what it had in its volumes is gone.
    #[serde(skip)]
    pub emptied: bool,
    /// The pod is ending and its directory has been taken down.
    #[serde(skip)]
    pub cleaned_up: bool,
}

/// The newest run of a container that was seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    /// Restarts before it.
    pub attempt: u32,
    /// Hash of what it was made from.
    pub hash: String,
    /// How long a restart waits after it.
    pub back_off: Duration,
    /// The sandbox it was in.
    pub sandbox_id: String,
    /// Exit code and time, once it had ended.
    pub ended: Option<(i32, Timestamp)>,
}

/// How a pod came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terminal {
    /// `true` for Succeeded, `false` for Failed.
    pub succeeded: bool,
    /// `DeadlineExceeded`, `Evicted` and the like; empty when its containers just ended.
    pub reason: String,
    /// What a person should know.
    pub message: String,
    /// [`Hashes::all`] at that time: an edited pod runs anew.
    pub hashes: String,
    /// [`Hashes::spec`] at that time where any edit makes the pod run anew; empty otherwise.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spec: String,
    /// The restart policy by which it came to that; empty where an older kubelet has not written it down.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub restart_policy: String,
}

/// Something could not be done and is tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// One word in CamelCase for `state.waiting.reason`.
    pub reason: String,
    /// What happened and what to do.
    pub message: String,
    /// When it is tried again.
    pub retry_at: Timestamp,
    /// The wait before that.
    pub delay: Duration,
}

/// The reason of a pod that took more than it may.
pub const EVICTED: &str = "Evicted";

impl Terminal {
    /// The pod is evicted, until anything of its spec is edited: what it may take is in no hash of what runs.
    pub fn evicted(message: String, hashes: &Hashes) -> Self {
        Self { spec: hashes.spec.clone(), ..Self::ended(false, EVICTED, message, hashes) }
    }

    /// The pod ended so, until an edit bears on what it runs or on when it runs again.
    pub fn ended(succeeded: bool, reason: &str, message: String, hashes: &Hashes) -> Self {
        let restart_policy = hashes.restart_policy.clone();
        let (reason, hashes) = (reason.to_owned(), hashes.all());
        Self { succeeded, reason, message, hashes, spec: String::new(), restart_policy }
    }

    /// True as long as no edit makes the pod run anew.
    pub fn stands(&self, hashes: &Hashes) -> bool {
        let is_same = |then: &String, now: &String| then.is_empty() || then == now;
        self.hashes == hashes.all()
            && is_same(&self.spec, &hashes.spec)
            && is_same(&self.restart_policy, &hashes.restart_policy)
    }

    /// True when what the pod took is to be given back.
    pub fn is_eviction(&self) -> bool {
        self.reason == EVICTED
    }
}

/// The reason of a pull that failed.
pub const ERR_IMAGE_PULL: &str = "ErrImagePull";

/// How long such a failure is shown as one, before it is shown as a pull that waits.
const SHOWN: Duration = Duration::from_secs(2);

impl Failure {
    /// When a pull that failed becomes one that waits; `None` for any other failure.
    pub fn backs_off_at(&self) -> Option<Timestamp> {
        let failed_at = self.retry_at.checked_sub(self.delay).ok()?;
        (self.reason == ERR_IMAGE_PULL).then(|| failed_at.checked_add(SHOWN).ok()).flatten()
    }

    /// True for a pull that failed a moment ago and waits now.
    pub fn is_back_off(&self, now: Timestamp) -> bool {
        self.backs_off_at().is_some_and(|at| at <= now)
    }
}

impl History {
    /// An edited pod that had come to its end begins anew: what ended before `now` no longer counts.
    pub fn revive(&mut self, hashes: &Hashes, now: Timestamp) {
        if self.terminal.as_ref().is_some_and(|terminal| !terminal.stands(hashes)) {
            self.terminal = None;
            self.started_at = Some(now);
            self.revived_at = Some(now);
            self.initialized_in = None;
            self.emptied = false;
        }
    }

    /// True when of some container the newest run is known to nobody but this: the engine has it no more, or is losing it at this
    /// moment, and what was written down is older.
    pub fn is_alone(&self, written: &Self, observed: &observed::Pod, under_way: &BTreeSet<Key>) -> bool {
        let is_kept = |name: &str, newest: u32| {
            let stays = |id: &String| !under_way.contains(&Key::Remains(id.clone()));
            observed.attempts(name).any(|container| container.attempt >= newest && stays(&container.id))
        };
        self.last.iter().any(|(name, last)| {
            let is_written = written.last.get(name).is_some_and(|written| written.attempt >= last.attempt);
            !is_written && !is_kept(name, last.attempt)
        })
    }

    /// Keeps what the engine may forget of the pod as it is now.
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
