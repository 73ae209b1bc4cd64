//! Objects as people read them: the `Table` that kubectl prints.

pub use api::table::{Column, Columns};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::request::Include;

/// The `columnDefinitions` of a table.
pub fn definitions(columns: &Columns) -> Value {
    columns
        .heads
        .iter()
        .map(|head| {
            json!({
                "name": head.name,
                "type": head.kind,
                "format": head.format,
                "description": head.description,
                "priority": head.priority,
            })
        })
        .collect()
}

/// A table of these objects; `metadata` is that of the list.
pub fn table(
    columns: &Columns,
    objects: impl Iterator<Item = Map<String, Value>>,
    metadata: Value,
    include: Include,
    with_heads: bool,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects.map(|object| row(columns, object, include, now)).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": if with_heads { definitions(columns) } else { Value::Null },
        "rows": rows,
    })
}

fn row(columns: &Columns, mut object: Map<String, Value>, include: Include, now: Timestamp) -> Value {
    let cells = (columns.cells)(&object, now);
    let object = match include {
        Include::None => return json!({"cells": cells}),
        Include::Object => Value::Object(object),
        Include::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object.remove("metadata").unwrap_or_default(),
        }),
    };
    json!({"cells": cells, "object": object})
}
