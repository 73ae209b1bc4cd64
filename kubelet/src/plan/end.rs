//! How things end: containers asked first and forced later, mains before sidecars, and nothing left behind.

use std::time::Duration;

use super::restart::between;
use super::{
    Action, DEFAULT_GRACE_SECONDS, Ending, Input, Key, MINIMUM_GRACE, Plan, StopReason, Terminal, View, edit,
    inits, is_sidecar, spec,
};
use crate::observed::probes::Kind;
use crate::observed::{Container, State, Timestamp};

/// Ends the pod and removes every trace of it.
pub(super) fn remove(input: &Input<'_>, view: &View<'_>, plan: &mut Plan) {
    if !quiet(input, view, plan) {
        return;
    }
    let remains = input.observed.containers.iter().map(|c| &c.id);
    for id in remains.chain(input.observed.sandboxes.iter().map(|s| &s.id)) {
        plan.act(input, Action::Remove { id: id.clone() });
    }
    if input.observed.is_gone() && input.under_way.is_empty() {
        if input.history.cleaned_up {
            plan.gone = true;
        } else {
            plan.act(input, Action::CleanUp);
        }
    }
}

/// The pod has come to its end by itself: what still runs is stopped, what has ended stays for its logs.
pub(super) fn finish(input: &Input<'_>, view: &View<'_>, terminal: &Terminal, plan: &mut Plan) {
    if !quiet(input, view, plan) {
        return;
    }
    if terminal.is_eviction() && !input.history.emptied {
        plan.act(input, Action::EmptyVolumes);
    }
    for sandbox in &input.observed.sandboxes {
        plan.act(input, Action::Remove { id: sandbox.id.clone() });
    }
    sweep(input, plan);
}

/// Stops mains and plain init containers at once, then sidecars one by one, last first; true once nothing runs.
fn quiet(input: &Input<'_>, view: &View<'_>, plan: &mut Plan) -> bool {
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
    !input.under_way.iter().any(|key| matches!(key, Key::Container(_) | Key::Sandbox))
}

/// Stops and removes containers the pod no longer names, once those that replace them could be made.
pub(super) fn drop_strangers(input: &Input<'_>, view: &View<'_>, plan: &mut Plan) {
    for stranger in input.observed.containers.iter().filter(|c| view.is_stranger(c)) {
        if stranger.state.is_running() {
            if edit::all_prepared(input, view, plan) {
                stop(input, stranger, StopReason::Dropped, plan);
            }
        } else if !input.under_way.contains(&Key::Container(stranger.name.clone())) {
            plan.act(input, Action::Remove { id: stranger.id.clone() });
        }
    }
}

/// Removes the dead but for the newest of each name: one dead container is kept a container.
/// A second one of a name that runs is stopped: there is never more than one.
pub(super) fn sweep(input: &Input<'_>, plan: &mut Plan) {
    let mut last_name = "";
    let mut kept_dead = false;
    for container in &input.observed.containers {
        let is_newest = container.name != last_name;
        let goes = input.under_way.contains(&Key::Remains(container.id.clone()));
        if is_newest {
            last_name = &container.name;
            kept_dead = false;
        }
        match &container.state {
            // The engine may have started what is being removed.
            State::Exited(_) if goes => {}
            State::Exited(_) if !kept_dead => kept_dead = true,
            State::Running { .. } | State::Created if is_newest => {}
            State::Running { .. } => stop(input, container, StopReason::Changed, plan),
            State::Exited(_) | State::Created => plan.act(input, Action::Remove { id: container.id.clone() }),
        }
    }
}

/// The longest a container is given: more would overflow clocks, and a hundred years are as good as for ever.
const LONGEST_GRACE: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Asks a running container to end.
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
        Some(ending) => rest(ending, input.now),
        // It takes what others need, at this very moment.
        None if input.history.terminal.as_ref().is_some_and(Terminal::is_eviction) => MINIMUM_GRACE,
        None => whole(of_probe.unwrap_or(of_pod)).max(MINIMUM_GRACE),
    }
}

/// What is left of the time that a pod was given to end: nothing where it was given none, and else no less than the least.
pub fn rest(ending: &Ending, now: Timestamp) -> Duration {
    let least = if ending.grace_seconds == 0 { Duration::ZERO } else { MINIMUM_GRACE };
    whole(ending.grace_seconds).saturating_sub(between(ending.since, now)).max(least)
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
