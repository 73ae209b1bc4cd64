//! How many pods of a budget may be disrupted. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use api::time::seconds;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::controllers::client::Json;
use crate::controllers::object::{Object, at, text};

/// How long a pod whose eviction was allowed may take to be seen going; the stock controller's.
const NOTED: Duration = Duration::from_secs(2 * 60);
/// The condition of a budget.
const ALLOWED: &str = "DisruptionAllowed";

/// What a budget asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// So many healthy pods.
    Healthy(i64),
    /// So many of a hundred healthy.
    HealthyPercent(i64),
    /// At most so many that are not.
    Missing(i64),
    /// At most so many of a hundred that are not.
    MissingPercent(i64),
    /// Nothing.
    Nothing,
}

impl Wanted {
    /// That of a budget.
    pub fn of(budget: &Json) -> Self {
        let spec = |field: &str| at(budget, &format!("/spec/{field}"));
        let percent = |value: &Value| value.as_str().and_then(|text| text.strip_suffix('%')?.parse().ok());
        match (spec("maxUnavailable"), spec("minAvailable")) {
            (Some(most), _) => match (most.as_i64(), percent(most)) {
                (Some(most), _) => Self::Missing(most),
                (None, Some(share)) => Self::MissingPercent(share),
                (None, None) => Self::Nothing,
            },
            (None, Some(least)) => match (least.as_i64(), percent(least)) {
                (Some(least), _) => Self::Healthy(least),
                (None, Some(share)) => Self::HealthyPercent(share),
                (None, None) => Self::Nothing,
            },
            (None, None) => Self::Nothing,
        }
    }

    /// Whether it has to be known how many pods there are to be.
    pub fn is_of_scale(self) -> bool {
        !matches!(self, Self::Healthy(_) | Self::Nothing)
    }

    /// How many have to be healthy of so many that are to be.
    fn healthy(self, expected: i64) -> i64 {
        let share = |percent: i64| {
            (expected * percent).max(0).div_euclid(100) + i64::from((expected * percent).rem_euclid(100) > 0)
        };
        match self {
            Self::Healthy(least) => least,
            Self::HealthyPercent(percent) => share(percent),
            Self::Missing(most) => (expected - most).max(0),
            Self::MissingPercent(percent) => (expected - share(percent)).max(0),
            Self::Nothing => 0,
        }
    }
}

/// The status of a budget over these pods, of which so many are to be; and when to look again though nothing changes.
pub fn status(budget: &Json, pods: &[&Object], expected: i64, now: Timestamp) -> (Value, Option<Duration>) {
    let (noted, again) = noted(budget, pods, now);
    let is_healthy = |pod: &&&Object| pod.is_ready && !pod.is_ending && !noted.contains_key(&pod.name);
    let healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let wanted = Wanted::of(budget).healthy(expected);
    let allowed = if expected > 0 { (healthy - wanted).max(0) } else { 0 };
    let (status, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let generation = at(budget, "/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    let mut found = json!({
        "conditions": conditions(budget, (status, reason, ""), generation, now),
        "currentHealthy": healthy, "desiredHealthy": wanted, "disruptionsAllowed": allowed,
        "expectedPods": expected, "observedGeneration": generation,
    });
    if !noted.is_empty() {
        found["disruptedPods"] = noted.into();
    }
    (found, again)
}

/// The status of a budget of which nothing can be told for that reason: none may be disrupted.
pub fn failed(budget: &Json, why: &str, now: Timestamp) -> Value {
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

/// Whether a status says the same as that of a budget.
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

/// Pods whose eviction was allowed and that are not seen going yet.
fn noted(budget: &Json, pods: &[&Object], now: Timestamp) -> (Map<String, Value>, Option<Duration>) {
    let (mut kept, mut again) = (Map::new(), None::<Duration>);
    let before = at(budget, "/status/disruptedPods").and_then(Value::as_object);
    for pod in pods.iter().filter(|pod| !pod.is_ending) {
        let Some(time) = before.and_then(|before| before.get(&pod.name)) else { continue };
        let Ok(allowed) = text(Some(time)).parse::<Timestamp>() else { continue };
        let over =
            SignedDuration::try_from(NOTED).unwrap_or(SignedDuration::ZERO) - now.duration_since(allowed);
        if let Ok(left) = Duration::try_from(over) {
            kept.insert(pod.name.clone(), time.clone());
            // Once it is over, not just before.
            let left = left + Duration::from_secs(1);
            again = Some(again.map_or(left, |again| again.min(left)));
        }
    }
    (kept, again)
}

/// The conditions of a budget, the one that is ours like that.
fn conditions(
    budget: &Json,
    (status, reason, message): (&str, &str, &str),
    generation: i64,
    now: Timestamp,
) -> Vec<Value> {
    let mut all = at(budget, "/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_ours = |one: &Value| one.get("type").and_then(Value::as_str) == Some(ALLOWED);
    let since =
        all.iter().find(|one| is_ours(one) && one.get("status").and_then(Value::as_str) == Some(status));
    let since = since.map(|one| text(one.get("lastTransitionTime"))).unwrap_or_else(|| seconds(now));
    let ours = json!({
        "type": ALLOWED, "status": status, "reason": reason, "message": message,
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
    //! Budgets and pods.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use proptest::prelude::*;

    use super::*;

    fn budget(spec: Value, status: Value) -> Json {
        json!({"metadata": {"name": "b", "generation": 3}, "spec": spec, "status": status})
            .as_object()
            .unwrap()
            .clone()
    }

    fn pod(name: &str, is_ready: bool, is_ending: bool) -> Object {
        Object { name: name.to_owned(), is_ready, is_ending, ..Object::default() }
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
            // Ten are to be and four are there.
            (json!({"maxUnavailable": 1}), &ready, 10, 0, 9),
            // Bare pods with a share: nobody knows how many there are to be.
            (json!({"maxUnavailable": 1}), &ready, 0, 0, 0),
            (json!({"minAvailable": 1}), &some, 3, 0, 1),
            (json!({"maxUnavailable": 3}), &some, 3, 1, 0),
        ] {
            let pods: Vec<&Object> = pods.iter().collect();
            let (found, _) = status(&budget(spec.clone(), Value::Null), &pods, expected, now());
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
        let noted = json!({"a": "2026-01-01T00:09:30Z", "b": "2026-01-01T00:05:00Z", "c": "2026-01-01T00:09:59Z", "gone": "2026-01-01T00:09:59Z"});
        let (found, again) =
            status(&budget(json!({"minAvailable": 1}), json!({"disruptedPods": noted})), &pods, 3, now());
        assert_eq!(found["disruptedPods"], json!({"a": "2026-01-01T00:09:30Z"}));
        assert_eq!((&found["currentHealthy"], &found["disruptionsAllowed"]), (&json!(1), &json!(0)));
        assert_eq!(again, Some(Duration::from_secs(91)));
    }

    #[test]
    fn a_status_is_written_once_and_a_failure_lets_nobody_go() {
        let pods = [pod("a", true, false)];
        let pods: Vec<&Object> = pods.iter().collect();
        let fresh = budget(json!({"minAvailable": 1}), Value::Null);
        let (found, _) = status(&fresh, &pods, 1, now());
        assert!(!is_written(&fresh, &found));
        let mut known = fresh;
        known.insert("status".to_owned(), found);
        let later = "2026-01-01T01:00:00Z".parse().unwrap();
        assert!(is_written(&known, &status(&known, &pods, 1, later).0));
        known["status"]["disruptionsAllowed"] = 1.into();
        let failed = failed(&known, "found no controllers for pod \"a\"", later);
        assert_eq!(
            (&failed["disruptionsAllowed"], &failed["conditions"][0]["reason"]),
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
            let (found, _) = status(&budget(json!({"minAvailable": wanted}), Value::Null), &pods, expected, now());
            let number = |field: &str| found[field].as_i64().unwrap();
            let allowed = number("disruptionsAllowed");
            prop_assert!(allowed >= 0 && (allowed == 0 || number("currentHealthy") - allowed >= number("desiredHealthy")));
            if is_share {
                prop_assert!(number("desiredHealthy") * 100 >= expected * least * 14);
            }
        }
    }
}
