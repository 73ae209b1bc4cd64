//! Combines observed containers with the pod history into the newest run of each container.

use k8s_openapi::api::core::v1::Container;

use super::restart::{elapsed, should_restart};
use super::{Input, Terminal, deadline, ephemerals, inits, is_sidecar, spec};
use crate::observed::{self, State, Timestamp};

/// The newest run of a container.
#[derive(Clone, Debug)]
pub enum Run<'a> {
    /// The container has never run.
    Never,
    /// The engine has the container.
    Here(&'a observed::Container),
    /// The engine no longer has the container. The history has its last run.
    Past {
        /// Restart count of the run.
        attempt: u32,
        /// Hash of the container spec.
        hash: &'a str,
        /// Restart back-off after the run.
        back_off: std::time::Duration,
        sandbox_id: &'a str,
        /// Exit code; 137 if it was removed while it ran.
        code: i32,
        /// Exit time, if the kubelet observed it.
        ended_at: Option<Timestamp>,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub code: i32,
    pub at: Option<Timestamp>,
    pub ran: std::time::Duration,
    pub back_off: std::time::Duration,
}

impl<'a> Run<'a> {
    pub(super) fn hash(&self) -> Option<&'a str> {
        match self {
            Self::Never => None,
            Self::Here(c) => Some(&c.hash),
            Self::Past { hash, .. } => Some(hash),
        }
    }

    pub(super) fn sandbox_id(&self) -> Option<&'a str> {
        match self {
            Self::Never => None,
            Self::Here(c) => Some(&c.sandbox_id),
            Self::Past { sandbox_id, .. } => Some(sandbox_id),
        }
    }

    /// The attempt number of the next run.
    pub(super) fn next_attempt(&self) -> u32 {
        match self {
            Self::Never => 0,
            Self::Here(c) => c.attempt + 1,
            Self::Past { attempt, .. } => attempt + 1,
        }
    }

    /// The restart count of the container. A container that was created but never started does not count, because
    /// an edit may remove it.
    pub(super) fn restarts(&self) -> u32 {
        match self {
            Self::Never => 0,
            Self::Here(c) if c.state == State::Created => c.attempt.saturating_sub(1),
            Self::Here(c) => c.attempt,
            Self::Past { attempt, .. } => *attempt,
        }
    }

    pub(super) fn running(&self) -> Option<&'a observed::Container> {
        match self {
            Self::Here(c) if c.state.is_running() => Some(c),
            _ => None,
        }
    }

    pub(super) fn ended(&self) -> Option<Ended> {
        match self {
            Self::Never => None,
            Self::Here(c) => match &c.state {
                State::Exited(exit) => Some(Ended {
                    code: exit.code,
                    at: Some(exit.finished_at),
                    ran: exit.started_at.map(|from| elapsed(from, exit.finished_at)).unwrap_or_default(),
                    back_off: c.back_off,
                }),
                State::Created | State::Running { .. } => None,
            },
            Self::Past { code, ended_at, back_off, .. } => {
                Some(Ended { code: *code, at: *ended_at, ran: Default::default(), back_off: *back_off })
            }
        }
    }
}

/// The containers of a pod, as the planning functions see them.
#[derive(Clone, Debug)]
pub struct View<'a> {
    observed: &'a observed::Pod,
    input: &'a Input<'a>,
}

impl<'a> View<'a> {
    /// Creates a view of this input.
    pub fn new(input: &'a Input<'a>) -> Self {
        Self { observed: input.observed, input }
    }

    /// The newest run of the container of this name.
    pub fn run(&self, name: &str) -> Run<'a> {
        let here = self.observed.newest(name);
        let last = self.input.history.last.get(name);
        match (here, last) {
            (Some(here), Some(last)) if last.attempt > here.attempt => Self::past(last),
            (Some(here), _) => Run::Here(here),
            (None, Some(last)) => Self::past(last),
            (None, None) => Run::Never,
        }
    }

    fn past(last: &'a super::LastRun) -> Run<'a> {
        Run::Past {
            attempt: last.attempt,
            hash: &last.hash,
            back_off: last.back_off,
            sandbox_id: &last.sandbox_id,
            code: last.ended.map_or(137, |(code, _)| code),
            ended_at: last.ended.map(|(_, at)| at),
        }
    }

    /// All running containers, of any attempt.
    pub(super) fn running(&self) -> impl Iterator<Item = &'a observed::Container> + use<'a> {
        self.observed.containers.iter().filter(|c| c.state.is_running())
    }

    /// Whether the pod spec does not list the container.
    pub(super) fn is_unlisted(&self, container: &observed::Container) -> bool {
        let regular = inits(self.input.pod).iter().chain(&spec(self.input.pod).containers);
        let ephemeral = ephemerals(self.input.pod).iter().map(|c| &c.name);
        regular.map(|c| &c.name).chain(ephemeral).all(|name| *name != container.name)
    }

    /// Whether a container runs that the pod spec does not list.
    pub(super) fn has_unlisted(&self) -> bool {
        self.running().any(|container| self.is_unlisted(container))
    }

    /// Whether the run has the desired hash and did not end before an edit restarted the pod.
    fn is_desired(&self, name: &str, run: &Run<'_>) -> bool {
        let is_past = self.input.history.revived_at.is_some_and(|revived_at| {
            run.ended().is_some_and(|ended| ended.at.is_none_or(|at| at < revived_at))
        });
        !is_past && run.hash() == self.input.hashes.containers.get(name).map(String::as_str)
    }

    /// Whether no edit replaces the run. While the pod is unconfirmed, no run is replaced.
    pub(super) fn is_current(&self, name: &str, run: &Run<'_>) -> bool {
        let is_kept = !self.input.is_confirmed && !matches!(run, Run::Never);
        is_kept || self.is_desired(name, run)
    }

    /// How a container ended that has the desired hash and will not restart.
    pub(super) fn final_exit(&self, container: &Container, is_init: bool) -> Option<Ended> {
        let run = self.run(&container.name);
        if !self.is_desired(&container.name, &run) {
            return None;
        }
        run.ended().filter(|ended| !should_restart(self.input.pod, container, is_init, ended.code))
    }

    /// Whether all init containers of the current sandbox have completed.
    pub fn initialized(&self) -> bool {
        if inits(self.input.pod).is_empty() {
            return true;
        }
        let Some(sandbox) = self.observed.sandbox() else {
            return self.input.history.initialized_in.is_some();
        };
        self.input.history.initialized_in.as_deref() == Some(&sandbox.id)
            || spec(self.input.pod).containers.iter().any(|main| {
                self.observed
                    .attempts(&main.name)
                    .any(|c| c.sandbox_id == sandbox.id && c.state != State::Created)
            })
    }

    /// The terminal state of the pod, if it has reached one. An unconfirmed pod keeps the state of an earlier kubelet.
    pub(super) fn terminal(&self, input: &Input<'_>) -> Option<Terminal> {
        if let Some(terminal) = &input.history.terminal
            && (!input.is_confirmed || terminal.still_applies(input.hashes))
        {
            return Some(terminal.clone());
        }
        if deadline(input).is_some_and(|at| at <= input.now) {
            let message = "Pod was active on the node longer than the specified deadline".to_owned();
            return Some(Terminal::ended(false, "DeadlineExceeded", message, input.hashes));
        }
        let ended = |succeeded| Some(Terminal::ended(succeeded, "", String::new(), input.hashes));
        for init in inits(input.pod).iter().filter(|c| !is_sidecar(c)) {
            if !self.initialized() && self.final_exit(init, true).is_some_and(|e| e.code != 0) {
                return ended(false);
            }
        }
        let mut succeeded = true;
        for main in &spec(input.pod).containers {
            succeeded &= self.final_exit(main, false)?.code == 0;
        }
        ended(succeeded)
    }
}
