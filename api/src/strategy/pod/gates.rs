//! The condition of a pod whose gates are closed: it says which of them is the first.

use serde_json::{Value, json};

use crate::strategy::Json;
use crate::strategy::fill::{at, at_mut};

/// The condition, and its reason while there are gates.
const CONDITION: &str = "PodScheduled";
const GATED: &str = "SchedulingGated";

/// What a new pod says of its gates, if it has any.
pub(super) fn condition(pod: &Json) -> Option<Value> {
    let message = message(first(pod)?);
    Some(json!({"type": CONDITION, "status": "False", "reason": GATED, "message": message}))
}

/// Has the condition follow the gates of a pod that is changed: with the last one it goes.
pub(super) fn follow(pod: &mut Json, before: &Json) {
    let gate = first(pod).map(str::to_owned);
    if gate.as_deref() == first(before) {
        return;
    }
    let Some(conditions) = at_mut(pod, "status.conditions").and_then(Value::as_array_mut) else { return };
    let text =
        |condition: &Value, field: &str| condition.get(field).and_then(Value::as_str).map(str::to_owned);
    let is_of_gates = |condition: &Value| {
        text(condition, "type").as_deref() == Some(CONDITION)
            && text(condition, "reason").as_deref() == Some(GATED)
    };
    match gate {
        None => conditions.retain(|condition| !is_of_gates(condition)),
        Some(gate) => {
            let own = conditions.iter_mut().filter(|condition| is_of_gates(condition));
            for condition in own.filter_map(Value::as_object_mut) {
                condition.insert("message".to_owned(), message(&gate).into());
            }
        }
    }
}

/// The stock words, and whose turn it is.
fn message(gate: &str) -> String {
    format!("Scheduling is blocked due to non-empty scheduling gates, of which {gate} is the first")
}

/// The gate whose turn it is.
fn first(pod: &Json) -> Option<&str> {
    at(pod, "spec.schedulingGates")?.as_array()?.first()?.get("name")?.as_str()
}
