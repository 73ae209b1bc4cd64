//! Devices: claims on them, and slices of what nodes have.

use serde_json::Value;

use super::{AGE, Columns, NAME, Object, age, at, list, name, shown, text, text_at};

/// ResourceClaims.
pub const RESOURCE_CLAIMS: Columns = Columns {
    heads: &[NAME, shown("State", "Whether it has its devices, and whether they are in use."), AGE],
    cells: |object, now| vec![name(object), state(object).into(), age::of(object, now)],
};

/// ResourceSlices.
pub const RESOURCE_SLICES: Columns = Columns {
    heads: &[
        NAME,
        shown("Node", "Where the devices are."),
        shown("Driver", "Whose they are."),
        shown("Pool", "To which pool they belong."),
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
