//! Events of events.k8s.io: the events of the core group, by newer names.

use serde_json::{Map, Value};

use crate::resource::View;

/// What fields are called here and in what is stored.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// What field selectors may ask of an event here.
pub(super) const FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

/// Stored events by their newer names.
pub(super) struct Newer;

impl View for Newer {
    fn shown(&self, stored: Map<String, Value>) -> Map<String, Value> {
        renamed(stored, "events.k8s.io/v1", |field| {
            NAMES.iter().find(|(_, stored)| *stored == field).map(|(shown, _)| *shown)
        })
    }

    fn stored(&self, shown: Map<String, Value>) -> Map<String, Value> {
        let mut event = renamed(shown, "v1", name_stored);
        // The core group cannot do without, even if it says nothing.
        event.entry("involvedObject").or_insert_with(|| Value::Object(Map::new()));
        event
    }

    fn stored_field(&self, path: &str) -> String {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let first = name_stored(first).unwrap_or(first);
        if rest.is_empty() { first.to_owned() } else { format!("{first}.{rest}") }
    }
}

fn name_stored(field: &str) -> Option<&'static str> {
    NAMES.iter().find(|(shown, _)| *shown == field).map(|(_, stored)| *stored)
}

fn renamed(
    event: Map<String, Value>,
    api_version: &str,
    name: impl Fn(&str) -> Option<&'static str>,
) -> Map<String, Value> {
    let rename = |(field, value): (String, Value)| (name(&field).map_or(field, str::to_owned), value);
    let mut event: Map<String, Value> = event.into_iter().map(rename).collect();
    event.insert("apiVersion".to_owned(), api_version.into());
    event
}

#[cfg(test)]
mod tests;
