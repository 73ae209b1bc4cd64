//! ConfigMaps and Secrets: how much they hold, never what.

use jiff::Timestamp;
use serde_json::Value;

use super::{AGE, Column, Columns, NAME, Object, age, name, number, shown};

const DATA: Column = number("Data", "How many keys it has.");

/// ConfigMaps.
pub const CONFIG_MAPS: Columns = Columns { heads: &[NAME, DATA, AGE], cells: config_map };

/// Secrets.
pub const SECRETS: Columns =
    Columns { heads: &[NAME, shown("Type", "What it is for."), DATA, AGE], cells: secret };

fn config_map(object: &Object, now: Timestamp) -> Vec<Value> {
    vec![name(object), (count(object, "data") + count(object, "binaryData")).into(), age::of(object, now)]
}

fn secret(object: &Object, now: Timestamp) -> Vec<Value> {
    let of_type = object.get("type").and_then(Value::as_str).unwrap_or_default();
    vec![name(object), of_type.into(), count(object, "data").into(), age::of(object, now)]
}

fn count(object: &Object, field: &str) -> usize {
    object.get(field).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}
