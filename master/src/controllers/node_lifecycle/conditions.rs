//! Conditions of unreachable nodes and of their pods. Pure.

use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::fields::NodeFields;
use crate::objects::{Condition, List};

/// The conditions that the kubelet reports. `NetworkUnavailable` is set by other components.
const KUBELET_CONDITIONS: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The Ready condition of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The condition is true.
    Yes,
    /// The condition is false.
    No,
    /// The condition is unknown: heartbeats stopped.
    Unknown,
    /// The kubelet has never reported a status.
    NeverReported,
}

impl Ready {
    /// Reads the condition of a Node.
    pub fn of(node: &NodeFields) -> Self {
        match node.status.conditions.of_type("Ready").map(|ready| &*ready.status) {
            Some("True") => Self::Yes,
            Some("False") => Self::No,
            Some(_) => Self::Unknown,
            None => Self::NeverReported,
        }
    }
}

/// Returns `lastHeartbeatTime` of the Ready condition. Any difference counts as a heartbeat.
pub fn heartbeat(node: &NodeFields) -> Option<Timestamp> {
    node.status.conditions.of_type("Ready")?.last_heartbeat_time
}

/// Returns the changed conditions of an unreachable node. Empty if they are already set. `created` is the creation
/// time of the Node.
pub fn unknown_conditions(node: &NodeFields, created: Option<Timestamp>, now: Timestamp) -> Vec<Value> {
    let now = seconds(now);
    let change = |kind: &&str| match node.status.conditions.of_type(kind) {
        Some(found) if &*found.status == "Unknown" => None,
        Some(_) => Some(json!({
            "type": kind, "status": "Unknown", "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.", "lastTransitionTime": now,
        })),
        None => Some(json!({
            "type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": created.map(seconds), "lastTransitionTime": now,
        })),
    };
    KUBELET_CONDITIONS.iter().filter_map(change).collect()
}

/// Returns the change that sets the Ready condition of a pod on an unreachable node to false, or `None` if it is
/// already false.
pub fn not_ready_condition(conditions: &List<Condition>, now: Timestamp) -> Option<Value> {
    let found = conditions.of_type("Ready")?;
    (&*found.status != "False")
        .then(|| json!({"type": "Ready", "status": "False", "lastTransitionTime": seconds(now)}))
}

#[cfg(test)]
mod tests {
    //! Tests of conditions of nodes and pods.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:01:00.5Z".parse().unwrap()
    }

    fn node(conditions: Value) -> NodeFields {
        serde_json::from_value(json!({"status": {"conditions": conditions}})).unwrap()
    }

    fn unknown(node: &NodeFields) -> Vec<Value> {
        unknown_conditions(node, "2026-01-01T00:00:00Z".parse().ok(), now())
    }

    #[test]
    fn an_unreachable_node_becomes_unknown_once() {
        let reported = json!([
            {"type": "NetworkUnavailable", "status": "False"},
            {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": "2026-01-01T00:00:10Z"},
            {"type": "DiskPressure", "status": "False"},
            {"type": "PIDPressure", "status": "Unknown", "reason": "Mine"},
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-01-01T00:00:10Z"},
        ]);
        let changes = unknown(&node(reported));
        let kinds: Vec<&str> = changes.iter().filter_map(|one| one["type"].as_str()).collect();
        assert_eq!(kinds, ["Ready", "MemoryPressure", "DiskPressure"]);
        assert_eq!(
            changes[0],
            json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.", "lastTransitionTime": "2026-01-01T00:01:00Z"})
        );
        let all = KUBELET_CONDITIONS.map(|kind| json!({"type": kind, "status": "Unknown"}));
        assert!(unknown(&node(all.to_vec().into())).is_empty());
    }

    #[test]
    fn a_node_that_never_reported_gets_all_conditions() {
        let changes = unknown(&node(json!([])));
        assert_eq!(changes.len(), 4);
        assert_eq!(changes[0]["reason"], "NodeStatusNeverUpdated");
        assert_eq!(changes[0]["lastHeartbeatTime"], "2026-01-01T00:00:00Z");
        assert_eq!(Ready::of(&node(json!([]))), Ready::NeverReported);
        let written = node(changes.into());
        assert_eq!((Ready::of(&written), unknown(&written).len()), (Ready::Unknown, 0));
    }

    #[test]
    fn a_pod_becomes_not_ready_once() {
        let pod = |status: &str| node(json!([{"type": "Ready", "status": status}])).status.conditions;
        let change = not_ready_condition(&pod("True"), now());
        let expected =
            json!({"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:01:00Z"});
        assert_eq!(change, Some(expected));
        assert_eq!(not_ready_condition(&pod("False"), now()), None);
        assert_eq!(not_ready_condition(&List::default(), now()), None);
    }
}
