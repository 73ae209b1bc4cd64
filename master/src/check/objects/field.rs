//! Fields of objects as checks ask for them: a text that may be missing, a list, a condition. Pure.

use serde_json::Value;

use crate::controllers::Object;

/// A text; empty where there is none.
pub fn text<'a>(object: &'a Object, pointer: &str) -> &'a str {
    object.kept(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A list; empty where there is none.
pub fn list<'a>(object: &'a Object, pointer: &str) -> &'a [Value] {
    object.kept(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// A text of a part of an object (`/state/waiting/reason`, `name`).
pub fn part<'a>(value: &'a Value, name: &str) -> &'a str {
    let found = if name.starts_with('/') { value.pointer(name) } else { value.get(name) };
    found.and_then(Value::as_str).unwrap_or_default()
}

/// What a condition says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition<'a> {
    /// `True`, `False`, `Unknown`; empty without the condition.
    pub status: &'a str,
    /// A word.
    pub reason: &'a str,
    /// A sentence.
    pub message: &'a str,
    /// Since when.
    pub since: &'a str,
    /// When it was last said, where that is told.
    pub heartbeat: &'a str,
}

impl Condition<'_> {
    /// The condition holds.
    pub fn holds(&self) -> bool {
        self.status == "True"
    }

    /// Reason and message.
    pub fn why(&self) -> String {
        joined(self.reason, self.message)
    }
}

/// The condition of that type.
pub fn condition<'a>(object: &'a Object, of: &str) -> Condition<'a> {
    let found = list(object, "/status/conditions").iter().find(|condition| part(condition, "type") == of);
    found.map_or_else(Condition::default, |found| Condition {
        status: part(found, "status"),
        reason: part(found, "reason"),
        message: part(found, "message"),
        since: part(found, "lastTransitionTime"),
        heartbeat: part(found, "lastHeartbeatTime"),
    })
}

/// `reason: message`, or the one there is.
pub fn joined(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", one) | (one, "") => one.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}
