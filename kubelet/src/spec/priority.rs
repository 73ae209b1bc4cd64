//! Priority of a pod, and which pods are critical for the node or the cluster.

use k8s_openapi::api::core::v1::{Pod, Toleration};

/// The lowest priority of a critical pod (`SystemCriticalPriority`): that of `system-cluster-critical`.
const CRITICAL: i32 = 2_000_000_000;
/// The stock priority classes. Only the API server knows others.
const CLASSES: [(&str, i32); 2] =
    [("system-cluster-critical", CRITICAL), ("system-node-critical", CRITICAL + 1000)];

/// The priority of a pod. Pods of files and URLs may name a stock class instead of a number.
pub fn priority(pod: &Pod) -> i32 {
    let Some(spec) = &pod.spec else { return 0 };
    let class = spec.priority_class_name.as_deref();
    let of_class =
        || CLASSES.into_iter().find(|(name, _)| Some(*name) == class).map(|(_, priority)| priority);
    spec.priority.or_else(of_class).unwrap_or(0)
}

/// Whether the pod is critical: the kubelet admits it under node pressure, and does not evict it for that. Unlike in
/// the stock kubelet, only the priority counts, also for pods of files and URLs. These return after an eviction.
pub fn is_critical(pod: &Pod) -> bool {
    priority(pod) >= CRITICAL
}

/// Whether the pod tolerates a `NoSchedule` taint with this key and no value.
pub fn tolerates_no_schedule(pod: &Pod, key: &str) -> bool {
    let is_match = |toleration: &Toleration| {
        let own = toleration.key.as_deref().unwrap_or_default();
        let exists = toleration.operator.as_deref() == Some("Exists");
        let has_key = own == key || own.is_empty() && exists;
        let has_value = exists || toleration.value.as_deref().unwrap_or_default().is_empty();
        let effect = toleration.effect.as_deref().unwrap_or_default();
        has_key && has_value && matches!(effect, "" | "NoSchedule")
    };
    pod.spec.iter().flat_map(|spec| spec.tolerations.iter().flatten()).any(is_match)
}

#[cfg(test)]
mod tests {
    //! Tests of critical pods and tolerations.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    fn pod(mut spec: Value) -> Pod {
        spec["containers"] = json!([]);
        serde_json::from_value(json!({"spec": spec})).unwrap()
    }

    #[test]
    fn stock_classes_are_critical() {
        for (spec, expected, critical) in [
            (json!({}), 0, false),
            (json!({"priority": -5}), -5, false),
            (json!({"priorityClassName": "mine"}), 0, false),
            (json!({"priorityClassName": "system-node-critical"}), 2_000_001_000, true),
            (json!({"priorityClassName": "system-cluster-critical"}), 2_000_000_000, true),
            (json!({"priorityClassName": "system-node-critical", "priority": 7}), 7, false),
        ] {
            let pod = pod(spec);
            assert_eq!((priority(&pod), is_critical(&pod)), (expected, critical));
        }
        assert_eq!(priority(&Pod::default()), 0);
    }

    #[test]
    fn toleration_matches_key_and_effect() {
        for (toleration, expected) in [
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}), true),
            (json!({"key": "k", "effect": "NoSchedule"}), true),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "value": "v"}), false),
            (json!({"key": "k", "operator": "Exists", "effect": "NoExecute"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            assert_eq!(tolerates_no_schedule(&pod(json!({"tolerations": [toleration]})), "k"), expected);
        }
    }
}
