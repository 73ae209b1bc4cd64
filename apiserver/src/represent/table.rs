//! Server-side tables (`Table`), as kubectl prints them.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::MetaVersion;
use crate::request::Include;
use crate::resource::Columns;

/// The `columnDefinitions` of a table.
pub fn definitions(columns: &dyn Columns) -> Value {
    let heads = columns.heads().into_iter().map(|head| {
        json!({
            "name": head.name,
            "type": head.kind,
            "format": head.format,
            "description": head.description,
            "priority": head.priority,
        })
    });
    heads.collect()
}

/// Options of a table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// `apiVersion` of the table and of partial metadata.
    pub version: MetaVersion,
    /// The part of the object that each row contains.
    pub include: Include,
    /// Whether the table includes column definitions. A watch sends them once.
    pub with_columns: bool,
    /// Current time, for ages.
    pub now: Timestamp,
}

impl Table {
    /// Creates a table of these objects. `metadata` is the list metadata.
    pub fn of(
        &self,
        columns: &dyn Columns,
        objects: impl Iterator<Item = Map<String, Value>>,
        metadata: Value,
    ) -> Value {
        let rows: Vec<Value> = objects.map(|object| self.row(columns, object)).collect();
        json!({
            "kind": "Table",
            "apiVersion": self.version.api_version(),
            "metadata": metadata,
            "columnDefinitions": if self.with_columns { definitions(columns) } else { Value::Null },
            "rows": rows,
        })
    }

    fn row(&self, columns: &dyn Columns, mut object: Map<String, Value>) -> Value {
        let cells = columns.cells(&object, self.now);
        let object = match self.include {
            Include::None => return json!({"cells": cells}),
            Include::Object => Value::Object(object),
            Include::Metadata => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": self.version.api_version(),
                "metadata": object.remove("metadata").unwrap_or_default(),
            }),
        };
        json!({"cells": cells, "object": object})
    }
}
