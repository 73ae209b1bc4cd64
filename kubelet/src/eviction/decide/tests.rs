//! Thresholds, grace periods, minimum reclaims and the transition period.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::options::ThresholdValue;

fn threshold(signal: Signal, value: u64, grace_seconds: u64, reclaim: u64) -> Threshold {
    Threshold {
        signal,
        value: ThresholdValue::Amount(value),
        grace: Duration::from_secs(grace_seconds),
        minimum_reclaim: (reclaim > 0).then_some(ThresholdValue::Amount(reclaim)),
    }
}

fn settings(thresholds: Vec<Threshold>) -> Eviction {
    Eviction { thresholds, ..Eviction::default() }
}

fn observed(amounts: &[(Signal, u64)]) -> Observations {
    amounts
        .iter()
        .map(|(signal, available)| (*signal, Amount { capacity: 1000, available: *available }))
        .collect()
}

fn plenty() -> Observations {
    observed(&Signal::ALL.map(|signal| (signal, 1000)))
}

/// The conditions that hold, by their types.
fn active(decision: &Decision) -> String {
    let active = decision.pressures.iter().filter(|(_, is_short)| *is_short);
    active.map(|(pressure, _)| pressure.condition_type()).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_signal_has_its_condition() {
    use Signal::*;
    let one = |signal| threshold(signal, 100, 0, 0);
    let settings = settings(Signal::ALL.map(one).to_vec());
    let now = Instant::now();
    for (signal, condition) in [
        (MemoryAvailable, "MemoryPressure"),
        (NodeFsAvailable, "DiskPressure"),
        (NodeFsInodesFree, "DiskPressure"),
        (ImageFsAvailable, "DiskPressure"),
        (ImageFsInodesFree, "DiskPressure"),
        (PidAvailable, "PIDPressure"),
    ] {
        let with = |available| {
            let mut amounts = plenty();
            amounts.insert(signal, Amount { capacity: 1000, available });
            decide(&State::default(), &settings, &amounts, now)
        };
        assert_eq!(active(&with(100)), "", "{signal}");
        let short = with(99);
        assert_eq!(active(&short), condition, "{signal}");
        let met = short.reclaim.unwrap();
        assert_eq!((met.threshold.signal, met.quantity, met.available), (signal, 100, 99));
    }
}

#[test]
fn an_unknown_signal_gives_no_condition() {
    let decision = decide(&State::default(), &Eviction::default(), &Observations::new(), Instant::now());
    assert_eq!((decision.pressures, decision.reclaim), (Vec::new(), None));
    let memory = observed(&[(Signal::MemoryAvailable, 1000)]);
    let hard = settings(vec![threshold(Signal::NodeFsAvailable, 100, 0, 0)]);
    let decision = decide(&State::default(), &hard, &memory, Instant::now());
    assert_eq!(decision.pressures, [(Pressure::Memory, false)]);
}

#[test]
fn a_pressure_condition_stays_for_the_transition_period() {
    let settings = settings(vec![threshold(Signal::MemoryAvailable, 100, 0, 0)]);
    let (mut state, began) = (State::default(), Instant::now());
    for (available, seconds, is_reported) in [
        (500, 0, false),
        (50, 1, true),
        (500, 2, true),
        (50, 10, true),
        (500, 309, true),
        (500, 310, false),
        (500, 311, false),
        (50, 1000, true),
    ] {
        let amounts = observed(&[(Signal::MemoryAvailable, available)]);
        let decision = decide(&state, &settings, &amounts, began + Duration::from_secs(seconds));
        assert_eq!(decision.pressures, [(Pressure::Memory, is_reported)], "{seconds}");
        assert_eq!(decision.reclaim.is_some(), available < 100, "{seconds}");
        state = decision.state;
    }
}

#[test]
fn a_soft_threshold_evicts_after_its_grace_period() {
    let settings = settings(vec![threshold(Signal::MemoryAvailable, 100, 60, 0)]);
    let (mut state, began) = (State::default(), Instant::now());
    for (available, seconds, evicts) in [
        (50, 0, false),
        (50, 59, false),
        (500, 60, false),
        (50, 61, false),
        (50, 120, false),
        (50, 121, true),
    ] {
        let amounts = observed(&[(Signal::MemoryAvailable, available)]);
        let decision = decide(&state, &settings, &amounts, began + Duration::from_secs(seconds));
        assert_eq!(active(&decision), "MemoryPressure", "the condition does not wait: {seconds}");
        assert_eq!(decision.reclaim.is_some(), evicts, "{seconds}");
        state = decision.state;
    }
}

#[test]
fn a_shortage_lasts_until_the_minimum_reclaim_is_available() {
    let settings = settings(vec![threshold(Signal::NodeFsAvailable, 100, 0, 200)]);
    let (mut state, now) = (State::default(), Instant::now());
    for (available, evicts) in [(150, false), (99, true), (299, true), (300, false), (299, false), (99, true)]
    {
        let amounts = observed(&[(Signal::NodeFsAvailable, available)]);
        let decision = decide(&state, &settings, &amounts, now);
        assert_eq!(decision.reclaim.is_some(), evicts, "{available}");
        assert_eq!(is_resolved(&settings, &amounts), available >= 300);
        state = decision.state;
    }
}

#[test]
fn memory_is_reclaimed_before_disk() {
    let of = |signal| threshold(signal, 100, 0, 0);
    let settings =
        settings(vec![of(Signal::NodeFsAvailable), of(Signal::PidAvailable), of(Signal::MemoryAvailable)]);
    let first = |signals: &[Signal]| {
        let amounts = observed(&signals.iter().map(|signal| (*signal, 1)).collect::<Vec<_>>());
        let decision = decide(&State::default(), &settings, &amounts, Instant::now());
        decision.reclaim.map(|met| met.threshold.signal)
    };
    assert_eq!(first(&Signal::ALL), Some(Signal::MemoryAvailable));
    assert_eq!(first(&[Signal::PidAvailable, Signal::NodeFsAvailable]), Some(Signal::NodeFsAvailable));
}

proptest! {
    /// A sequence of observations at increasing times.
    #[test]
    fn decisions_follow_from_thresholds_and_time(
        thresholds in proptest::collection::vec((0..6usize, 1..1000u64, 0..100u64, 0..300u64), 0..6),
        looks in proptest::collection::vec((proptest::collection::vec(0..1200u64, 6), 0..200u64), 1..30),
    ) {
        let thresholds = thresholds.into_iter()
            .map(|(at, value, grace, reclaim)| threshold(Signal::ALL[at], value, grace, reclaim));
        let settings = settings(thresholds.collect());
        let (mut state, mut now) = (State::default(), Instant::now());
        let mut since_shortage: BTreeMap<Pressure, Instant> = BTreeMap::new();
        for (amounts, pause) in looks {
            now += Duration::from_secs(pause);
            let amounts: Vec<_> = Signal::ALL.into_iter().zip(amounts).collect();
            let amounts = observed(&amounts);
            let before = state.clone();
            let decision = decide(&before, &settings, &amounts, now);
            prop_assert_eq!(&decision, &decide(&before, &settings, &amounts, now));
            for threshold in &settings.thresholds {
                if is_short(threshold, amounts[&threshold.signal], false) {
                    since_shortage.insert(pressure_of(threshold.signal), now);
                }
            }
            for (pressure, is_active) in &decision.pressures {
                let last = since_shortage.get(pressure);
                // Every shortage shows, and a condition needs a shortage in the past.
                prop_assert!(last != Some(&now) || *is_active);
                prop_assert!(!is_active || last.is_some());
            }
            match decision.reclaim {
                // With hard thresholds, a shortage is reclaimed at once.
                None => prop_assert!(settings.thresholds.iter()
                    .all(|threshold| !threshold.is_hard() || !is_short(threshold, amounts[&threshold.signal], false))),
                Some(met) => {
                    prop_assert!(is_short(&met.threshold, amounts[&met.threshold.signal], true));
                    let active = active(&decision);
                    prop_assert!(active.contains(pressure_of(met.threshold.signal).condition_type()));
                    prop_assert!(!is_resolved(&settings, &amounts));
                }
            }
            state = decision.state;
        }
    }
}
