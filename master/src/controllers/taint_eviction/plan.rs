//! Computes how long a pod tolerates `NoExecute` taints. Pure.

use std::time::Duration;

use api::time::seconds;
use apiserver::auth::nodes::references::MIRROR;
use client::Json;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::node_lifecycle::NO_EXECUTE;
use crate::controllers::object::{at, condition, text};

/// The condition of a pod that the control plane terminates.
pub const DISRUPTION: &str = "DisruptionTarget";

/// How long a pod tolerates taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationPeriod {
    /// Without limit.
    Forever,
    /// For this time after the first taint was added.
    Limited(Duration),
}

/// How long a pod tolerates these `NoExecute` taints, given by key and value.
pub fn toleration_period(pod: &Json, taints: &[(String, String)]) -> TolerationPeriod {
    if taints.is_empty() || is_mirror(pod) {
        return TolerationPeriod::Forever;
    }
    let tolerations = at(pod, "/spec/tolerations").and_then(Value::as_array);
    let tolerations: Vec<&Value> = tolerations.into_iter().flatten().collect();
    let mut shortest = None::<Duration>;
    for taint in taints {
        let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return TolerationPeriod::Limited(Duration::ZERO);
        };
        // A negative value counts as zero.
        let seconds = toleration.get("tolerationSeconds").and_then(Value::as_i64);
        if let Some(seconds) = seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0)) {
            let bears_for = Duration::from_secs(seconds);
            shortest = Some(shortest.map_or(bears_for, |shortest| shortest.min(bears_for)));
        }
    }
    shortest.map_or(TolerationPeriod::Forever, TolerationPeriod::Limited)
}

/// The condition for an evicted pod; `None` if it is already set.
pub fn disruption_target(pod: &Json, now: Timestamp) -> Option<Value> {
    let (reason, message) = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
    let says = |field: &str| text(condition(pod, DISRUPTION).and_then(|found| found.get(field)));
    if (says("status"), says("reason"), says("message")) == ("True".into(), reason.into(), message.into()) {
        return None;
    }
    let since = if says("status") == "True" { says("lastTransitionTime") } else { seconds(now) };
    Some(json!({
        "type": DISRUPTION, "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": since, "lastProbeTime": null,
    }))
}

fn is_mirror(pod: &Json) -> bool {
    let annotations = at(pod, "/metadata/annotations");
    annotations.is_some_and(|annotations| annotations.get(MIRROR).is_some())
}

fn tolerates(toleration: &Value, (key, value): &(String, String)) -> bool {
    let says = |field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
    let any_value = says("operator") == "Exists";
    ["", NO_EXECUTE].contains(&says("effect"))
        && (says("key") == key || says("key").is_empty() && any_value)
        && (any_value || says("value") == value)
}

#[cfg(test)]
mod tests {
    //! Evictions by taints and tolerations.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn pod(tolerations: Value) -> Json {
        json!({"metadata": {}, "spec": {"tolerations": tolerations}}).as_object().unwrap().clone()
    }

    fn after(seconds: u64) -> TolerationPeriod {
        TolerationPeriod::Limited(Duration::from_secs(seconds))
    }

    #[test]
    fn a_pod_stays_for_the_least_of_what_it_bears() {
        let (a, b) = (("a".to_owned(), String::new()), ("b".to_owned(), "x".to_owned()));
        let exists = |key: &str, seconds: Value| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        let (one, both) = (vec![a.clone()], vec![a, b]);
        for (tolerations, taints, expected) in [
            (json!([]), &vec![], TolerationPeriod::Forever),
            (Value::Null, &one, after(0)),
            (json!([exists("a", json!(300))]), &one, after(300)),
            (json!([exists("a", json!(300))]), &both, after(0)),
            (json!([exists("a", json!(300)), exists("b", json!(7))]), &both, after(7)),
            (json!([exists("a", json!(300)), exists("b", Value::Null)]), &both, after(300)),
            (json!([exists("a", json!(-5))]), &one, after(0)),
            (json!([{"operator": "Exists"}]), &both, TolerationPeriod::Forever),
            (json!([{"key": "a", "effect": "NoSchedule"}]), &one, after(0)),
            (
                json!([{"key": "a"}, {"key": "b", "value": "x", "effect": "NoExecute"}]),
                &both,
                TolerationPeriod::Forever,
            ),
            (json!([{"key": "a"}, {"key": "b", "value": "y"}]), &both, after(0)),
        ] {
            assert_eq!(
                toleration_period(&pod(tolerations.clone()), taints),
                expected,
                "{tolerations} {taints:?}"
            );
        }
        let mut mirror = pod(json!([]));
        mirror["metadata"] = json!({"annotations": {MIRROR: "x"}});
        assert_eq!(toleration_period(&mirror, &one), TolerationPeriod::Forever);
    }

    #[test]
    fn a_pod_that_goes_is_told_why_once() {
        let mut going = pod(json!([]));
        let told = disruption_target(&going, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((&told["reason"], &told["status"]), (&json!("DeletionByTaintManager"), &json!("True")));
        going.insert("status".to_owned(), json!({"conditions": [told]}));
        assert_eq!(disruption_target(&going, Timestamp::UNIX_EPOCH), None);
    }
}
