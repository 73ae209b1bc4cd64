//! Events: when, what, about whom.

use jiff::Timestamp;
use serde_json::Value;

use super::{Column, Columns, NAME, Object, age, name, number, shown, text, wide};

/// Events.
pub const EVENTS: Columns = Columns {
    heads: &[
        shown("Last Seen", "How long ago it happened last."),
        shown("Type", "Normal or Warning."),
        shown("Reason", "In one word, what happened."),
        shown("Object", "To what."),
        wide("Subobject", "To which part of it."),
        wide("Source", "Who says so."),
        shown("Message", "What happened."),
        wide("First Seen", "How long ago it happened first."),
        Column { priority: 1, ..number("Count", "How often it happened.") },
        Column { priority: 1, ..NAME },
    ],
    cells,
};

fn cells(event: &Object, now: Timestamp) -> Vec<Value> {
    let top = |field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default();
    let series = |field: &str| event.get("series").and_then(|series| series.get(field));
    // An event of the newer API has one precise moment instead of a first and a last.
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
