//! The limits of scaling: minimum and maximum, the policies of `spec.behavior`, and stabilization. Pure.

use std::time::{Duration, Instant};

use crate::objects::List;
use crate::objects::autoscaling::{Behavior, PolicyType, ScalingPolicy, ScalingRules, SelectPolicy};

/// How long the highest recommendation prevents scaling down if the autoscaler sets no window, as in stock Kubernetes.
const DOWNSCALE_STABILIZATION: Duration = Duration::from_secs(300);
/// The longest stabilization window that the API permits. Older recommendations are forgotten.
const LONGEST_WINDOW: Duration = Duration::from_secs(3600);
/// The longest period of a policy that the API permits. Older changes are forgotten.
const LONGEST_PERIOD: Duration = Duration::from_secs(1800);
/// Without `behavior`, one step at most doubles the replicas, or reaches this number, as in stock Kubernetes.
const SCALE_UP_MINIMUM: i64 = 4;

/// The recent recommendations and changes of one autoscaler.
#[derive(Clone, Debug)]
pub struct History {
    /// Recommendations before limits and stabilization. There is one per synchronization.
    recommendations: Vec<(Instant, i64)>,
    /// Numbers of added replicas.
    added: Vec<(Instant, i64)>,
    /// Numbers of removed replicas.
    removed: Vec<(Instant, i64)>,
}

impl History {
    /// Starts a history. The current replicas count as a recommendation, so that a restart of the controller does not
    /// scale down at once.
    pub fn new(current: i64, now: Instant) -> Self {
        Self { recommendations: vec![(now, current)], added: Vec::new(), removed: Vec::new() }
    }

    /// Records a change of the replicas.
    pub fn record_change(&mut self, from: i64, to: i64, now: Instant) {
        let (changes, count) =
            if to > from { (&mut self.added, to - from) } else { (&mut self.removed, from - to) };
        changes.retain(|(at, _)| is_since(*at, LONGEST_PERIOD, now));
        changes.push((now, count));
    }

    fn recommended_within(&self, window: Duration, now: Instant) -> impl Iterator<Item = i64> {
        let recent = self.recommendations.iter().filter(move |(at, _)| is_since(*at, window, now));
        recent.map(|(_, replicas)| *replicas)
    }

    fn record_recommendation(&mut self, replicas: i64, now: Instant) {
        self.recommendations.retain(|(at, _)| is_since(*at, LONGEST_WINDOW, now));
        self.recommendations.push((now, replicas));
    }

    /// Returns the replicas at the start of a period that ends now.
    fn at_start(&self, current: i64, policy: &ScalingPolicy, now: Instant) -> i64 {
        let period = seconds(policy.period_seconds);
        let sum = |changes: &[(Instant, i64)]| -> i64 {
            changes.iter().filter(|(at, _)| is_since(*at, period, now)).map(|(_, count)| count).sum()
        };
        current - sum(&self.added) + sum(&self.removed)
    }
}

/// The input of [`normalize`].
#[derive(Clone, Copy, Debug)]
pub struct Recommendation<'a> {
    pub behavior: Option<&'a Behavior>,
    pub min: i64,
    pub max: i64,
    pub current: i64,
    /// The replicas that the metrics recommend.
    pub desired: i64,
}

/// The replicas within all limits, and what limited them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normalized {
    pub replicas: i64,
    pub stabilization: Stabilization,
    pub limit: Limit,
}

/// Whether an earlier recommendation replaced the present one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stabilization {
    None,
    /// A lower one of the scale-up window.
    Up,
    /// A higher one of the scale-down window.
    Down,
}

/// What limited the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    None,
    ScaleUpRate,
    ScaleDownRate,
    Maximum,
    Minimum,
}

impl Stabilization {
    /// Reason and message of the condition `AbleToScale`.
    pub fn reason(self) -> (&'static str, &'static str) {
        match self {
            Self::None => ("ReadyForNewScale", "recommended size matches current size"),
            Self::Up => (
                "ScaleUpStabilized",
                "recent recommendations were lower than current one, applying the lowest recent recommendation",
            ),
            Self::Down => (
                "ScaleDownStabilized",
                "recent recommendations were higher than current one, applying the highest recent recommendation",
            ),
        }
    }
}

impl Limit {
    /// Reason and message of the condition `ScalingLimited`.
    pub fn reason(self) -> (&'static str, &'static str) {
        match self {
            Self::None => ("DesiredWithinRange", "the desired count is within the acceptable range"),
            Self::ScaleUpRate => {
                ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
            }
            Self::ScaleDownRate => (
                "ScaleDownLimit",
                "the desired replica count is decreasing faster than the maximum scale rate",
            ),
            Self::Maximum => {
                ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
            }
            Self::Minimum => {
                ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
            }
        }
    }
}

/// Applies stabilization, policies, minimum and maximum to a recommendation, and records it.
pub fn normalize(of: Recommendation<'_>, history: &mut History, now: Instant) -> Normalized {
    let (stabilized, replicas, limit) = match of.behavior {
        None => {
            let highest = history.recommended_within(DOWNSCALE_STABILIZATION, now).max();
            let stabilized = highest.map_or(of.desired, |highest| highest.max(of.desired));
            let (replicas, limit) = limit_without_behavior(of, stabilized);
            (stabilized, replicas, limit)
        }
        Some(behavior) => {
            let (up, down) = (Rules::of(behavior.scale_up.as_ref()), Rules::of(behavior.scale_down.as_ref()));
            let stabilized =
                stabilize(of, up.window(Duration::ZERO), down.window(DOWNSCALE_STABILIZATION), history, now);
            let (replicas, limit) = limit_by_policies(of, stabilized, (&up, &down), history, now);
            (stabilized, replicas, limit)
        }
    };
    history.record_recommendation(of.desired, now);
    let stabilization = match of.behavior {
        _ if stabilized == of.desired => Stabilization::None,
        Some(_) if of.desired >= of.current => Stabilization::Up,
        Some(_) | None => Stabilization::Down,
    };
    Normalized { replicas, stabilization, limit }
}

/// Returns the value nearest to the current replicas between the lowest recommendation of the window for scaling up and
/// the highest one of the window for scaling down.
fn stabilize(of: Recommendation<'_>, up: Duration, down: Duration, history: &History, now: Instant) -> i64 {
    let lowest = history.recommended_within(up, now).fold(of.desired, i64::min);
    let highest = history.recommended_within(down, now).fold(of.desired, i64::max);
    of.current.max(lowest).min(highest)
}

fn limit_without_behavior(of: Recommendation<'_>, desired: i64) -> (i64, Limit) {
    let fastest = of.current.saturating_mul(2).max(SCALE_UP_MINIMUM);
    if desired < of.min {
        (of.min, Limit::Minimum)
    } else if desired > of.max.min(fastest) {
        if of.max > fastest { (fastest, Limit::ScaleUpRate) } else { (of.max, Limit::Maximum) }
    } else {
        (desired, Limit::None)
    }
}

fn limit_by_policies(
    of: Recommendation<'_>,
    desired: i64,
    (up, down): (&Rules, &Rules),
    history: &History,
    now: Instant,
) -> (i64, Limit) {
    if desired > of.current {
        let fastest = up.highest(of.current, history, now).max(of.current);
        let (most, limit) =
            if of.max > fastest { (fastest, Limit::ScaleUpRate) } else { (of.max, Limit::Maximum) };
        if desired > most { (most, limit) } else { (desired, Limit::None) }
    } else if desired < of.current {
        let fastest = down.lowest(of.current, history, now).min(of.current);
        let (least, limit) =
            if of.min < fastest { (fastest, Limit::ScaleDownRate) } else { (of.min, Limit::Minimum) };
        if desired < least { (least, limit) } else { (desired, Limit::None) }
    } else {
        (desired, Limit::None)
    }
}

/// The rules of one direction.
struct Rules {
    window: Option<Duration>,
    select: SelectPolicy,
    policies: List<ScalingPolicy>,
}

impl Rules {
    fn of(rules: Option<&ScalingRules>) -> Self {
        let rules = rules.cloned().unwrap_or_default();
        Self {
            window: rules.stabilization_window_seconds.map(seconds),
            select: rules.select_policy,
            policies: rules.policies,
        }
    }

    fn window(&self, default: Duration) -> Duration {
        self.window.unwrap_or(default)
    }

    /// Returns the highest number of replicas that the policies permit now.
    fn highest(&self, current: i64, history: &History, now: Instant) -> i64 {
        let permitted = self.policies.iter().map(|policy| {
            let start = history.at_start(current, policy, now);
            match policy.r#type {
                PolicyType::Pods => start.saturating_add(policy.value),
                // Rounded up, so that every percentage permits some growth.
                PolicyType::Percent => {
                    (start.saturating_mul(100 + policy.value)).saturating_add(99).div_euclid(100)
                }
            }
        });
        match self.select {
            SelectPolicy::Disabled => current,
            SelectPolicy::Min => permitted.min().unwrap_or(i64::MAX),
            SelectPolicy::Max => permitted.max().unwrap_or(i64::MAX),
        }
    }

    /// Returns the lowest number of replicas that the policies permit now.
    fn lowest(&self, current: i64, history: &History, now: Instant) -> i64 {
        let permitted = self.policies.iter().map(|policy| {
            let start = history.at_start(current, policy, now);
            match policy.r#type {
                PolicyType::Pods => start.saturating_sub(policy.value),
                PolicyType::Percent => start.saturating_mul(100 - policy.value).div_euclid(100),
            }
        });
        match self.select {
            SelectPolicy::Disabled => current,
            SelectPolicy::Min => permitted.max().unwrap_or(i64::MIN),
            SelectPolicy::Max => permitted.min().unwrap_or(i64::MIN),
        }
    }
}

/// Whether a time is less than `window` ago.
fn is_since(at: Instant, window: Duration, now: Instant) -> bool {
    now.saturating_duration_since(at) < window
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}
