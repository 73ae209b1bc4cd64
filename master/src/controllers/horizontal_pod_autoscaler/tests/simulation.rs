//! A seeded simulation: the load and the policies are random, the controller restarts, and no limit is ever exceeded.
//!
//! `CORACLE_SEEDS=100000` sets the number of seeds; `CORACLE_SEED=n` replays one.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::controllers::horizontal_pod_autoscaler::behavior::{History, Recommendation, normalize};
use crate::objects::autoscaling::{Behavior, PolicyType, ScalingPolicy, SelectPolicy};

const MIN: i64 = 2;
const MAX: i64 = 60;
/// Histories without `CORACLE_SEEDS`.
const SEEDS: u64 = 300;
/// Synchronizations of a history.
const STEPS: usize = 200;
const PERIOD: u64 = 15;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn policies(chance: &mut fastrand::Rng) -> Vec<Value> {
    let policy = |chance: &mut fastrand::Rng| {
        let kind = if chance.bool() { "Pods" } else { "Percent" };
        json!({"type": kind, "value": chance.i64(1..100), "periodSeconds": chance.i64(1..=120)})
    };
    (0..chance.usize(1..=2)).map(|_| policy(chance)).collect()
}

fn behavior(chance: &mut fastrand::Rng) -> Option<Behavior> {
    let direction = |chance: &mut fastrand::Rng| {
        let select = ["Max", "Max", "Min", "Disabled"][chance.usize(..4)];
        json!({"stabilizationWindowSeconds": chance.i64(0..=300), "selectPolicy": select, "policies": policies(chance)})
    };
    let behavior = json!({"scaleUp": direction(chance), "scaleDown": direction(chance)});
    (!chance.bool()).then(|| serde_json::from_value(behavior).unwrap())
}

/// The time, and the replicas since then.
type Sizes = Vec<(Instant, i64)>;

/// Replicas at a time.
fn size_at(sizes: &Sizes, at: Instant) -> i64 {
    let before = sizes.iter().rev().find(|(since, _)| *since <= at);
    before.unwrap_or(&sizes[0]).1
}

/// The highest and lowest replicas that one policy permits now.
fn permitted(policy: &ScalingPolicy, sizes: &Sizes, now: Instant) -> (i64, i64) {
    let period = Duration::from_secs(u64::try_from(policy.period_seconds).unwrap());
    // A change exactly one period ago is over.
    let start = now.checked_sub(period).map_or(sizes[0].1, |start| size_at(sizes, start));
    match policy.r#type {
        PolicyType::Pods => (start + policy.value, start - policy.value),
        PolicyType::Percent => {
            let change = start * policy.value;
            (start + (change + 99) / 100, start - (change + 99) / 100)
        }
    }
}

/// Whether the policies of the direction permit the change.
fn is_permitted(behavior: &Behavior, sizes: &Sizes, to: i64, now: Instant) -> bool {
    let from = size_at(sizes, now);
    let is_up = to > from;
    let rules = if is_up { &behavior.scale_up } else { &behavior.scale_down };
    let rules = rules.as_ref().unwrap();
    let is_within = |policy: &ScalingPolicy| {
        let (most, least) = permitted(policy, sizes, now);
        if is_up { to <= most } else { to >= least }
    };
    match rules.select_policy {
        SelectPolicy::Disabled => false,
        SelectPolicy::Max => rules.policies.iter().any(is_within),
        SelectPolicy::Min => rules.policies.iter().all(is_within),
    }
}

fn run(seed: u64) -> Result<(), String> {
    let mut chance = fastrand::Rng::with_seed(seed);
    let behavior = behavior(&mut chance);
    let mut now = Instant::now();
    let mut current = chance.i64(MIN..=MAX);
    let mut sizes = vec![(now, current)];
    let mut history = History::new(current, now);
    let mut desired = current;
    let mut since_restart = now;
    let mut recommendations: Vec<(Instant, i64)> = vec![(now, current)];
    for _ in 0..STEPS {
        now += Duration::from_secs(PERIOD);
        if chance.usize(..6) == 0 {
            desired = chance.i64(0..=MAX + 20);
        }
        if chance.usize(..80) == 0 {
            history = History::new(current, now);
            since_restart = now;
            recommendations = vec![(now, current)];
            // The changes before are forgotten, as with the stock controller.
            sizes = vec![(now, current)];
        }
        let recommendation =
            Recommendation { behavior: behavior.as_ref(), min: MIN, max: MAX, current, desired };
        let to = normalize(recommendation, &mut history, now).replicas;
        recommendations.push((now, desired));
        if !(MIN..=MAX).contains(&to) {
            return Err(format!("{to} replicas"));
        }
        let window = behavior.as_ref().and_then(|behavior| behavior.scale_down.as_ref());
        let window = window.and_then(|rules| rules.stabilization_window_seconds).unwrap_or(300);
        let window = Duration::from_secs(u64::try_from(window).unwrap());
        let recent = recommendations.iter().filter(|(at, _)| now.duration_since(*at) < window);
        let highest = recent.map(|(_, replicas)| *replicas).fold(desired, i64::max);
        if to < current && to < highest.min(MAX) {
            return Err(format!("scales down from {current} to {to} although {highest} were recommended"));
        }
        if to != current {
            if behavior.as_ref().is_some_and(|behavior| !is_permitted(behavior, &sizes, to, now)) {
                return Err(format!("no policy permits {current} to {to}, {:?}", now - since_restart));
            }
            history.record_change(current, to, now);
            current = to;
            sizes.push((now, current));
        }
    }
    let mut rules = behavior.iter().flat_map(|behavior| [&behavior.scale_up, &behavior.scale_down]).flatten();
    if rules.all(|rules| rules.select_policy != SelectPolicy::Disabled) {
        // A steady recommendation is reached in the end.
        for _ in 0..1000 {
            now += Duration::from_secs(PERIOD);
            let recommendation =
                Recommendation { behavior: behavior.as_ref(), min: MIN, max: MAX, current, desired };
            let to = normalize(recommendation, &mut history, now).replicas;
            if to != current {
                history.record_change(current, to, now);
                current = to;
            }
        }
        if current != desired.clamp(MIN, MAX) {
            return Err(format!("stays at {current} of {desired}"));
        }
    }
    Ok(())
}

#[test]
fn no_limit_is_exceeded_and_a_steady_load_is_reached() {
    let seeds = number("CORACLE_SEEDS").unwrap_or(SEEDS);
    for seed in number("CORACLE_SEED").map_or(0..seeds, |seed| seed..seed + 1) {
        if let Err(broken) = run(seed) {
            panic!("seed {seed}: {broken}; replay it with CORACLE_SEED={seed}");
        }
    }
}
