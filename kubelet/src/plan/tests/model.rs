//! A model of one pod: an engine, a kubelet that may crash between any two steps, and faults of both.
//!
//! The engine's state and the observed state are separate. Actions proceed in steps, so that a crash or an edit can occur
//! between creating a container and observing it.

use super::*;

/// A seeded random generator.
pub struct Chance(fastrand::Rng);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A random number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit.max(1))
    }

    /// True once in this many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// An action in progress.
#[derive(Clone, Debug)]
pub struct Task {
    pub action: Action,
    /// Number of completed steps.
    pub step: u32,
    /// Time at which its container received the stop signal.
    pub requested_at: Option<Timestamp>,
    /// Hashes and addresses at its start.
    hashes: Hashes,
}

/// Whether the action does not involve the engine.
fn is_of_disk(action: &Action) -> bool {
    matches!(action, Action::MountVolumes | Action::EmptyVolumes | Action::CleanUp)
}

/// Whether the action needs an image first.
fn pulls(action: &Action) -> bool {
    matches!(action, Action::CreateContainer { .. } | Action::PrepareContainer { .. })
}

/// The modelled node.
pub struct World {
    pub truth: observed::Pod,
    pub seen: Option<observed::Pod>,
    pub engine_up: bool,
    /// Whether pulls complete; otherwise they wait until they are aborted.
    pub registry_up: bool,
    pub pod: usize,
    pub ending: Option<Ending>,
    pub history: History,
    pub saved: (History, Option<Ending>),
    pub probe_results: ProbeResults,
    pub tasks: Vec<Task>,
    /// Aborted actions whose requests may have reached the engine.
    pub late: Vec<Task>,
    /// Another user removed a container that only unsaved history knew of.
    pub meddled: bool,
    pub now: i64,
    pub gone: bool,
    next_id: u32,
}

impl World {
    pub fn new() -> Self {
        Self {
            truth: observed::Pod::default(),
            seen: Some(observed::Pod::default()),
            engine_up: true,
            registry_up: true,
            pod: 0,
            ending: None,
            history: History::default(),
            saved: (History::default(), None),
            probe_results: ProbeResults::default(),
            tasks: Vec::new(),
            late: Vec::new(),
            meddled: false,
            now: 0,
            gone: false,
            next_id: 0,
        }
    }

    /// Updates the observed state, if the engine answers.
    pub fn look(&mut self) {
        if self.engine_up {
            self.seen = Some(self.truth.clone());
        }
    }

    /// The kubelet crashes and restarts: actions and unsaved state are lost.
    pub fn crash(&mut self) {
        self.tasks.clear();
        self.late.clear();
        self.seen = None;
        self.probe_results = ProbeResults::default();
        // Nothing on disk and not desired: the next kubelet does not know the pod.
        self.gone |= self.history.cleaned_up;
        (self.history, self.ending) = self.saved.clone();
    }

    /// Saves decisions that the next kubelet cannot derive, as a worker does before it acts.
    pub fn save_decisions(&mut self, seen: &observed::Pod, in_progress: &BTreeSet<Key>) {
        let decided = |history: &History| (history.terminal.clone(), history.revived_at);
        if self.ending.is_none()
            && (decided(&self.history) != decided(&self.saved.0)
                || self.history.has_unsaved_runs(&self.saved.0, seen, in_progress))
        {
            self.save();
        }
    }

    /// An edit aborts creations for other hashes, and a termination aborts all; the engine may have received the requests.
    pub fn abandon(&mut self, wanted: Option<&Hashes>) {
        let is_cut_off = |task: &mut Task| {
            let key = task.action.key();
            task.action.makes_something()
                && wanted.is_none_or(|wanted| wanted.of(&key) != task.hashes.of(&key))
        };
        self.late.extend(self.tasks.extract_if(.., is_cut_off));
    }

    /// The engine completes the request of an aborted action.
    pub fn come_late(&mut self) {
        let now = at(self.now);
        for task in std::mem::take(&mut self.late) {
            let Action::StartContainer { id, .. } = &task.action else { continue };
            let container = self.truth.containers.iter_mut().find(|c| c.id == *id);
            if let Some(container) = container.filter(|c| c.state == State::Created) {
                container.state = State::Running { started_at: now, pid: 2 };
            }
        }
    }

    /// Saves the checkpoint.
    pub fn save(&mut self) {
        let mut history = self.history.clone();
        history.failures.clear();
        history.volumes_mounted = false;
        history.cleaned_up = false;
        history.emptied = false;
        history.prepared.clear();
        self.saved = (history, self.ending.clone());
        self.meddled = false;
    }

    /// The engine restarts, which kills all containers.
    pub fn engine_restarts(&mut self) {
        let now = at(self.now);
        let exit = |state: &mut State| {
            if let State::Running { started_at, .. } = *state {
                let started_at = Some(started_at);
                *state = State::Exited(Exit {
                    code: 137,
                    oom_killed: false,
                    error: None,
                    started_at,
                    finished_at: now,
                });
            }
        };
        self.truth.containers.iter_mut().for_each(|c| exit(&mut c.state));
        self.truth.sandboxes.iter_mut().for_each(|s| exit(&mut s.state));
    }

    pub fn exit_container(&mut self, index: usize, code: i32) {
        let finished_at = at(self.now);
        let container = &mut self.truth.containers[index];
        if let State::Running { started_at, .. } = container.state {
            let started_at = Some(started_at);
            container.state =
                State::Exited(Exit { code, oom_killed: false, error: None, started_at, finished_at });
        }
    }

    pub fn begin(&mut self, action: Action, hashes: Hashes) {
        self.tasks.push(Task { action, step: 0, requested_at: None, hashes });
    }

    /// Advances a task by one step; true if it has ended.
    pub fn advance(&mut self, index: usize, fails: bool) {
        let task = self.tasks[index].clone();
        if !self.registry_up && task.step == 0 && pulls(&task.action) {
            return;
        }
        let done = if !self.engine_up && !is_of_disk(&task.action) {
            Some(false)
        } else {
            self.advance_one(index, &task, fails)
        };
        let Some(succeeded) = done else { return };
        self.tasks.remove(index);
        let key = task.action.key();
        if succeeded {
            self.history.failures.remove(&key);
            match task.action {
                Action::MountVolumes => self.history.volumes_mounted = true,
                Action::EmptyVolumes => self.history.emptied = true,
                Action::PrepareContainer { name } => {
                    let hash = task.hashes.container(&name).cloned().unwrap_or_default();
                    self.history.prepared.insert(name, hash);
                }
                Action::CleanUp => {
                    self.history.cleaned_up = true;
                    self.saved = (History::default(), self.ending.clone());
                }
                _ => {}
            }
        } else {
            let failure = super::super::Failure {
                reason: "Failed".to_owned(),
                message: String::new(),
                retry_at: at(self.now + 2),
                delay: Duration::from_secs(2),
            };
            self.history.failures.insert(key, failure);
        }
    }

    /// `None` while the task continues, otherwise whether it succeeded.
    fn advance_one(&mut self, index: usize, task: &Task, fails: bool) -> Option<bool> {
        self.tasks[index].step += 1;
        let now = at(self.now);
        match (&task.action, task.step) {
            (action, _) if is_of_disk(action) => Some(!fails),
            (Action::PrepareContainer { .. }, _) => Some(!fails),
            // Each action first performs its work and then observes it, so that a crash may occur in between.
            (_, 0) if fails => Some(false),
            (Action::CreateSandbox { attempt }, 0) => {
                self.create_sandbox(*attempt, &task.hashes.sandbox, now);
                None
            }
            (Action::CreateContainer { name, attempt, back_off }, 0) => {
                self.create_container(name, *attempt, *back_off, &task.hashes, now);
                None
            }
            (Action::StartSandbox { id }, 0) => {
                let ip = format!("10.0.{}.{}", self.now % 200, self.next_id % 200);
                let sandbox = self.truth.sandboxes.iter_mut().find(|s| s.id == *id)?;
                sandbox.state = State::Running { started_at: now, pid: 1 };
                sandbox.ips = vec![ip.parse().unwrap()];
                None
            }
            (Action::StartContainer { id, .. }, 0) => {
                let up: Vec<String> = self
                    .truth
                    .sandboxes
                    .iter()
                    .filter(|s| s.state.is_running())
                    .map(|s| s.id.clone())
                    .collect();
                let Some(container) = self.truth.containers.iter_mut().find(|c| c.id == *id) else {
                    return Some(false);
                };
                if !up.contains(&container.sandbox_id) || container.state != State::Created {
                    return Some(container.state.is_running());
                }
                container.state = State::Running { started_at: now, pid: 2 };
                None
            }
            (Action::StopContainer { id, grace, .. }, _) => {
                let Some(place) = self.truth.containers.iter().position(|c| c.id == *id) else {
                    self.observe();
                    return Some(true);
                };
                if !self.truth.containers[place].state.is_running() {
                    self.observe();
                    return Some(true);
                }
                let requested_at = *self.tasks[index].requested_at.get_or_insert(now);
                let patience = i64::try_from(grace.as_secs()).unwrap();
                if now.duration_since(requested_at).as_secs() >= patience {
                    self.exit_container(place, 137);
                }
                None
            }
            (Action::Remove { id }, 0) => {
                self.truth.remove(id);
                None
            }
            _ => {
                self.observe();
                Some(true)
            }
        }
    }

    /// The kubelet observes the result of its action.
    fn observe(&mut self) {
        if self.seen.is_some() {
            self.look();
        }
    }

    fn create_sandbox(&mut self, attempt: u32, hash: &str, now: Timestamp) {
        if self.truth.sandboxes.iter().any(|s| s.attempt == attempt && s.hash == hash) {
            return;
        }
        self.truth.sandboxes.retain(|s| s.attempt != attempt);
        self.next_id += 1;
        self.truth.put_sandbox(Sandbox {
            id: format!("sb{}", self.next_id),
            attempt,
            hash: hash.to_owned(),
            state: State::Created,
            ips: vec![],
            is_bare: false,
            created_at: now,
        });
    }

    /// Names are unique in an engine: a container of the same attempt is reused or replaced.
    fn create_container(
        &mut self,
        name: &str,
        attempt: u32,
        back_off: Duration,
        hashes: &Hashes,
        now: Timestamp,
    ) {
        let hash = hashes.container(name).cloned().unwrap_or_default();
        let Some(sandbox_id) = self.seen.as_ref().and_then(|s| s.sandbox()).map(|s| s.id.clone()) else {
            return;
        };
        let is_same = |c: &Container| c.name == name && c.attempt == attempt;
        if self.truth.containers.iter().any(|c| is_same(c) && c.hash == hash && c.sandbox_id == sandbox_id) {
            return;
        }
        assert!(
            !self.truth.containers.iter().any(|c| is_same(c) && c.state.is_running()),
            "{name} {attempt} runs and would be replaced"
        );
        self.truth.containers.retain(|c| !is_same(c));
        self.next_id += 1;
        self.truth.put_container(Container {
            id: format!("{name}-{}", self.next_id),
            name: name.to_owned(),
            attempt,
            hash,
            back_off,
            image: "i".to_owned(),
            image_id: "i".to_owned(),
            sandbox_id,
            state: State::Created,
            created_at: now,
            stop_signal: None,
            notes: Default::default(),
            message: None,
        });
    }
}
