//! Objects as people read them: the `Table` that kubectl prints.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::request::Include;

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its head.
    pub name: &'static str,
    /// `string`, `integer` or `date`.
    pub kind: &'static str,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i32,
}

/// How objects of one resource are printed.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The heads.
    pub heads: &'static [Column],
    /// The cells of one object, as many as there are heads.
    pub cells: fn(&Map<String, Value>, Timestamp) -> Vec<Value>,
}

/// The `columnDefinitions` of a table.
pub fn definitions(columns: &Columns) -> Value {
    columns
        .heads
        .iter()
        .map(|head| {
            let format = if head.name == "Name" { "name" } else { "" };
            json!({
                "name": head.name,
                "type": head.kind,
                "format": format,
                "description": "",
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
