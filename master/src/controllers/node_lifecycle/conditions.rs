//! What is said of a node that says nothing itself, and of its pods. Pure.

use api::time::seconds;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::client::Json;
use crate::controllers::object::{at, condition, text};

/// The conditions that a kubelet tells. Whether there is a network is said by others.
const TOLD: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Whether a node is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// It says so.
    Yes,
    /// It says no.
    No,
    /// It was not heard for too long.
    Unknown,
    /// It has never said anything.
    Unsaid,
}

impl Ready {
    /// As a Node says.
    pub fn of(node: &Json) -> Self {
        match condition(node, "Ready").and_then(|ready| ready.get("status")).and_then(Value::as_str) {
            Some("True") => Self::Yes,
            Some("False") => Self::No,
            Some(_) => Self::Unknown,
            None => Self::Unsaid,
        }
    }
}

/// When a node last said whether it is ready, as it wrote it: another text is another sign of life.
pub fn heartbeat(node: &Json) -> &str {
    let ready = condition(node, "Ready").and_then(|ready| ready.get("lastHeartbeatTime"));
    ready.and_then(Value::as_str).unwrap_or_default()
}

/// The conditions of a node that is silent; `None` when they stand there already.
pub fn silenced(node: &Json, now: Timestamp) -> Option<Vec<Value>> {
    let mut all = at(node, "/status/conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let before = all.len();
    let now = seconds(now);
    let mut is_changed = false;
    for kind in TOLD {
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

/// The condition of a pod that is ready as far as its node said last; `None` when it is not.
pub fn unready(pod: &Json, now: Timestamp) -> Option<Value> {
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
    //! Nodes and pods.
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
        let silenced_once = silenced(&node(told), now()).unwrap();
        let of = |kind: &str| silenced_once.iter().find(|one| one["type"] == kind).unwrap();
        assert_eq!(
            *of("Ready"),
            json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastHeartbeatTime": "2026-01-01T00:00:10Z", "lastTransitionTime": "2026-01-01T00:01:00Z"})
        );
        assert_eq!(of("PIDPressure")["reason"], "Mine");
        assert_eq!(of("NetworkUnavailable")["status"], "False");
        assert_eq!(silenced(&node(silenced_once.into()), now()), None);
    }

    #[test]
    fn a_node_that_never_said_anything_is_told_so() {
        let made = silenced(&node(json!([])), now()).unwrap();
        assert_eq!(made.len(), 4);
        assert_eq!(made[0]["reason"], "NodeStatusNeverUpdated");
        assert_eq!(made[0]["lastHeartbeatTime"], "2026-01-01T00:00:00Z");
        assert_eq!(Ready::of(&node(made.clone().into())), Ready::Unknown);
        assert_eq!(silenced(&node(made.into()), now()), None);
    }

    #[test]
    fn a_pod_is_ready_no_more_once() {
        let pod = |status: &str| node(json!([{"type": "Ready", "status": status, "reason": "x"}]));
        let wanted = unready(&pod("True"), now()).unwrap();
        assert_eq!(
            wanted,
            json!({"type": "Ready", "status": "False", "reason": "x", "lastTransitionTime": "2026-01-01T00:01:00Z"})
        );
        assert_eq!(unready(&pod("False"), now()), None);
        assert_eq!(unready(&node(json!([])), now()), None);
    }
}
