//! What is to be done about an object, from what is known of its owners and dependents. Pure.

use super::super::client::Propagation;
use super::super::object::{Object, Owner};
use super::graph::{FOREGROUND, ORPHAN};

/// What became of an owner that an object names, for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there.
    Solid,
    /// It waits for its dependents to go.
    Waiting,
    /// It is not there, or not where its dependent may have owners.
    Absent,
}

/// What is to be done about an object that is not being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Somebody owns it.
    Keep,
    /// Somebody owns it; others it names do not.
    Release {
        /// Identities that go from its owners.
        owners: Vec<String>,
    },
    /// Nobody owns it any more.
    Delete {
        /// What becomes of its own dependents.
        propagation: Propagation,
        /// One of its dependents waits for it in turn: it stops blocking its owners, or both would wait for ever.
        unblock: bool,
    },
}

/// How dependents of an object stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// It has none.
    None,
    /// It has some.
    Some,
    /// One of them waits for its own dependents, of which this object may be one.
    Waiting,
}

/// Decides about an object by every owner it names.
pub fn step(object: &Object, owners: &[(Owner, State)], dependents: Dependents) -> Step {
    let of = |state: State| owners.iter().filter(move |(_, of)| *of == state);
    if owners.is_empty() {
        return Step::Keep;
    }
    if of(State::Solid).next().is_some() {
        let gone: Vec<String> = owners
            .iter()
            .filter(|(_, state)| *state != State::Solid)
            .map(|(owner, _)| owner.uid.clone())
            .collect();
        return if gone.is_empty() { Step::Keep } else { Step::Release { owners: gone } };
    }
    if of(State::Waiting).next().is_some() && dependents != Dependents::None {
        let unblock = dependents == Dependents::Waiting;
        return Step::Delete { propagation: Propagation::Foreground, unblock };
    }
    let propagation = if object.awaits(ORPHAN) {
        Propagation::Orphan
    } else if object.awaits(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Step::Delete { propagation, unblock: false }
}
