//! The `PodScheduled` condition of a pod with scheduling gates. It names the first gate.

use serde_json::{Value, json};

use crate::dotted::{at, at_mut};
use crate::strategy::Json;

/// The condition type, and its reason while there are gates.
const CONDITION: &str = "PodScheduled";
const GATED: &str = "SchedulingGated";

/// The condition of a new pod with scheduling gates.
pub(super) fn condition(pod: &Json) -> Option<Value> {
    let message = message(first(pod)?);
    Some(json!({"type": CONDITION, "status": "False", "reason": GATED, "message": message}))
}

/// Updates the condition after a change of the scheduling gates. The condition is removed with the last gate.
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

/// The stock message with the name of the first gate.
fn message(gate: &str) -> String {
    format!("Scheduling is blocked due to non-empty scheduling gates, of which {gate} is the first")
}

/// The first scheduling gate.
fn first(pod: &Json) -> Option<&str> {
    at(pod, "spec.schedulingGates")?.as_array()?.first()?.get("name")?.as_str()
}
