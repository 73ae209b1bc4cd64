//! Reads conditions, and joins reasons with messages. Pure.

use std::sync::LazyLock;

use crate::objects::{Condition, List};

/// A condition without status, for objects that do not have it.
static NONE: LazyLock<Condition> = LazyLock::new(Condition::default);

/// The condition of this type. Its status is empty if the object has no such condition.
pub fn condition<'a>(conditions: &'a List<Condition>, of: &str) -> &'a Condition {
    conditions.of_type(of).unwrap_or(&NONE)
}

/// Reason and message of a condition.
pub fn why(condition: &Condition) -> String {
    joined(&condition.reason, &condition.message)
}

/// Formats `reason: message`, or the one that is not empty.
pub fn joined(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", one) | (one, "") => one.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}
