//! Computes the status of a PodDisruptionBudget. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use api::time::seconds;
use client::Json;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::controllers::object::{Object, Source as _};
use crate::objects::IntOrString;
use crate::objects::workload::{PodDisruptionBudget, PodDisruptionBudgetSpec};

/// How long an evicted pod may stay in `disruptedPods` before its deletion is observed, as in stock Kubernetes.
const DISRUPTED_POD_TIMEOUT: Duration = Duration::from_secs(2 * 60);
/// The condition type of budgets.
const CONDITION: &str = "DisruptionAllowed";

/// A budget as the API server sent it, and the fields from which its status is computed.
#[derive(Debug)]
pub struct Budget {
    /// The object to write back.
    pub json: Json,
    pub fields: PodDisruptionBudget,
}

impl Budget {
    /// Reads the fields of a budget.
    ///
    /// # Errors
    /// If a field has another type.
    pub fn read(json: Json) -> Result<Self, serde_json::Error> {
        Ok(Self { fields: json.read()?, json })
    }
}

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
    pub fn of(spec: &PodDisruptionBudgetSpec) -> Self {
        let percent = |text: &str| text.strip_suffix('%').and_then(|percent| percent.parse().ok());
        match (&spec.max_unavailable, &spec.min_available) {
            (Some(IntOrString::Int(most)), _) => Self::MaxUnavailable(*most),
            (Some(IntOrString::String(most)), _) => {
                percent(most).map_or(Self::None, Self::MaxUnavailablePercent)
            }
            (None, Some(IntOrString::Int(least))) => Self::MinAvailable(*least),
            (None, Some(IntOrString::String(least))) => {
                percent(least).map_or(Self::None, Self::MinAvailablePercent)
            }
            (None, None) => Self::None,
        }
    }

    /// Whether the target depends on the scale of the pods' owners.
    pub fn needs_scale(self) -> bool {
        !matches!(self, Self::MinAvailable(_) | Self::None)
    }

    /// Returns the number of pods that must be healthy out of `expected`.
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

/// Returns the status of a budget over the pods, and when to compute it again without a change.
pub fn healthy_status(
    budget: &Budget,
    pods: &[&Object],
    expected: i64,
    now: Timestamp,
) -> (Value, Option<Duration>) {
    let (disrupted_pods, again) = disrupted_pods(budget, pods, now);
    let is_healthy =
        |pod: &&&Object| pod.pod().is_ready && !pod.is_terminating && !disrupted_pods.contains_key(&pod.name);
    let healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let wanted = BudgetTarget::of(&budget.fields.spec).desired_healthy(expected);
    let allowed = if expected > 0 { (healthy - wanted).max(0) } else { 0 };
    let (status, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let generation = budget.fields.metadata.generation;
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

/// Returns the status of a budget that could not be computed. No disruption is allowed.
pub fn failed_status(budget: &Budget, why: &str, now: Timestamp) -> Value {
    let generation = budget.fields.status.observed_generation;
    let mut status = budget.json.get("status").cloned().unwrap_or_else(|| json!({}));
    status["disruptionsAllowed"] = 0.into();
    for count in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        if status.get(count).is_none() {
            status[count] = 0.into();
        }
    }
    status["conditions"] = conditions(budget, ("False", "SyncFailed", why), generation, now).into();
    status
}

/// Whether a budget already has the status.
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

/// Returns the evicted pods whose deletion was not observed yet, and when the first entry expires.
fn disrupted_pods(
    budget: &Budget,
    pods: &[&Object],
    now: Timestamp,
) -> (Map<String, Value>, Option<Duration>) {
    let (mut kept, mut again) = (Map::new(), None::<Duration>);
    for pod in pods.iter().filter(|pod| !pod.is_terminating) {
        let Some(time) = budget.fields.status.disrupted_pods.get(&pod.name) else { continue };
        let Ok(allowed) = time.parse::<Timestamp>() else { continue };
        let over = SignedDuration::try_from(DISRUPTED_POD_TIMEOUT).unwrap_or(SignedDuration::ZERO)
            - now.duration_since(allowed);
        if let Ok(left) = Duration::try_from(over) {
            kept.insert(pod.name.clone(), time.into());
            // One second more, so that the entry has expired then.
            let left = left + Duration::from_secs(1);
            again = Some(again.map_or(left, |again| again.min(left)));
        }
    }
    (kept, again)
}

/// Returns the conditions of a budget, with the condition `DisruptionAllowed` set.
fn conditions(
    budget: &Budget,
    (status, reason, message): (&str, &str, &str),
    generation: i64,
    now: Timestamp,
) -> Vec<Value> {
    let known = budget.fields.status.conditions.of_type(CONDITION).filter(|one| &*one.status == status);
    let since = known.and_then(|one| one.last_transition_time).unwrap_or(now);
    let ours = json!({
        "type": CONDITION, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": seconds(since), "observedGeneration": generation,
    });
    // Conditions of other components stay as they are.
    let all = budget.json.get("status").and_then(|status| status.get("conditions")?.as_array());
    let mut all = all.cloned().unwrap_or_default();
    match all.iter_mut().find(|one| one["type"] == CONDITION) {
        Some(found) => *found = ours,
        None => all.push(ours),
    }
    all
}

#[cfg(test)]
mod tests {
    //! Tests of status of budgets.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use proptest::prelude::*;

    use super::*;
    use crate::controllers::fields::{Fields, PodFields};

    fn budget(spec: &Value, status: Value) -> Budget {
        let budget = json!({"metadata": {"name": "b", "generation": 3}, "spec": spec, "status": status});
        Budget::read(budget.as_object().unwrap().clone()).unwrap()
    }

    fn pod(name: &str, is_ready: bool, is_terminating: bool) -> Object {
        let fields = Fields::Pod(PodFields { is_ready, ..PodFields::default() });
        Object { name: name.to_owned(), is_terminating, fields, ..Object::default() }
    }

    fn now() -> Timestamp {
        "2026-01-01T00:10:00Z".parse().unwrap()
    }

    #[test]
    fn allowed_disruptions_follow_from_target_and_healthy_pods() {
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
            let (found, _) = healthy_status(&budget(&spec, json!({})), &pods, expected, now());
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
    fn an_evicted_pod_is_unhealthy_until_it_is_deleted_or_times_out() {
        let pods = [pod("a", true, false), pod("b", true, false), pod("c", true, true)];
        let pods: Vec<&Object> = pods.iter().collect();
        let disrupted_pods = json!({"a": "2026-01-01T00:09:30Z", "b": "2026-01-01T00:05:00Z", "c": "2026-01-01T00:09:59Z", "gone": "2026-01-01T00:09:59Z"});
        let (found, again) = healthy_status(
            &budget(&json!({"minAvailable": 1}), json!({"disruptedPods": disrupted_pods})),
            &pods,
            3,
            now(),
        );
        assert_eq!(found["disruptedPods"], json!({"a": "2026-01-01T00:09:30Z"}));
        assert_eq!((&found["currentHealthy"], &found["disruptionsAllowed"]), (&json!(1), &json!(0)));
        assert_eq!(again, Some(Duration::from_secs(91)));
    }

    #[test]
    fn a_status_is_written_once_and_a_failure_allows_no_disruption() {
        let pods = [pod("a", true, false)];
        let pods: Vec<&Object> = pods.iter().collect();
        let spec = json!({"minAvailable": 1});
        let fresh = budget(&spec, json!({}));
        let (mut found, _) = healthy_status(&fresh, &pods, 1, now());
        assert!(!is_written(&fresh.json, &found));
        let known = budget(&spec, found.clone());
        let later = "2026-01-01T01:00:00Z".parse().unwrap();
        assert!(is_written(&known.json, &healthy_status(&known, &pods, 1, later).0));
        found["disruptionsAllowed"] = 1.into();
        let known = budget(&spec, found);
        let failed_status = failed_status(&known, "found no controllers for pod \"a\"", later);
        assert_eq!(
            (&failed_status["disruptionsAllowed"], &failed_status["conditions"][0]["reason"]),
            (&json!(0), &json!("SyncFailed"))
        );
    }

    proptest! {
        #[test]
        fn allowed_disruptions_leave_enough_healthy_pods(least in 0_i64..8, is_share in any::<bool>(), ready in prop::collection::vec(any::<bool>(), 0..8), more in 0_i64..3) {
            let pods: Vec<Object> = ready.iter().enumerate().map(|(n, ready)| pod(&n.to_string(), *ready, false)).collect();
            let pods: Vec<&Object> = pods.iter().collect();
            let wanted = if is_share { json!(format!("{}%", least * 14)) } else { json!(least) };
            let expected = pods.len() as i64 + more;
            let (found, _) = healthy_status(&budget(&json!({"minAvailable": wanted}), json!({})), &pods, expected, now());
            let number = |field: &str| found[field].as_i64().unwrap();
            let allowed = number("disruptionsAllowed");
            prop_assert!(allowed >= 0 && (allowed == 0 || number("currentHealthy") - allowed >= number("desiredHealthy")));
            if is_share {
                prop_assert!(number("desiredHealthy") * 100 >= expected * least * 14);
            }
        }
    }
}
