//! How this node's objects look in a table.

use apiserver::table::{Column, Columns};
use jiff::Timestamp;
use serde_json::{Map, Value};

const fn column(name: &'static str, kind: &'static str, priority: i32) -> Column {
    Column { name, kind, priority }
}

const NAME: Column = column("Name", "string", 0);
const AGE: Column = column("Age", "string", 0);

/// What is left when nothing better is known.
pub const NAME_AND_AGE: Columns =
    Columns { heads: &[NAME, AGE], cells: |object, now| vec![name(object), age(object, now)] };

/// Pods.
pub const PODS: Columns = NAME_AND_AGE;
/// Nodes.
pub const NODES: Columns = NAME_AND_AGE;
/// Events.
pub const EVENTS: Columns = NAME_AND_AGE;
/// ConfigMaps.
pub const CONFIG_MAPS: Columns = NAME_AND_AGE;
/// Secrets.
pub const SECRETS: Columns = NAME_AND_AGE;

fn name(object: &Map<String, Value>) -> Value {
    metadata(object, "name").into()
}

fn age(object: &Map<String, Value>, now: Timestamp) -> Value {
    let created = metadata(object, "creationTimestamp").parse::<Timestamp>();
    created.map_or("<unknown>".to_owned(), |created| duration(now.duration_since(created).as_secs())).into()
}

fn metadata<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(name)).and_then(Value::as_str).unwrap_or_default()
}

fn duration(seconds: i64) -> String {
    format!("{seconds}s")
}
