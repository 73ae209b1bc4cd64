//! Simulates thousands of pod histories: edits, exits, engine failures, and crashes between any two steps.
//!
//! `CORACLE_SEEDS=100000` sets their number; `CORACLE_SEED=n` replays one and prints its history.

use std::sync::LazyLock;

use super::model::{Chance, World};
use super::*;
use crate::plan::{StopReason, ephemerals, inits, is_sidecar, spec, status};

/// Seeds of an ordinary test run; a full run is `make simulate`.
const SEEDS: u64 = 3_000;

/// Steps with faults, and most steps without faults after which the desired state must be reached.
const STORMY: usize = 120;
const CALM: usize = 900;

/// The target container of ephemeral containers.
const DEBUGGED: &str =
    "terminationGracePeriodSeconds: 3\ncontainers: [{name: web, image: a}, {name: db, image: a}]";
const JOB: &str =
    "terminationGracePeriodSeconds: 3\nrestartPolicy: Never\ncontainers: [{name: web, image: a}]";

/// Families of pods: an edit leads from any pod of a family to any other.
static FAMILIES: LazyLock<Vec<Vec<Pod>>> = LazyLock::new(|| {
    let family = |specs: &[&str]| specs.iter().map(|spec| pod(spec)).collect();
    vec![
        family(&[
            "terminationGracePeriodSeconds: 5\ncontainers: [{name: web, image: a}]",
            "terminationGracePeriodSeconds: 5\ncontainers: [{name: web, image: b}]",
            "terminationGracePeriodSeconds: 5\ncontainers: [{name: web, image: a}, {name: db, image: a}]",
            "terminationGracePeriodSeconds: 5\nhostname: other\ncontainers: [{name: web, image: a}]",
        ]),
        family(&[
            "terminationGracePeriodSeconds: 3\nrestartPolicy: OnFailure\ninitContainers: [{name: one, image: a}, {name: side, image: a, restartPolicy: Always}, {name: two, image: a}]\ncontainers: [{name: web, image: a}, {name: db, image: a}]",
            "terminationGracePeriodSeconds: 3\nrestartPolicy: OnFailure\ninitContainers: [{name: one, image: a}, {name: side, image: b, restartPolicy: Always}, {name: two, image: a}]\ncontainers: [{name: web, image: a}]",
        ]),
        family(&[
            "terminationGracePeriodSeconds: 4\nrestartPolicy: Never\ninitContainers: [{name: one, image: a}]\ncontainers: [{name: web, image: a}]",
            "terminationGracePeriodSeconds: 4\nrestartPolicy: Never\ninitContainers: [{name: one, image: a}]\ncontainers: [{name: web, image: b}]",
        ]),
        family(&[
            "activeDeadlineSeconds: 40\nterminationGracePeriodSeconds: 2\ncontainers: [{name: web, image: a, livenessProbe: {tcpSocket: {port: 1}}}]",
        ]),
        vec![
            pod(DEBUGGED),
            debugged(DEBUGGED, &["debug"]),
            debugged(DEBUGGED, &["debug", "more"]),
            debugged(&format!("hostname: other\n{DEBUGGED}"), &["debug"]),
        ],
        vec![pod(JOB), debugged(JOB, &["debug"])],
    ]
});

#[test]
fn no_event_sequence_breaks_an_invariant() {
    if let Some(seed) = number("CORACLE_SEED") {
        let mut log = Vec::new();
        let result = Run::new(seed).go(&mut log);
        println!("{}", log.join("\n"));
        result.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        return;
    }
    let seeds = number("CORACLE_SEEDS").unwrap_or(SEEDS);
    let threads = u64::try_from(std::thread::available_parallelism().map_or(1, usize::from)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for seed in (thread..seeds).step_by(usize::try_from(threads).unwrap()) {
                    if let Err(broken) = Run::new(seed).go(&mut Vec::new()) {
                        panic!("seed {seed}: {broken}; replay it with CORACLE_SEED={seed}");
                    }
                }
            });
        }
    });
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

struct Run {
    chance: Chance,
    family: &'static [Pod],
    world: World,
    /// Highest attempt seen in a status, by container.
    counted: std::collections::BTreeMap<String, i32>,
    /// Reported terminal phase, with the hashes at that time.
    final_phase: Option<(String, String)>,
    previous: Option<k8s_openapi::api::core::v1::PodStatus>,
    nothing_to_do: bool,
    wake_at: Option<Timestamp>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let families = &*FAMILIES;
        let family = &families[chance.below(families.len())];
        let mut world = World::new();
        world.pod = chance.below(family.len());
        Self {
            chance,
            family,
            world,
            counted: Default::default(),
            final_phase: None,
            previous: None,
            nothing_to_do: false,
            wake_at: None,
        }
    }

    fn go(&mut self, log: &mut Vec<String>) -> Result<(), String> {
        for _ in 0..STORMY {
            self.fault(log);
            if !self.world.gone {
                self.turn(log, true)?;
            }
            if self.world.gone && !self.adopt_orphan() {
                return self.remaining_grace();
            }
        }
        self.world.engine_up = true;
        if self.chance.once_in(2) && self.world.ending.is_none() {
            self.end(log);
        }
        // Termination needs no registry.
        self.world.registry_up |= !self.is_over();
        for _ in 0..CALM {
            self.world.look();
            self.turn(log, false)?;
            if self.world.gone && !self.adopt_orphan() {
                break;
            }
            if self.is_idle() {
                // Nothing happens until the next planned time, if there is one.
                let Some(wake_at) = self.wake_at else { break };
                self.world.now = self.world.now.max(wake_at.duration_since(at(0)).as_secs());
            }
        }
        self.remaining_grace()
    }

    /// An aborted action completed after the pod was gone: the pool starts a worker that terminates it.
    fn adopt_orphan(&mut self) -> bool {
        let is_orphan = !self.world.truth.is_gone();
        if is_orphan {
            self.world.gone = false;
            self.world.history = History::default();
            self.final_phase = None;
            self.counted.clear();
        }
        is_orphan
    }

    /// Whether the last plan was based on the actual state, had no actions, and none is in progress.
    fn is_idle(&self) -> bool {
        self.world.tasks.is_empty()
            && self.nothing_to_do
            && self.world.seen.as_ref() == Some(&self.world.truth)
    }

    fn pod(&self) -> &'static Pod {
        &self.family[self.world.pod]
    }

    /// Whether the pod is terminating or has reached a terminal phase.
    fn is_over(&self) -> bool {
        let still_applies = |terminal: &Terminal| terminal.still_applies(&hashes(self.pod()));
        self.world.ending.is_some() || self.world.history.terminal.as_ref().is_some_and(still_applies)
    }

    fn end(&mut self, log: &mut Vec<String>) {
        let grace_seconds = spec(self.pod()).termination_grace_period_seconds.unwrap();
        log.push(format!("{:>4} the pod is removed", self.world.now));
        self.world.abandon(None);
        self.world.ending = Some(Ending { since: at(self.world.now), grace_seconds });
    }

    /// Injects a fault.
    fn fault(&mut self, log: &mut Vec<String>) {
        let world = &mut self.world;
        let before = world.now;
        let event = match self.chance.below(40) {
            0 => {
                world.crash();
                if world.meddled {
                    self.counted.clear();
                }
                "the kubelet crashes".to_owned()
            }
            1 => {
                world.engine_up = !world.engine_up;
                format!("the engine answers: {}", world.engine_up)
            }
            2 if self.chance.once_in(3) => {
                world.engine_restarts();
                "the engine restarts".to_owned()
            }
            3..=5 if !world.truth.containers.is_empty() => {
                let index = self.chance.below(world.truth.containers.len());
                let code = [0, 0, 1, 137][self.chance.below(4)];
                world.exit_container(index, code);
                format!("{} exits with {code}", world.truth.containers[index].id)
            }
            6 if !world.truth.containers.is_empty() && self.chance.once_in(3) => {
                let index = self.chance.below(world.truth.containers.len());
                let id = world.truth.containers[index].id.clone();
                world.truth.remove(&id);
                // It was neither observed nor saved, so it is forgotten.
                world.meddled = true;
                if world.seen.is_none() {
                    self.counted.clear();
                }
                format!("someone removes {id}")
            }
            7 if !world.truth.sandboxes.is_empty() && self.chance.once_in(3) => {
                let id = world.truth.sandboxes[0].id.clone();
                world.truth.remove(&id);
                format!("someone removes {id}")
            }
            8 if world.ending.is_none() => {
                world.pod = self.chance.below(self.family.len());
                let wanted = hashes(&self.family[world.pod]);
                world.abandon(Some(&wanted));
                world.history.revive(&wanted, at(world.now));
                world.history.failures.clear();
                self.final_phase = None;
                format!("the pod is edited to {}", world.pod)
            }
            9 if self.chance.once_in(6) && world.ending.is_none() => return self.end(log),
            10 => {
                let running = world.truth.containers.iter().find(|c| c.state.is_running());
                let Some(id) = running.map(|c| c.id.clone()) else { return };
                let probe_result = ProbeResult {
                    success: self.chance.once_in(2),
                    since: at(world.now),
                    message: String::new(),
                };
                world.probe_results.set(&id, Kind::Liveness, probe_result);
                format!("a probe decides on {id}")
            }
            16 if world.ending.is_none() && world.history.terminal.is_none() && self.chance.once_in(6) => {
                let hashes = hashes(&self.family[world.pod]);
                world.history.terminal =
                    Some(Terminal::evicted("it took too much".to_owned(), eviction(), &hashes));
                "the pod is evicted".to_owned()
            }
            17 => {
                world.registry_up = !world.registry_up;
                format!("images come: {}", world.registry_up)
            }
            11..=15 => {
                world.now += i64::try_from(self.chance.below(15)).unwrap();
                return;
            }
            _ => return,
        };
        log.push(format!("{before:>4} {event}"));
    }

    /// One turn of the kubelet: it may observe, it plans and starts actions, and its tasks advance.
    fn turn(&mut self, log: &mut Vec<String>, stormy: bool) -> Result<(), String> {
        if self.world.seen.is_none() || self.chance.once_in(2) {
            self.world.look();
        }
        if let Some(seen) = self.world.seen.clone() {
            self.think(&seen, log)?;
        }
        for _ in 0..2 {
            if self.world.tasks.is_empty() {
                break;
            }
            let index = self.chance.below(self.world.tasks.len());
            let fails = stormy && self.chance.once_in(8);
            self.world.advance(index, fails);
            self.only_one_runs()?;
        }
        if self.chance.once_in(2) {
            self.world.come_late();
        }
        if self.chance.once_in(if stormy { 4 } else { 1 }) {
            self.world.save();
        }
        self.world.now += 1;
        Ok(())
    }

    fn think(&mut self, seen: &observed::Pod, log: &mut Vec<String>) -> Result<(), String> {
        let pod = self.pod();
        let hashes = hashes(pod);
        let now = at(self.world.now);
        self.world.history.revive(&hashes, now);
        self.world.history.remember(seen, now);
        let ids: Vec<&str> = seen.containers.iter().map(|c| c.id.as_str()).collect();
        self.world.probe_results.keep(&ids);
        let in_progress: BTreeSet<Key> = self.world.tasks.iter().map(|t| t.action.key()).collect();
        let input = Input {
            pod,
            hashes: &hashes,
            ending: self.world.ending.as_ref(),
            is_confirmed: true,
            refused_edit: None,
            observed: seen,
            probe_results: &self.world.probe_results,
            history: &self.world.history,
            needs_address: &BTreeSet::new(),
            in_progress: &in_progress,
            back_off: BackOff::default(),
            now,
        };
        let plan = compute_pod_actions(&input);
        let status = status(&input, &plan, &[], &[]);
        for action in &plan.actions {
            self.is_justified(&input, &plan, action)?;
            log.push(format!("{:>4}   {}", self.world.now, brief(action)));
        }
        if self.previous.as_ref().is_none_or(|p| p.phase != status.phase) {
            log.push(format!("{:>4}   phase {}", self.world.now, status.phase.as_deref().unwrap()));
        }
        self.world.save_decisions(seen, &in_progress);
        self.phase_never_goes_back(&status, &hashes)?;
        self.counts_never_go_back(&status)?;
        self.previous = Some(status);
        if plan.terminal.is_some() {
            self.world.abandon(None);
            self.world.history.terminal.clone_from(&plan.terminal);
        }
        if plan.initialized_in.is_some() {
            self.world.history.initialized_in.clone_from(&plan.initialized_in);
        }
        self.world.save_decisions(seen, &in_progress);
        self.world.gone |= plan.gone;
        self.nothing_to_do = plan.actions.is_empty() && in_progress.is_empty();
        self.wake_at = plan.wake_at;
        for action in plan.actions {
            self.world.begin(action, hashes.clone());
        }
        Ok(())
    }

    /// At most one container of each name runs.
    fn only_one_runs(&self) -> Result<(), String> {
        for container in &self.world.truth.containers {
            let twins = self.world.truth.attempts(&container.name).filter(|c| c.state.is_running()).count();
            if twins > 1 {
                return Err(format!("{twins} copies of {} run", container.name));
            }
        }
        Ok(())
    }

    /// Every action has a justification in the observed state.
    fn is_justified(&self, input: &Input<'_>, plan: &Plan, action: &Action) -> Result<(), String> {
        let observed = input.observed;
        match action {
            Action::StopContainer { name, id, grace, reason } => {
                let container = observed.containers.iter().find(|c| c.id == *id).unwrap();
                let sandbox_ok = observed.sandbox().is_some_and(|s| {
                    s.state.is_running() && s.hash == input.hashes.sandbox && s.id == container.sandbox_id
                });
                let cause = input.ending.is_some()
                    || plan.terminal.is_some()
                    || input.hashes.container(name) != Some(&container.hash)
                    || input.probe_results.get(id, Kind::Liveness).is_some_and(|v| !v.success)
                    || !sandbox_ok
                    || observed.newest(name).is_some_and(|newest| newest.id != *id);
                let is_edit =
                    matches!(reason, StopReason::Changed | StopReason::Dropped | StopReason::SandboxLost)
                        && observed
                            .sandbox()
                            .is_some_and(|s| s.state.is_running() && s.id == container.sandbox_id)
                        && observed.newest(name).is_some_and(|newest| newest.id == *id);
                if is_edit && !self.is_prepared(input, (*reason == StopReason::Changed).then_some(name)) {
                    return Err(format!("{id} is stopped for an edit that may be broken"));
                }
                if !cause {
                    return Err(format!("{id} is stopped without a cause"));
                }
                let evicted = input.history.terminal.as_ref().is_some_and(Terminal::is_eviction);
                let whole = spec(input.pod).termination_grace_period_seconds.unwrap();
                let whole = if evicted { 2 } else { whole };
                let least = input
                    .ending
                    .map_or(whole, |e| whole - input.now.duration_since(e.since).as_secs())
                    .max(2);
                if i64::try_from(grace.as_secs()).unwrap() < least {
                    return Err(format!("{id} gets {} s of grace instead of {least}", grace.as_secs()));
                }
            }
            Action::StartContainer { name, .. } => {
                if spec(input.pod).containers.iter().any(|c| c.name == *name) {
                    self.init_came_first(input)?;
                }
                let is_ephemeral = ephemerals(input.pod).iter().any(|c| c.name == *name);
                if is_ephemeral && input.history.last.contains_key(name) {
                    return Err(format!("{name} begins again"));
                }
            }
            Action::CreateContainer { name, .. } => {
                if observed.attempts(name).any(|c| c.state.is_running()) {
                    return Err(format!("{name} is made while it runs"));
                }
                if plan.terminal.is_some() || input.ending.is_some() {
                    return Err(format!("{name} is made though the pod has ended"));
                }
            }
            Action::Remove { id } => {
                if observed.containers.iter().any(|c| c.id == *id && c.state.is_running()) {
                    return Err(format!("{id} is removed while it runs"));
                }
                let is_sandbox = observed.sandboxes.iter().any(|s| s.id == *id);
                if is_sandbox
                    && observed.containers.iter().any(|c| c.state.is_running() && c.sandbox_id == *id)
                {
                    return Err(format!("sandbox {id} is removed under a running container"));
                }
            }
            Action::MountVolumes
            | Action::PrepareContainer { .. }
            | Action::CreateSandbox { .. }
            | Action::StartSandbox { .. }
            | Action::CleanUp => {}
            Action::EmptyVolumes => {
                if observed.containers.iter().any(|c| c.state.is_running()) {
                    return Err("volumes are emptied under a running container".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Whether the next version of that container, or of all outdated containers, can be created.
    fn is_prepared(&self, input: &Input<'_>, only: Option<&String>) -> bool {
        input.hashes.containers.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)).all(
            |(name, hash)| {
                let is_there = input.observed.newest(name).is_some_and(|c| c.hash == *hash)
                    || input.history.last.get(name).is_some_and(|last| last.hash == *hash);
                is_there || input.history.prepared.get(name) == Some(hash)
            },
        )
    }

    fn init_came_first(&self, input: &Input<'_>) -> Result<(), String> {
        let Some(sandbox) = input.observed.sandbox() else { return Err("no sandbox".to_owned()) };
        if input.history.initialized_in.as_deref() == Some(&sandbox.id) {
            return Ok(());
        }
        for init in inits(input.pod).iter().filter(|c| !is_sidecar(c)) {
            let done = input.observed.attempts(&init.name).any(|c| {
                c.sandbox_id == sandbox.id && matches!(&c.state, State::Exited(exit) if exit.code == 0)
            });
            let has_main = spec(input.pod).containers.iter().any(|main| {
                input
                    .observed
                    .attempts(&main.name)
                    .any(|c| c.sandbox_id == sandbox.id && c.state != State::Created)
            });
            let remembered = input.history.last.get(&init.name).is_some_and(|last| {
                last.sandbox_id == sandbox.id && last.ended.is_some_and(|(code, _)| code == 0)
            });
            if !done && !has_main && !remembered {
                return Err(format!("a main container starts before {} has done its work", init.name));
            }
        }
        Ok(())
    }

    fn phase_never_goes_back(
        &mut self,
        status: &k8s_openapi::api::core::v1::PodStatus,
        hashes: &Hashes,
    ) -> Result<(), String> {
        let phase = status.phase.clone().unwrap();
        if let Some((final_phase, of)) = &self.final_phase
            && *of == hashes.all()
            && *final_phase != phase
        {
            return Err(format!("the phase went from {final_phase} to {phase}"));
        }
        let is_terminal = phase == "Succeeded" || phase == "Failed";
        // A terminal phase that was reported but not saved may be reported again after a crash, never otherwise.
        let is_known = self.world.saved.0.terminal.as_ref().is_some_and(|t| t.still_applies(hashes));
        self.final_phase = (is_terminal && is_known).then(|| (phase, hashes.all()));
        Ok(())
    }

    fn counts_never_go_back(&mut self, status: &k8s_openapi::api::core::v1::PodStatus) -> Result<(), String> {
        if self.world.ending.is_some() {
            self.counted.clear();
            return Ok(()); // If the pod appears again, its restart counts start at zero.
        }
        for container in status.container_statuses.iter().flatten() {
            let counted = self.counted.entry(container.name.clone()).or_default();
            if container.restart_count < *counted {
                return Err(format!(
                    "restarts of {} went from {counted} to {}",
                    container.name, container.restart_count
                ));
            }
            *counted = (*counted).max(container.restart_count);
        }
        Ok(())
    }

    /// After the faults have stopped, the desired state is reached and no action remains.
    fn remaining_grace(&mut self) -> Result<(), String> {
        let world = &self.world;
        if world.ending.is_some() {
            return if world.gone && world.truth.is_gone() {
                Ok(())
            } else {
                Err(format!("the pod was removed and this is left: {:?} {:?}", world.truth, world.tasks))
            };
        }
        if !world.tasks.is_empty() {
            return Err(format!("still busy: {:?}", world.tasks));
        }
        let pod = self.pod();
        let terminal = world.history.terminal.is_some();
        for main in &spec(pod).containers {
            let newest = world.truth.newest(&main.name);
            let is_up = newest.is_some_and(|c| {
                c.state.is_running() && hashes(pod).containers.get(&main.name) == Some(&c.hash)
            });
            let rests = spec(pod).restart_policy.as_deref() != Some("Always");
            if !is_up && !terminal && !rests {
                return Err(format!("{} is not up: {newest:?}", main.name));
            }
        }
        let is_kept_up = !terminal && spec(pod).restart_policy.as_deref() == Some("Always");
        for ephemeral in ephemerals(pod) {
            let name = &ephemeral.name;
            if is_kept_up && world.truth.newest(name).is_none() && !world.history.last.contains_key(name) {
                return Err(format!("{name} never began"));
            }
        }
        if terminal && world.truth.containers.iter().any(|c| c.state.is_running()) {
            return Err("a container runs in a pod that has ended".to_owned());
        }
        Ok(())
    }
}
