//! Computes how long a pod tolerates `NoExecute` taints. Pure.

use std::time::Duration;

use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::fields::DISRUPTION_TARGET;
use crate::objects::{Pod, Taint};

/// How long a pod tolerates taints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TolerationPeriod {
    /// The pod tolerates the taints without limit.
    Forever,
    /// The pod tolerates the taints for this time after the first one was added.
    Limited(Duration),
}

/// Returns how long a pod tolerates the given `NoExecute` taints.
pub fn toleration_period(pod: &Pod, taints: &[Taint]) -> TolerationPeriod {
    if taints.is_empty() || pod.metadata.annotations.mirror.is_some() {
        return TolerationPeriod::Forever;
    }
    let mut shortest = None::<Duration>;
    for taint in taints {
        let tolerations = &pod.spec.tolerations;
        let Some(toleration) = tolerations.iter().find(|toleration| toleration.tolerates(taint)) else {
            return TolerationPeriod::Limited(Duration::ZERO);
        };
        // A negative value counts as zero.
        if let Some(seconds) =
            toleration.toleration_seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0))
        {
            let period = Duration::from_secs(seconds);
            shortest = Some(shortest.map_or(period, |shortest| shortest.min(period)));
        }
    }
    shortest.map_or(TolerationPeriod::Forever, TolerationPeriod::Limited)
}

/// Returns the condition for an evicted pod, or `None` if it is already set.
pub fn disruption_target(pod: &Pod, now: Timestamp) -> Option<Value> {
    let (reason, message) = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
    let known = pod.status.conditions.of_type(DISRUPTION_TARGET).filter(|known| known.is_true());
    if known.is_some_and(|known| (&*known.reason, &*known.message) == (reason, message)) {
        return None;
    }
    let since = known.and_then(|known| known.last_transition_time).unwrap_or(now);
    Some(json!({
        "type": DISRUPTION_TARGET, "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": seconds(since), "lastProbeTime": null,
    }))
}

#[cfg(test)]
mod tests {
    //! Tests of evictions by taints and tolerations.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn pod(tolerations: &Value) -> Pod {
        serde_json::from_value(json!({"spec": {"tolerations": tolerations}})).unwrap()
    }

    fn after(seconds: u64) -> TolerationPeriod {
        TolerationPeriod::Limited(Duration::from_secs(seconds))
    }

    #[test]
    fn a_pod_stays_for_its_shortest_toleration() {
        let taint = |key: &str, value: &str| Taint {
            key: key.into(),
            value: value.into(),
            effect: "NoExecute".into(),
            ..Taint::default()
        };
        let (a, b) = (taint("a", ""), taint("b", "x"));
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
            assert_eq!(toleration_period(&pod(&tolerations), taints), expected, "{tolerations} {taints:?}");
        }
        let mut mirror = pod(&json!([]));
        mirror.metadata.annotations.mirror = Some("x".into());
        assert_eq!(toleration_period(&mirror, &one), TolerationPeriod::Forever);
    }

    #[test]
    fn an_evicted_pod_gets_its_condition_once() {
        let mut going = pod(&json!([]));
        let told = disruption_target(&going, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((&told["reason"], &told["status"]), (&json!("DeletionByTaintManager"), &json!("True")));
        going.status = serde_json::from_value(json!({"conditions": [told]})).unwrap();
        assert_eq!(disruption_target(&going, Timestamp::UNIX_EPOCH), None);
    }
}
