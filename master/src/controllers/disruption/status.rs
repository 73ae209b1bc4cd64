//! Computes the status of a PodDisruptionBudget. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use api::time::seconds;
use client::Json;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::controllers::object::{Object, at, text};

/// How long an evicted pod may stay in `disruptedPods` before its deletion is observed; the stock timeout.
const DISRUPTED_POD_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// The condition type of budgets.
const CONDITION: &str = "DisruptionAllowed";

/// The target in a budget's spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetTarget {
    /// `minAvailable` as a number.
    MinAvailable(i64),
    /// `minAvailable` as a percentage.
    MinAvailablePercent(i64),
    /// `maxUnavailable` as a number.
    MaxUnavailable(i64),
    /// `maxUnavailable` as a percentage.
    MaxUnavailablePercent(i64),
    /// Neither field is set, or the value is invalid.
    None,
}

impl BudgetTarget {
    /// Reads the target of a budget.
    pub fn of(budget: &Json) -> Self {
        let spec = |field: &str| at(budget, &format!("/spec/{field}"));
        let percent = |value: &Value| value.as_str().and_then(|text| text.strip_suffix('%')?.parse().ok());
        match (spec("maxUnavailable"), spec("minAvailable")) {
            (Some(most), _) => match (most.as_i64(), percent(most)) {
                (Some(most), _) => Self::MaxUnavailable(most),
                (None, Some(share)) => Self::MaxUnavailablePercent(share),
                (None, None) => Self::None,
            },
            (None, Some(least)) => match (least.as_i64(), percent(least)) {
                (Some(least), _) => Self::MinAvailable(least),
                (None, Some(share)) => Self::MinAvailablePercent(share),
                (None, None) => Self::None,
            },
            (None, None) => Self::None,
        }
    }

    /// Whether the target depends on the scale of the pods' owners.
    pub fn needs_scale(self) -> bool {
        !matches!(self, Self::MinAvailable(_) | Self::None)
    }

    /// The number of pods that must be healthy out of `expected`.
    fn desired_healthy(self, expected: i64) -> i64 {
        let share = |percent: i64| {
            (expected * percent).max(0).div_euclid(100) + i64::from((expected * percent).rem_euclid(100) > 0)
        };
        match self {
            Self::MinAvailable(least) => least,
            Self::MinAvailablePercent(percent) => share(percent),
            Self::MaxUnavailable(most) => (expected - most).max(0),
            Self::MaxUnavailablePercent(percent) => (expected - share(percent)).max(0),
            Self::None => 0,
        }
    }
}

/// The status of a budget over these pods; and when to compute it again without a change.
pub fn healthy_status(
    budget: &Json,
    pods: &[&Object],
    expected: i64,
    now: Timestamp,
) -> (Value, Option<Duration>) {
    let (disrupted_pods, again) = disrupted_pods(budget, pods, now);
    let is_healthy =
        |pod: &&&Object| pod.is_ready && !pod.is_terminating && !disrupted_pods.contains_key(&pod.name);
    let healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let wanted = BudgetTarget::of(budget).desired_healthy(expected);
    let allowed = if expected > 0 { (healthy - wanted).max(0) } else { 0 };
    let (status, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let generation = at(budget, "/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    let mut found = json!({
        "conditions": conditions(budget, (status, reason, ""), generation, now),
        "currentHealthy": healthy, "desiredHealthy": wanted, "disruptionsAllowed": allowed,
        "expectedPods": expected, "observedGeneration": generation,
    });
    if !disrupted_pods.is_empty() {
        found["disruptedPods"] = disrupted_pods.into();
    }
    (found, again)
}

/// The status of a budget that could not be computed: no disruption is allowed.
pub fn failed_status(budget: &Json, why: &str, now: Timestamp) -> Value {
    let generation = at(budget, "/status/observedGeneration").and_then(Value::as_i64).unwrap_or_default();
    let mut status = at(budget, "/status").cloned().unwrap_or_else(|| json!({}));
    status["disruptionsAllowed"] = 0.into();
    for count in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        if status.get(count).is_none() {
            status[count] = 0.into();
        }
    }
    status["conditions"] = conditions(budget, ("False", "SyncFailed", why), generation, now).into();
    status
}

/// Whether a budget already has this status.
pub fn is_written(budget: &Json, status: &Value) -> bool {
    let empty = Map::new();
    let of = |status: Option<&Value>| -> BTreeMap<String, Value> {
        let fields = status.and_then(Value::as_object).unwrap_or(&empty);
        fields
            .iter()
            .filter(|(_, value)| !is_nothing(value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    of(budget.get("status")) == of(Some(status))
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || *value == 0 || value.as_object().is_some_and(Map::is_empty)
}

/// Evicted pods whose deletion was not observed yet, and when the first entry expires.
fn disrupted_pods(budget: &Json, pods: &[&Object], now: Timestamp) -> (Map<String, Value>, Option<Duration>) {
    let (mut kept, mut again) = (Map::new(), None::<Duration>);
    let before = at(budget, "/status/disruptedPods").and_then(Value::as_object);
    for pod in pods.iter().filter(|pod| !pod.is_terminating) {
        let Some(time) = before.and_then(|before| before.get(&pod.name)) else { continue };
        let Ok(allowed) = text(Some(time)).parse::<Timestamp>() else { continue };
        let over = SignedDuration::try_from(DISRUPTED_POD_TIMEOUT).unwrap_or(SignedDuration::ZERO)
            - now.duration_since(allowed);
        if let Ok(left) = Duration::try_from(over) {
            kept.insert(pod.name.clone(), time.clone());
            // One second more, so that the entry has expired then.
            let left = left + Duration::from_secs(1);
            again = Some(again.map_or(left, |again| again.min(left)));
        }
    }
    (kept, again)
}

/// The conditions of a budget, with the `DisruptionAllowed` condition set.
fn conditions(
    budget: &Json,
    (status, reason, message): (&str, &str, &str),
    generation: i64,
    now: Timestamp,
) -> Vec<Value> {
    let mut all = at(budget, "/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_ours = |one: &Value| one.get("type").and_then(Value::as_str) == Some(CONDITION);
    let since =
        all.iter().find(|one| is_ours(one) && one.get("status").and_then(Value::as_str) == Some(status));
    let since = since.map(|one| text(one.get("lastTransitionTime"))).unwrap_or_else(|| seconds(now));
    let ours = json!({
        "type": CONDITION, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": since, "observedGeneration": generation,
    });
    match all.iter_mut().find(|one| is_ours(one)) {
        Some(found) => *found = ours,
        None => all.push(ours),
    }
    all
}

#[cfg(test)]
mod tests {
    //! Status of budgets.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn budget(spec: Value, status: Value) -> Json {
        json!({"metadata": {"name": "b", "generation": 3}, "spec": spec, "status": status})
            .as_object()
            .unwrap()
            .clone()
    }

    fn pod(name: &str, is_ready: bool, is_terminating: bool) -> Object {
        Object { name: name.to_owned(), is_ready, is_terminating, ..Object::default() }
    }

    fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    #[test]
    fn so_many_may_go() {
        let ready: Vec<Object> = ["a", "b", "c", "d"].map(|name| pod(name, true, false)).into();
        let none: Vec<Object> = Vec::new();
        let some: Vec<Object> = vec![pod("a", true, false), pod("b", false, false), pod("c", true, true)];
        for (spec, pods, expected, allowed, wanted) in [
            (json!({"minAvailable": 3}), &ready, 4, 1, 3),
            (json!({"minAvailable": 5}), &ready, 4, 0, 5),
            (json!({"minAvailable": 0}), &none, 0, 0, 0),
            (json!({"minAvailable": "50%"}), &ready, 4, 2, 2),
            (json!({"minAvailable": "51%"}), &ready, 4, 1, 3),
            (json!({"maxUnavailable": 1}), &ready, 4, 1, 3),
            (json!({"maxUnavailable": 9}), &ready, 4, 4, 0),
            (json!({"maxUnavailable": "26%"}), &ready, 4, 2, 2),
            (json!({"maxUnavailable": 0}), &ready, 4, 0, 4),
            // Ten pods are expected and four exist.
            (json!({"maxUnavailable": 1}), &ready, 10, 0, 9),
            // The expected number of pods without a controller is unknown.
            (json!({"maxUnavailable": 1}), &ready, 0, 0, 0),
            (json!({"minAvailable": 1}), &some, 3, 0, 1),
            (json!({"maxUnavailable": 3}), &some, 3, 1, 0),
        ] {
            let pods: Vec<&Object> = pods.iter().collect();
            let (found, _) = healthy_status(&budget(spec.clone(), Value::Null), &pods, expected, now());
            assert_eq!(
                (&found["disruptionsAllowed"], &found["desiredHealthy"]),
                (&json!(allowed), &json!(wanted)),
                "{spec}"
            );
            let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
            assert_eq!(found["conditions"][0]["reason"], reason);
            assert_eq!(found["observedGeneration"], 3);
        }
    }

    #[test]
    fn a_pod_whose_eviction_was_allowed_counts_as_gone_for_a_while() {
        let pods = [pod("a", true, false), pod("b", true, false), pod("c", true, true)];
        let pods: Vec<&Object> = pods.iter().collect();
        let disrupted_pods = json!({"a": "2026-01-01T00:09:30Z", "b": "2026-01-01T00:05:00Z", "c": "2026-01-01T00:09:59Z", "gone": "2026-01-01T00:09:59Z"});
        let (found, again) = healthy_status(
            &budget(json!({"minAvailable": 1}), json!({"disruptedPods": disrupted_pods})),
            &pods,
            3,
            now(),
        );
        assert_eq!(found["disruptedPods"], json!({"a": "2026-01-01T00:09:30Z"}));
        assert_eq!((&found["currentHealthy"], &found["disruptionsAllowed"]), (&json!(1), &json!(0)));
        assert_eq!(again, Some(Duration::from_secs(91)));
    }

    #[test]
    fn a_status_is_written_once_and_a_failure_lets_nobody_go() {
        let pods = [pod("a", true, false)];
        let pods: Vec<&Object> = pods.iter().collect();
        let fresh = budget(json!({"minAvailable": 1}), Value::Null);
        let (found, _) = healthy_status(&fresh, &pods, 1, now());
        assert!(!is_written(&fresh, &found));
        let mut known = fresh;
        known.insert("status".to_owned(), found);
        let later = "2026-01-01T01:00:00Z".parse().unwrap();
        assert!(is_written(&known, &healthy_status(&known, &pods, 1, later).0));
        known["status"]["disruptionsAllowed"] = 1.into();
        let failed_status = failed_status(&known, "found no controllers for pod \"a\"", later);
        assert_eq!(
            (&failed_status["disruptionsAllowed"], &failed_status["conditions"][0]["reason"]),
            (&json!(0), &json!("SyncFailed"))
        );
    }

    proptest! {
        #[test]
        fn nobody_goes_who_is_needed(least in 0_i64..8, is_share in any::<bool>(), ready in prop::collection::vec(any::<bool>(), 0..8), more in 0_i64..3) {
            let pods: Vec<Object> = ready.iter().enumerate().map(|(n, ready)| pod(&n.to_string(), *ready, false)).collect();
            let pods: Vec<&Object> = pods.iter().collect();
            let wanted = if is_share { json!(format!("{}%", least * 14)) } else { json!(least) };
            let expected = pods.len() as i64 + more;
            let (found, _) = healthy_status(&budget(json!({"minAvailable": wanted}), Value::Null), &pods, expected, now());
            let number = |field: &str| found[field].as_i64().unwrap();
            let allowed = number("disruptionsAllowed");
            prop_assert!(allowed >= 0 && (allowed == 0 || number("currentHealthy") - allowed >= number("desiredHealthy")));
            if is_share {
                prop_assert!(number("desiredHealthy") * 100 >= expected * least * 14);
            }
        }
    }
}
