//! Decides what to do with an object from the states of its owners and dependents. Pure.

use client::Propagation;

use super::super::object::Object;
use super::graph::{FOREGROUND, ORPHAN};
use crate::objects::OwnerReference;

/// The confirmed state of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// The owner exists.
    Solid,
    /// The owner waits for its dependents to be deleted.
    Waiting,
    /// The owner does not exist, or may not own the object.
    Dangling,
}

/// What to do with an object that is not being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An owner exists.
    Keep,
    /// An owner exists, but some owner references are dangling.
    Release {
        /// UIDs of the owner references to remove.
        owners: Vec<Box<str>>,
    },
    /// No owner exists.
    Delete {
        /// The propagation policy for the object's own dependents.
        propagation: Propagation,
        /// Whether a dependent waits for this object in turn. The object must then stop blocking its owners, or
        /// both would wait forever.
        unblock: bool,
    },
}

/// The state of an object's dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dependents {
    /// The object has no dependents.
    None,
    /// The object has dependents.
    Some,
    /// A dependent waits for its own dependents, possibly for this object.
    Waiting,
}

/// Decides what to do with an object from the states of all its owners.
pub fn step(object: &Object, owners: &[(OwnerReference, OwnerState)], dependents: Dependents) -> Step {
    let of = |state: OwnerState| owners.iter().filter(move |(_, of)| *of == state);
    if owners.is_empty() {
        return Step::Keep;
    }
    if of(OwnerState::Solid).next().is_some() {
        let gone: Vec<Box<str>> = owners
            .iter()
            .filter(|(_, state)| *state != OwnerState::Solid)
            .map(|(owner, _)| owner.uid.clone())
            .collect();
        return if gone.is_empty() { Step::Keep } else { Step::Release { owners: gone } };
    }
    if of(OwnerState::Waiting).next().is_some() && dependents != Dependents::None {
        let unblock = dependents == Dependents::Waiting;
        return Step::Delete { propagation: Propagation::Foreground, unblock };
    }
    let propagation = if object.has_finalizer(ORPHAN) {
        Propagation::Orphan
    } else if object.has_finalizer(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Step::Delete { propagation, unblock: false }
}
