//! The condition `Dangling` of a FlowSchema: whether the PriorityLevelConfiguration that it names is missing. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::objects::{Condition, List, ObjectMeta};

/// Type of the condition.
const DANGLING: &str = "Dangling";

/// The fields of a FlowSchema that decide about its condition.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct FlowSchema {
    pub metadata: ObjectMeta,
    spec: Specification,
    status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    conditions: List<Condition>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Specification {
    priority_level_configuration: Reference,
}

/// Reference to a PriorityLevelConfiguration.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Reference {
    name: Box<str>,
}

/// The patch of the status that brings the condition up to date; `None` if it is. Reasons and messages are those of the
/// stock server.
pub(super) fn patch(schema: &FlowSchema, levels: &BTreeSet<Box<str>>, now: Timestamp) -> Option<Value> {
    let level = &schema.spec.priority_level_configuration.name;
    let referenced =
        format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = if levels.contains(level) {
        ("False", "Found", format!("{referenced} and it exists"))
    } else {
        ("True", "NotFound", format!("{referenced} but there is no such object"))
    };
    let found = schema.status.conditions.iter().find(|condition| &*condition.r#type == DANGLING);
    if found.is_some_and(|found| {
        (&*found.status, &*found.reason, &*found.message) == (status, reason, message.as_str())
    }) {
        return None;
    }
    // Conditions have whole seconds.
    let at = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Some(json!({"status": {"conditions": [{
        "type": DANGLING, "status": status, "reason": reason, "message": message, "lastTransitionTime": at,
    }]}}))
}
