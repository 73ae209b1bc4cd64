//! Tests of policies and stabilization, with the examples of the Kubernetes documentation.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::controllers::horizontal_pod_autoscaler::behavior::{
    History, Limit, Normalized, Recommendation, Stabilization, normalize,
};
use crate::objects::autoscaling::Behavior;

/// An autoscaler with 1 to 100 replicas. The target follows it at once.
struct Scaler {
    behavior: Option<Behavior>,
    max: i64,
    current: i64,
    history: History,
    now: Instant,
}

impl Scaler {
    fn new(behavior: Value, current: i64) -> Self {
        let now = Instant::now();
        let behavior = serde_json::from_value(behavior).unwrap();
        Self { behavior, max: 100, current, history: History::new(current, now), now }
    }

    /// Advances the clock, and applies a recommendation.
    fn after(&mut self, seconds: u64, desired: i64) -> Normalized {
        self.now += Duration::from_secs(seconds);
        let recommendation = Recommendation {
            behavior: self.behavior.as_ref(),
            min: 1,
            max: self.max,
            current: self.current,
            desired,
        };
        let normalized = normalize(recommendation, &mut self.history, self.now);
        if normalized.replicas != self.current {
            self.history.record_change(self.current, normalized.replicas, self.now);
        }
        self.current = normalized.replicas;
        normalized
    }

    /// The replicas after each of the following periods with the same recommendation.
    fn path(&mut self, steps: usize, seconds: u64, desired: i64) -> Vec<i64> {
        (0..steps).map(|_| self.after(seconds, desired).replicas).collect()
    }
}

fn policy(kind: &str, value: i64, period: i64) -> Value {
    json!({"type": kind, "value": value, "periodSeconds": period})
}

/// The behavior that the documentation names as the default.
fn default_behavior() -> Value {
    json!({
        "scaleDown": {"stabilizationWindowSeconds": 300, "policies": [policy("Percent", 100, 15)]},
        "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max",
            "policies": [policy("Percent", 100, 15), policy("Pods", 4, 15)]},
    })
}

#[test]
fn by_default_replicas_double_or_grow_by_four() {
    assert_eq!(Scaler::new(default_behavior(), 1).path(5, 15, 50), [5, 10, 20, 40, 50]);
    assert_eq!(Scaler::new(json!(null), 1).path(5, 15, 50), [4, 8, 16, 32, 50]);
    let mut many = Scaler { max: 10, ..Scaler::new(default_behavior(), 8) };
    let normalized = many.after(15, 50);
    assert_eq!((normalized.replicas, normalized.limit), (10, Limit::Maximum));
}

#[test]
fn by_default_the_highest_recommendation_of_five_minutes_prevents_scaling_down() {
    for behavior in
        [json!(null), default_behavior(), json!({"scaleDown": {"policies": [policy("Percent", 100, 15)]}})]
    {
        let mut scaler = Scaler::new(behavior.clone(), 10);
        scaler.after(15, 6);
        let kept = scaler.after(270, 2);
        assert_eq!((kept.replicas, kept.stabilization), (10, Stabilization::Down), "{behavior}");
        // The replicas at the start are five minutes old now; the recommendation of 6 is not.
        assert_eq!(scaler.after(15, 2).replicas, 6, "{behavior}");
        let normalized = scaler.after(15, 2);
        let expected = Normalized { replicas: 2, stabilization: Stabilization::None, limit: Limit::None };
        assert_eq!(normalized, expected, "{behavior}");
        assert_eq!(scaler.after(300, 0).limit, Limit::Minimum, "{behavior}");
    }
}

#[test]
fn policies_limit_scaling_down_to_the_larger_change() {
    // Of 4 pods or 10 percent a minute, more pods are removed: from 80, eight at first, and four from 40 on.
    let down = json!({"stabilizationWindowSeconds": 0, "policies": [policy("Pods", 4, 60), policy("Percent", 10, 60)]});
    let mut scaler = Scaler::new(json!({"scaleDown": down}), 80);
    assert_eq!(scaler.path(3, 60, 10), [72, 64, 57]);
    let mut scaler = Scaler::new(json!({"scaleDown": down}), 41);
    assert_eq!(scaler.path(4, 60, 10), [36, 32, 28, 24]);
    let normalized = scaler.after(15, 10);
    assert_eq!(
        (normalized.replicas, normalized.limit),
        (24, Limit::ScaleDownRate),
        "four in the last minute"
    );
    assert_eq!(scaler.after(45, 22).limit, Limit::None);

    // The smaller change.
    let mut smaller = down.clone();
    smaller["selectPolicy"] = "Min".into();
    assert_eq!(Scaler::new(json!({"scaleDown": smaller}), 80).path(2, 60, 10), [76, 72]);
    let mut disabled = down;
    disabled["selectPolicy"] = "Disabled".into();
    assert_eq!(Scaler::new(json!({"scaleDown": disabled}), 80).path(2, 60, 10), [80, 80]);
}

#[test]
fn policies_limit_scaling_up() {
    let up = |select: &str| {
        json!({"scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": select,
        "policies": [policy("Percent", 50, 60), policy("Pods", 3, 60)]}})
    };
    assert_eq!(Scaler::new(up("Max"), 4).path(3, 60, 90), [7, 11, 17], "half is rounded up");
    assert_eq!(Scaler::new(up("Min"), 4).path(3, 60, 90), [6, 9, 12]);
    assert_eq!(Scaler::new(up("Disabled"), 4).path(3, 60, 90), [4, 4, 4]);
    // Within one period, earlier additions count.
    let mut scaler = Scaler::new(up("Max"), 4);
    assert_eq!(scaler.path(4, 15, 90), [7, 7, 7, 7]);
    let limited = scaler.after(15, 90);
    assert_eq!((limited.replicas, limited.limit), (11, Limit::ScaleUpRate));
}

#[test]
fn removals_of_a_period_count_when_it_scales_up() {
    let behavior = json!({
        "scaleUp": {"policies": [policy("Pods", 2, 60)]},
        "scaleDown": {"stabilizationWindowSeconds": 0, "policies": [policy("Percent", 100, 15)]},
    });
    let mut scaler = Scaler::new(behavior, 10);
    assert_eq!(scaler.after(15, 5).replicas, 5);
    // The period started with 10.
    assert_eq!(scaler.after(15, 20).replicas, 12);
}

#[test]
fn a_window_for_scaling_up_applies_the_lowest_recommendation() {
    let behavior = json!({"scaleUp": {"stabilizationWindowSeconds": 60, "policies": [policy("Percent", 1000, 15)]},
        "scaleDown": {"stabilizationWindowSeconds": 60, "policies": [policy("Percent", 100, 15)]}});
    let mut scaler = Scaler::new(behavior, 5);
    for (desired, expected) in [(8, 5), (9, 5), (7, 5)] {
        let normalized = scaler.after(15, desired);
        assert_eq!(
            (normalized.replicas, normalized.stabilization),
            (expected, Stabilization::Up),
            "{desired}"
        );
    }
    // The first of them, 5 at the start, is a minute old.
    assert_eq!(scaler.after(15, 9).replicas, 7);
    // A short dip does not scale down.
    let dip = scaler.after(15, 2);
    assert_eq!((dip.replicas, dip.stabilization), (7, Stabilization::Down));
}

#[test]
fn reasons_are_the_stock_ones() {
    let limits = [Limit::None, Limit::ScaleUpRate, Limit::ScaleDownRate, Limit::Maximum, Limit::Minimum];
    let expected =
        ["DesiredWithinRange", "ScaleUpLimit", "ScaleDownLimit", "TooManyReplicas", "TooFewReplicas"];
    assert_eq!(limits.map(|limit| limit.reason().0), expected);
    let all = [Stabilization::None, Stabilization::Up, Stabilization::Down];
    assert_eq!(
        all.map(|one| one.reason().0),
        ["ReadyForNewScale", "ScaleUpStabilized", "ScaleDownStabilized"]
    );
}
