//! Detects heartbeats: updates that change only a timestamp.

use serde_json::{Map, Value};

use super::Json;

/// Metadata that changes with every write.
const CHANGED_BY_EVERY_WRITE: [&[&str]; 1] = [&["metadata", "resourceVersion"]];

/// True if the objects differ only in these fields and in metadata that every write changes. `*` matches any list
/// element.
pub(super) fn differs_in(fields: &[&[&str]], before: &Json, after: &Json) -> bool {
    let ignored: Vec<&[&str]> = CHANGED_BY_EVERY_WRITE.iter().chain(fields).copied().collect();
    is_same_map(before, after, &ignored)
}

fn is_same(before: &Value, after: &Value, ignored: &[&[&str]]) -> bool {
    match (before, after) {
        _ if ignored.is_empty() => before == after,
        (Value::Object(before), Value::Object(after)) => is_same_map(before, after, ignored),
        (Value::Array(before), Value::Array(after)) => {
            let below = below(ignored, "*");
            before.len() == after.len() && before.iter().zip(after).all(|(b, a)| is_same(b, a, &below))
        }
        _ => before == after,
    }
}

fn is_same_map(before: &Map<String, Value>, after: &Map<String, Value>, ignored: &[&[&str]]) -> bool {
    let is_ignored = |name: &str| ignored.contains(&[name].as_slice());
    let is_as_before = |(name, value): (&String, &Value)| {
        let is_same = |before| is_same(before, value, &below(ignored, name));
        is_ignored(name) || before.get(name).is_some_and(is_same)
    };
    after.iter().all(is_as_before) && before.keys().all(|name| after.contains_key(name) || is_ignored(name))
}

/// The ignored paths below the field `name`.
fn below<'a>(ignored: &[&'a [&'a str]], name: &str) -> Vec<&'a [&'a str]> {
    let rest =
        |path: &&'a [&'a str]| path.split_first().filter(|(first, _)| **first == name).map(|(_, rest)| rest);
    ignored.iter().filter_map(rest).collect()
}

#[cfg(test)]
mod tests;
