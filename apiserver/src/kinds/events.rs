//! `events.k8s.io/v1` events: core events with renamed fields.

use serde_json::{Map, Value};

use crate::resource::Conversion;

/// The names of fields in this version and in the stored core event.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Converts between `events.k8s.io/v1` and core events.
pub(super) struct EventsV1;

impl Conversion for EventsV1 {
    fn to_served(&self, stored: Map<String, Value>) -> Map<String, Value> {
        renamed(stored, "events.k8s.io/v1", |field| {
            NAMES.iter().find(|(_, stored)| *stored == field).map(|(shown, _)| *shown)
        })
    }

    fn to_stored(&self, shown: Map<String, Value>) -> Map<String, Value> {
        let mut event = renamed(shown, "v1", name_stored);
        // Required in core events, even if empty.
        event.entry("involvedObject").or_insert_with(|| Value::Object(Map::new()));
        event
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
mod tests {
    //! Field names of events, in both directions.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn event_fields_are_converted_between_both_groups() {
        let all = |table: &str| -> Map<String, Value> {
            let of = api::schema::all().kind(table, "v1", "Event").unwrap();
            of.fields().iter().map(|field| (field.name.to_owned(), json!(field.name))).collect()
        };
        let fields = |event: &Map<String, Value>| {
            let mut fields: Vec<String> = event.keys().cloned().collect();
            fields.sort();
            fields
        };
        let (core, newer) = (all(""), all("events.k8s.io"));
        assert_eq!(fields(&EventsV1.to_served(core.clone())), fields(&newer));
        assert_eq!(fields(&EventsV1.to_stored(newer.clone())), fields(&core));
        let mut there_and_back = EventsV1.to_stored(EventsV1.to_served(core.clone()));
        there_and_back.insert("apiVersion".to_owned(), "apiVersion".into());
        assert_eq!(there_and_back, core);
    }
}
