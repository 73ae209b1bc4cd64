//! Printer columns of ResourceClaims and ResourceSlices.

use serde_json::Value;

use super::{AGE, Columns, NAME, Object, age, at, list, name, shown, text, text_at};

/// The printer columns of ResourceClaims.
pub const RESOURCE_CLAIMS: Columns = Columns {
    heads: &[NAME, shown("State", "Whether devices are allocated and reserved."), AGE],
    cells: |object, now| vec![name(object), state(object).into(), age::of(object, now)],
};

/// The printer columns of ResourceSlices.
pub const RESOURCE_SLICES: Columns = Columns {
    heads: &[
        NAME,
        shown("Node", "The node of the devices."),
        shown("Driver", "The driver of the devices."),
        shown("Pool", "The pool of the devices."),
        AGE,
    ],
    cells: |object, now| {
        vec![
            name(object),
            text(object, "spec", "nodeName").into(),
            text(object, "spec", "driver").into(),
            text_at(object, &["spec", "pool", "name"]).into(),
            age::of(object, now),
        ]
    },
};

fn state(object: &Object) -> String {
    let mut states = Vec::new();
    if !text(object, "metadata", "deletionTimestamp").is_empty() {
        states.push("deleted");
    }
    if at(object, &["status", "allocation"]).is_some_and(Value::is_object) {
        states.push("allocated");
    } else if states.is_empty() {
        states.push("pending");
    }
    if !list(object, "status", "reservedFor").is_empty() {
        states.push("reserved");
    }
    states.join(",")
}
