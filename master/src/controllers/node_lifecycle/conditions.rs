//! Conditions of unreachable nodes and of their pods. Pure.

use api::time::seconds;
use client::Json;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::object::{at, condition, text};

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
    pub fn of(node: &Json) -> Self {
        match condition(node, "Ready").and_then(|ready| ready.get("status")).and_then(Value::as_str) {
            Some("True") => Self::Yes,
            Some("False") => Self::No,
            Some(_) => Self::Unknown,
            None => Self::NeverReported,
        }
    }
}

/// `lastHeartbeatTime` of the Ready condition, as text. Any difference counts as a heartbeat.
pub fn heartbeat(node: &Json) -> &str {
    let ready = condition(node, "Ready").and_then(|ready| ready.get("lastHeartbeatTime"));
    ready.and_then(Value::as_str).unwrap_or_default()
}

/// The conditions of an unreachable node; `None` if they are already set.
pub fn unknown_conditions(node: &Json, now: Timestamp) -> Option<Vec<Value>> {
    let mut all = at(node, "/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let before = all.len();
    let now = seconds(now);
    let mut is_changed = false;
    for kind in KUBELET_CONDITIONS {
        let found = all.iter_mut().find(|one| one.get("type").and_then(Value::as_str) == Some(kind));
        let Some(found) = found else {
            all.push(json!({
                "type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": text(at(node, "/metadata/creationTimestamp")), "lastTransitionTime": now,
            }));
            continue;
        };
        if found.get("status").and_then(Value::as_str) != Some("Unknown") {
            found["status"] = "Unknown".into();
            found["reason"] = "NodeStatusUnknown".into();
            found["message"] = "Kubelet stopped posting node status.".into();
            found["lastTransitionTime"] = now.as_str().into();
            is_changed = true;
        }
    }
    (is_changed || all.len() > before).then_some(all)
}

/// The Ready condition, set to false, of a pod on an unreachable node; `None` if it is already false.
pub fn not_ready_condition(pod: &Json, now: Timestamp) -> Option<Value> {
    let found = condition(pod, "Ready")?;
    if found.get("status").and_then(Value::as_str) == Some("False") {
        return None;
    }
    let mut wanted = found.clone();
    wanted["status"] = "False".into();
    wanted["lastTransitionTime"] = seconds(now).into();
    Some(wanted)
}

#[cfg(test)]
mod tests {
    //! Conditions of nodes and pods.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:01:00.5Z".parse().unwrap()
    }

    fn node(conditions: Value) -> Json {
        let node = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"conditions": conditions}});
        node.as_object().unwrap().clone()
    }

    #[test]
    fn a_silent_node_is_unknown_once() {
        let told = json!([
            {"type": "NetworkUnavailable", "status": "False"},
            {"type": "MemoryPressure", "status": "False", "lastHeartbeatTime": "2026-01-01T00:00:10Z"},
            {"type": "DiskPressure", "status": "False"},
            {"type": "PIDPressure", "status": "Unknown", "reason": "Mine"},
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2026-01-01T00:00:10Z"},
        ]);
        let silenced_once = unknown_conditions(&node(told), now()).unwrap();
        let of = |kind: &str| silenced_once.iter().find(|one| one["type"] == kind).unwrap();
        assert_eq!(
            *of("Ready"),
            json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastHeartbeatTime": "2026-01-01T00:00:10Z", "lastTransitionTime": "2026-01-01T00:01:00Z"})
        );
        assert_eq!(of("PIDPressure")["reason"], "Mine");
        assert_eq!(of("NetworkUnavailable")["status"], "False");
        assert_eq!(unknown_conditions(&node(silenced_once.into()), now()), None);
    }

    #[test]
    fn a_node_that_never_said_anything_is_told_so() {
        let made = unknown_conditions(&node(json!([])), now()).unwrap();
        assert_eq!(made.len(), 4);
        assert_eq!(made[0]["reason"], "NodeStatusNeverUpdated");
        assert_eq!(made[0]["lastHeartbeatTime"], "2026-01-01T00:00:00Z");
        assert_eq!(Ready::of(&node(made.clone().into())), Ready::Unknown);
        assert_eq!(unknown_conditions(&node(made.into()), now()), None);
    }

    #[test]
    fn a_pod_is_ready_no_more_once() {
        let pod = |status: &str| node(json!([{"type": "Ready", "status": status, "reason": "x"}]));
        let wanted = not_ready_condition(&pod("True"), now()).unwrap();
        assert_eq!(
            wanted,
            json!({"type": "Ready", "status": "False", "reason": "x", "lastTransitionTime": "2026-01-01T00:01:00Z"})
        );
        assert_eq!(not_ready_condition(&pod("False"), now()), None);
        assert_eq!(not_ready_condition(&node(json!([])), now()), None);
    }
}
