//! Printer columns of Events.

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, Columns, NAME, Object, age, name, number, shown, text, wide};

/// The printer columns of Events.
pub const EVENTS: Columns = Columns {
    heads: &[
        shown("Last Seen", "The time since the last occurrence."),
        shown("Type", "Normal or Warning."),
        shown("Reason", "The reason of the event."),
        shown("Object", "The object of the event."),
        wide("Subobject", "The part of the object."),
        wide("Source", "The component that reported the event."),
        shown("Message", "What happened."),
        wide("First Seen", "The time since the first occurrence."),
        Column { priority: 1, ..number("Count", "The number of occurrences.") },
        Column { priority: 1, ..NAME },
    ],
    cells,
};

fn cells(event: &Object, now: Timestamp) -> Vec<Value> {
    let top = |field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default();
    let series = |field: &str| event.get("series").and_then(|series| series.get(field));
    // Events of events.k8s.io have one exact time instead of a first and a last one.
    let first = first_of([top("firstTimestamp"), top("eventTime")]);
    let last_of_series = series("lastObservedTime").and_then(Value::as_str).unwrap_or_default();
    let last = first_of([last_of_series, top("lastTimestamp"), first]);
    let count = series("count").or_else(|| event.get("count")).and_then(Value::as_i64).unwrap_or_default();
    vec![
        age::since(last, now).into(),
        top("type").into(),
        top("reason").into(),
        about(event).into(),
        text(event, "involvedObject", "fieldPath").into(),
        source(event).into(),
        top("message").trim().into(),
        age::since(first, now).into(),
        count.max(1).into(),
        name(event),
    ]
}

fn first_of<const N: usize>(texts: [&str; N]) -> &str {
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

fn about(event: &Object) -> String {
    let kind = text(event, "involvedObject", "kind").to_lowercase();
    match text(event, "involvedObject", "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Object) -> String {
    let reporter = |field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default();
    let component = first_of([text(event, "source", "component"), reporter("reportingComponent")]);
    match first_of([text(event, "source", "host"), reporter("reportingInstance")]) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}
