//! The condition `Dangling` of a FlowSchema: whether the PriorityLevelConfiguration that it names is missing. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::controllers::Json;

/// Type of the condition.
const DANGLING: &str = "Dangling";

/// The patch of the status that brings the condition up to date; `None` if it is. Reasons and messages are those of the stock
/// server.
pub(super) fn patch(schema: &Json, levels: &BTreeSet<String>, now: Timestamp) -> Option<Value> {
    let level = schema.get("spec")?.get("priorityLevelConfiguration")?.get("name")?.as_str()?;
    let referenced =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = if levels.contains(level) {
        ("False", "Found", format!("{referenced} and it exists"))
    } else {
        ("True", "NotFound", format!("{referenced} but there is no such object"))
    };
    let conditions = schema.get("status").and_then(|status| status.get("conditions")?.as_array());
    let found = conditions.into_iter().flatten().find(|condition| condition["type"] == DANGLING);
    if found.is_some_and(|found| {
        found["status"] == status && found["reason"] == reason && found["message"] == message
    }) {
        return None;
    }
    // Conditions have whole seconds.
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Some(json!({"status": {"conditions": [{
        "type": DANGLING, "status": status, "reason": reason, "message": message, "lastTransitionTime": at,
    }]}}))
}
