//! The DefaultTolerationSeconds plugin: pods tolerate not-ready and unreachable nodes for five minutes by default.

use api::strategy::Json;
use apiserver::Status;
use apiserver::admission::{Admission, AdmissionRequest};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::pods::{field, is_edited_pod, is_new_pod, list_mut};

/// The tolerated taints, in order.
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// Toleration seconds; the stock default.
const SECONDS: u32 = 300;

/// The stock plugin `DefaultTolerationSeconds`.
#[derive(Clone, Copy, Debug)]
pub struct DefaultTolerationSeconds;

fn tolerate(pod: &mut Json) {
    let Some(tolerations) = field(pod, "spec").and_then(|spec| list_mut(spec, "tolerations")) else { return };
    for taint in TAINTS {
        let covers = |toleration: &Value| {
            let text = |name: &str| toleration.get(name).and_then(Value::as_str).unwrap_or_default();
            ["", taint].contains(&text("key")) && ["", "NoExecute"].contains(&text("effect"))
        };
        if !tolerations.iter().any(covers) {
            tolerations.push(json!({
                "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS,
            }));
        }
    }
}

#[async_trait]
impl Admission for DefaultTolerationSeconds {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        // `kubectl apply` of the original manifest omits the tolerations; they must not be removed by it.
        if is_new_pod(attempt) || is_edited_pod(attempt) {
            tolerate(&mut attempt.object);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the tolerations that are added.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn pod_without_tolerations_tolerates_node_problems_for_five_minutes() {
        for (own, added) in [
            (json!([]), 2),
            (Value::Null, 2),
            (json!([{"operator": "Exists"}]), 0),
            (
                json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute", "tolerationSeconds": 5}]),
                1,
            ),
            (json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]), 2),
        ] {
            let before = own.as_array().map_or(0, Vec::len);
            let mut pod = json!({"spec": {"tolerations": own}}).as_object().unwrap().clone();
            tolerate(&mut pod);
            assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), before + added, "{pod:?}");
        }
    }
}
