//! Rejects new pods while the node is under pressure, as the eviction manager of the stock kubelet does.

use api::qos::{QosClass, class};
use k8s_openapi::api::core::v1::Pod;

use super::Rejection;
use crate::observed::{EVICTED, Pressure};
use crate::spec;

/// The taint of a node under memory pressure. A BestEffort pod that tolerates it is admitted.
const MEMORY_TAINT: &str = "node.kubernetes.io/memory-pressure";

/// Why the node does not admit another pod under these pressures. Critical pods are always admitted. Under memory
/// pressure alone, only BestEffort pods are rejected.
pub(super) fn rejection(pod: &Pod, pressures: &[Pressure]) -> Option<Rejection> {
    if pressures.is_empty() || spec::is_critical(pod) {
        return None;
    }
    if pressures == [Pressure::Memory] {
        let is_best_effort = pod.spec.as_ref().is_none_or(|spec| class(spec) == QosClass::BestEffort);
        if !is_best_effort || spec::tolerates_no_schedule(pod, MEMORY_TAINT) {
            return None;
        }
    }
    let conditions: Vec<_> = pressures.iter().map(|pressure| pressure.condition_type()).collect();
    Some(Rejection {
        reason: EVICTED.into(),
        message: format!("The node had condition: [{}].", conditions.join(" ")),
        path: "spec".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    //! Tests of pods that are admitted under pressure.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;

    fn is_rejected(spec: &Value, pressures: &[Pressure]) -> bool {
        let pod: Pod = serde_json::from_value(json!({"spec": spec})).unwrap();
        rejection(&pod, pressures).is_some()
    }

    #[test]
    fn pods_are_rejected_by_class_and_pressure() {
        use Pressure::{Disk, Memory, Pids};
        let container = |resources: Value| json!([{"name": "c", "image": "i", "resources": resources}]);
        let best_effort = json!({"containers": container(json!({}))});
        let burstable = json!({"containers": container(json!({"requests": {"memory": "1Mi"}}))});
        let tolerant = json!({"containers": container(json!({})), "tolerations": [
            {"key": MEMORY_TAINT, "operator": "Exists", "effect": "NoSchedule"}
        ]});
        let critical =
            json!({"containers": container(json!({})), "priorityClassName": "system-node-critical"});
        for (pressures, rejected) in [
            (&[][..], [false, false, false, false]),
            (&[Memory], [true, false, false, false]),
            (&[Disk], [true, true, true, false]),
            (&[Pids], [true, true, true, false]),
            (&[Memory, Disk], [true, true, true, false]),
        ] {
            let found =
                [&best_effort, &burstable, &tolerant, &critical].map(|spec| is_rejected(spec, pressures));
            assert_eq!(found, rejected, "{pressures:?}");
        }
    }

    #[test]
    fn message_names_the_conditions() {
        let rejection = rejection(&Pod::default(), &[Pressure::Memory, Pressure::Disk]).unwrap();
        assert_eq!(rejection.message, "The node had condition: [MemoryPressure DiskPressure].");
        assert_eq!(rejection.reason, "Evicted");
    }
}
