//! How long a pod stays on a node with taints that end it. Pure.

use std::time::Duration;

use api::time::seconds;
use apiserver::auth::nodes::names::MIRROR;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::client::Json;
use crate::controllers::node_lifecycle::NO_EXECUTE;
use crate::controllers::object::{at, condition, text};

/// The condition of a pod that is ended for no fault of its own.
pub const DISRUPTION: &str = "DisruptionTarget";

/// How long a pod stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// For as long as it likes.
    Forever,
    /// So long after the first of these taints came.
    For(Duration),
}

/// How long a pod stays with these taints, by key and value, each of which ends it.
pub fn stays(pod: &Json, taints: &[(String, String)]) -> Stays {
    if taints.is_empty() || is_mirror(pod) {
        return Stays::Forever;
    }
    let tolerations = at(pod, "/spec/tolerations").and_then(Value::as_array);
    let tolerations: Vec<&Value> = tolerations.into_iter().flatten().collect();
    let mut shortest = None::<Duration>;
    for taint in taints {
        let Some(bearing) = tolerations.iter().find(|toleration| bears(toleration, taint)) else {
            return Stays::For(Duration::ZERO);
        };
        // Less than nothing is nothing.
        let seconds = bearing.get("tolerationSeconds").and_then(Value::as_i64);
        if let Some(seconds) = seconds.map(|seconds| u64::try_from(seconds).unwrap_or(0)) {
            let bears_for = Duration::from_secs(seconds);
            shortest = Some(shortest.map_or(bears_for, |shortest| shortest.min(bears_for)));
        }
    }
    shortest.map_or(Stays::Forever, Stays::For)
}

/// What is patched in the status of a pod that goes; `None` when it stands there already.
pub fn target(pod: &Json, now: Timestamp) -> Option<Value> {
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

fn bears(toleration: &Value, (key, value): &(String, String)) -> bool {
    let says = |field: &str| toleration.get(field).and_then(Value::as_str).unwrap_or_default();
    let any_value = says("operator") == "Exists";
    ["", NO_EXECUTE].contains(&says("effect"))
        && (says("key") == key || says("key").is_empty() && any_value)
        && (any_value || says("value") == value)
}

#[cfg(test)]
mod tests {
    //! Pods and taints.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn pod(tolerations: Value) -> Json {
        json!({"metadata": {}, "spec": {"tolerations": tolerations}}).as_object().unwrap().clone()
    }

    fn after(seconds: u64) -> Stays {
        Stays::For(Duration::from_secs(seconds))
    }

    #[test]
    fn a_pod_stays_for_the_least_of_what_it_bears() {
        let (a, b) = (("a".to_owned(), String::new()), ("b".to_owned(), "x".to_owned()));
        let exists = |key: &str, seconds: Value| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        let (one, both) = (vec![a.clone()], vec![a, b]);
        for (tolerations, taints, expected) in [
            (json!([]), &vec![], Stays::Forever),
            (Value::Null, &one, after(0)),
            (json!([exists("a", json!(300))]), &one, after(300)),
            (json!([exists("a", json!(300))]), &both, after(0)),
            (json!([exists("a", json!(300)), exists("b", json!(7))]), &both, after(7)),
            (json!([exists("a", json!(300)), exists("b", Value::Null)]), &both, after(300)),
            (json!([exists("a", json!(-5))]), &one, after(0)),
            (json!([{"operator": "Exists"}]), &both, Stays::Forever),
            (json!([{"key": "a", "effect": "NoSchedule"}]), &one, after(0)),
            (json!([{"key": "a"}, {"key": "b", "value": "x", "effect": "NoExecute"}]), &both, Stays::Forever),
            (json!([{"key": "a"}, {"key": "b", "value": "y"}]), &both, after(0)),
        ] {
            assert_eq!(stays(&pod(tolerations.clone()), taints), expected, "{tolerations} {taints:?}");
        }
        let mut mirror = pod(json!([]));
        mirror["metadata"] = json!({"annotations": {MIRROR: "x"}});
        assert_eq!(stays(&mirror, &one), Stays::Forever);
    }

    #[test]
    fn a_pod_that_goes_is_told_why_once() {
        let mut going = pod(json!([]));
        let told = target(&going, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((&told["reason"], &told["status"]), (&json!("DeletionByTaintManager"), &json!("True")));
        going.insert("status".to_owned(), json!({"conditions": [told]}));
        assert_eq!(target(&going, Timestamp::UNIX_EPOCH), None);
    }
}
