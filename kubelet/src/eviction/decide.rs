//! Decides from observations which pressure conditions hold and for which threshold pods are evicted. Pure: the clock is
//! an argument.
//!
//! The rules are those of the stock eviction manager. A threshold is met while less than its value is available. A
//! threshold for which pods were evicted stays met until its minimum reclaim is available too. A condition holds while
//! one of its thresholds is met, and for the transition period afterwards. Pods are evicted after the grace period.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use crate::node::{Amount, Observations};
use crate::observed::{Pressure, PressureStates};
use crate::options::{Eviction, Signal, Threshold};

/// What the manager remembers between two observations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Since when each threshold is met, by its position in the settings.
    met_since: BTreeMap<usize, Instant>,
    /// The thresholds whose grace period is over.
    due: BTreeSet<usize>,
    /// When each pressure was last observed.
    last_pressure: BTreeMap<Pressure, Instant>,
}

/// The result of one observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub state: State,
    /// The pressure conditions that are known.
    pub pressures: PressureStates,
    /// The threshold for which something is reclaimed now.
    pub reclaim: Option<Met>,
}

/// A threshold that is met, with the observed amounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    pub threshold: Threshold,
    /// The value of the threshold: bytes, inodes or processes.
    pub quantity: u64,
    pub available: u64,
}

/// The pressure that a shortage of the signal means.
pub fn pressure_of(signal: Signal) -> Pressure {
    match signal {
        Signal::MemoryAvailable => Pressure::Memory,
        Signal::NodeFsAvailable
        | Signal::NodeFsInodesFree
        | Signal::ImageFsAvailable
        | Signal::ImageFsInodesFree => Pressure::Disk,
        Signal::PidAvailable => Pressure::Pids,
    }
}

/// Evaluates one observation.
pub fn decide(before: &State, settings: &Eviction, observed: &Observations, now: Instant) -> Decision {
    let thresholds = || settings.thresholds.iter().enumerate();
    let is_met = |at: usize, threshold: &Threshold| {
        let amount = observed.get(&threshold.signal);
        amount.is_some_and(|amount| is_short(threshold, *amount, before.due.contains(&at)))
    };
    let met = thresholds().filter(|(at, threshold)| is_met(*at, threshold));
    let met_since: BTreeMap<usize, Instant> =
        met.map(|(at, _)| (at, before.met_since.get(&at).copied().unwrap_or(now))).collect();
    let short: BTreeSet<Pressure> = thresholds()
        .filter(|(at, _)| met_since.contains_key(at))
        .map(|(_, threshold)| pressure_of(threshold.signal))
        .collect();
    let mut last_pressure = before.last_pressure.clone();
    last_pressure.extend(short.iter().map(|pressure| (*pressure, now)));
    last_pressure.retain(|pressure, last| {
        short.contains(pressure) || now.duration_since(*last) < settings.transition_period
    });
    let is_known = |pressure: Pressure| {
        last_pressure.contains_key(&pressure)
            || observed.keys().any(|signal| pressure_of(*signal) == pressure)
    };
    let pressures = Pressure::ALL.into_iter().filter(|pressure| is_known(*pressure));
    let pressures = pressures.map(|pressure| (pressure, last_pressure.contains_key(&pressure))).collect();
    let due: BTreeSet<usize> = thresholds()
        .filter(|(at, threshold)| {
            met_since.get(at).is_some_and(|since| now.duration_since(*since) >= threshold.grace)
        })
        .map(|(at, _)| at)
        .collect();
    // Memory is reclaimed first, because the kernel kills processes when it is exhausted.
    let first = thresholds()
        .filter(|(at, _)| due.contains(at))
        .min_by_key(|(_, threshold)| threshold.signal != Signal::MemoryAvailable);
    let reclaim = first.and_then(|(_, threshold)| {
        let amount = observed.get(&threshold.signal)?;
        let quantity = threshold.value.of(amount.capacity);
        Some(Met { threshold: *threshold, quantity, available: amount.available })
    });
    Decision { state: State { met_since, due, last_pressure }, pressures, reclaim }
}

/// Whether all thresholds have their minimum reclaim, so that a node-level reclaim was enough.
pub fn is_resolved(settings: &Eviction, observed: &Observations) -> bool {
    settings.thresholds.iter().all(|threshold| {
        let amount = observed.get(&threshold.signal);
        amount.is_none_or(|amount| !is_short(threshold, *amount, true))
    })
}

fn is_short(threshold: &Threshold, amount: Amount, with_reclaim: bool) -> bool {
    let reclaim = threshold.minimum_reclaim.filter(|_| with_reclaim);
    let reclaim = reclaim.map_or(0, |reclaim| reclaim.of(amount.capacity));
    amount.available < threshold.value.of(amount.capacity).saturating_add(reclaim)
}

#[cfg(test)]
mod tests;
