//! Plans termination of pods and containers: graceful stop, order of sidecars, and removal.

use std::time::Duration;

use super::restart::elapsed;
use super::{
    Action, DEFAULT_GRACE_SECONDS, Ending, Input, Key, MINIMUM_GRACE, Plan, StopReason, Terminal, View,
    container, inits, is_sidecar, spec,
};
use crate::observed::probes::Kind;
use crate::observed::{Container, State, Timestamp};

/// Stops the pod's containers. Then removes all of its containers, sandboxes and volumes.
pub(super) fn remove(input: &Input<'_>, view: &View<'_>, plan: &mut Plan) {
    if !stop_all(input, view, plan) {
        return;
    }
    let remains = input.observed.containers.iter().map(|c| &c.id);
    for id in remains.chain(input.observed.sandboxes.iter().map(|s| &s.id)) {
        plan.act(input, Action::Remove { id: id.clone() });
    }
    if input.observed.is_gone() && input.in_progress.is_empty() {
        if input.history.cleaned_up {
            plan.gone = true;
        } else {
            plan.act(input, Action::CleanUp);
        }
    }
}

/// Handles a pod in a terminal phase: stops containers that still run. Exited containers stay, for their logs.
pub(super) fn finish(input: &Input<'_>, view: &View<'_>, terminal: &Terminal, plan: &mut Plan) {
    if !stop_all(input, view, plan) {
        return;
    }
    if terminal.is_eviction() && !input.history.emptied {
        plan.act(input, Action::EmptyVolumes);
    }
    for sandbox in &input.observed.sandboxes {
        plan.act(input, Action::Remove { id: sandbox.id.clone() });
    }
    if terminal.is_eviction() {
        // Their writable layers and logs take the space that other pods need.
        for container in &input.observed.containers {
            plan.act(input, Action::Remove { id: container.id.clone() });
        }
    }
    sweep(input, plan);
}

/// Stops main and init containers at once, then sidecars one by one in reverse order. Returns true if nothing runs.
fn stop_all(input: &Input<'_>, view: &View<'_>, plan: &mut Plan) -> bool {
    let is_sidecar_name = |name: &str| inits(input.pod).iter().any(|c| is_sidecar(c) && c.name == name);
    let mut busy = false;
    for running in view.running().filter(|c| !is_sidecar_name(&c.name)) {
        busy = true;
        stop(input, running, StopReason::PodEnds, plan);
    }
    if busy {
        return false;
    }
    for sidecar in inits(input.pod).iter().rev().filter(|c| is_sidecar(c)) {
        if let Some(running) = view.running().find(|c| c.name == sidecar.name) {
            stop(input, running, StopReason::PodEnds, plan);
            return false;
        }
    }
    !input.in_progress.iter().any(|key| matches!(key, Key::Container(_) | Key::Sandbox))
}

/// Stops and removes containers that the pod spec no longer lists, once their replacements can be created.
pub(super) fn stop_unlisted(input: &Input<'_>, view: &View<'_>, plan: &mut Plan) {
    for unlisted in input.observed.containers.iter().filter(|c| view.is_unlisted(c)) {
        if unlisted.state.is_running() {
            if container::all_prepared(input, view, plan) {
                stop(input, unlisted, StopReason::Dropped, plan);
            }
        } else if !input.in_progress.contains(&Key::Container(unlisted.name.clone())) {
            plan.act(input, Action::Remove { id: unlisted.id.clone() });
        }
    }
}

/// Removes exited containers except the newest of each name, and stops surplus running containers of a name.
pub(super) fn sweep(input: &Input<'_>, plan: &mut Plan) {
    let mut last_name = "";
    let mut kept_dead = false;
    for container in &input.observed.containers {
        let is_newest = container.name != last_name;
        let is_being_removed = input.in_progress.contains(&Key::Dead(container.id.clone()));
        if is_newest {
            last_name = &container.name;
            kept_dead = false;
        }
        match &container.state {
            // The engine may have started a container that is being removed.
            State::Exited(_) if is_being_removed => {}
            State::Exited(_) if !kept_dead => kept_dead = true,
            State::Running { .. } | State::Created if is_newest => {}
            State::Running { .. } => stop(input, container, StopReason::Changed, plan),
            State::Exited(_) | State::Created => plan.act(input, Action::Remove { id: container.id.clone() }),
        }
    }
}

/// Upper limit of a grace period. Longer ones would overflow timestamps.
const LONGEST_GRACE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Adds an action that stops a running container.
pub(super) fn stop(input: &Input<'_>, container: &Container, reason: StopReason, plan: &mut Plan) {
    let grace = grace(input, container, reason);
    plan.act(
        input,
        Action::StopContainer { name: container.name.clone(), id: container.id.clone(), grace, reason },
    );
}

fn grace(input: &Input<'_>, container: &Container, reason: StopReason) -> Duration {
    let of_pod = spec(input.pod).termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE_SECONDS);
    let of_probe = match reason {
        StopReason::Unhealthy => probe_grace(input, &container.name, Kind::Liveness),
        StopReason::NeverStarted => probe_grace(input, &container.name, Kind::Startup),
        StopReason::PodEnds | StopReason::Changed | StopReason::Dropped | StopReason::SandboxLost => None,
    };
    match input.ending {
        Some(ending) => remaining_grace(ending, input.now),
        // An evicted pod usually gets the minimum, because other pods need its resources now.
        None if input.history.terminal.as_ref().is_some_and(Terminal::is_eviction) => {
            let eviction = input.history.terminal.as_ref().and_then(|terminal| terminal.eviction.as_ref());
            let longest = eviction.map_or(MINIMUM_GRACE, |eviction| eviction.grace);
            whole(of_pod).min(longest).max(MINIMUM_GRACE)
        }
        None => whole(of_probe.unwrap_or(of_pod)).max(MINIMUM_GRACE),
    }
}

/// The remaining grace period of a terminating pod. It is at least [`MINIMUM_GRACE`], or zero if the grace period of
/// the pod is 0.
pub fn remaining_grace(ending: &Ending, now: Timestamp) -> Duration {
    let least = if ending.grace_seconds == 0 { Duration::ZERO } else { MINIMUM_GRACE };
    whole(ending.grace_seconds).saturating_sub(elapsed(ending.since, now)).max(least)
}

fn whole(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0)).min(LONGEST_GRACE)
}

fn probe_grace(input: &Input<'_>, name: &str, kind: Kind) -> Option<i64> {
    let containers = spec(input.pod).containers.iter().chain(inits(input.pod));
    let container = containers.into_iter().find(|c| c.name == name)?;
    let probe = match kind {
        Kind::Liveness => container.liveness_probe.as_ref(),
        Kind::Startup => container.startup_probe.as_ref(),
        Kind::Readiness => None,
    };
    probe?.termination_grace_period_seconds
}
