//! Objects as people read them: the `Table` that kubectl prints.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::request::Include;
use crate::resource::{Text, View};

/// How objects of one resource are printed.
pub trait Columns: Send + Sync {
    /// The heads.
    fn heads(&self) -> Vec<Head>;

    /// The cells of one object, as many as there are heads.
    fn cells(&self, object: &Map<String, Value>, now: Timestamp) -> Vec<Value>;
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// What stands over it.
    pub name: Text,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: Text,
    /// More about the kind: `name` for the object's name.
    pub format: Text,
    /// What it shows.
    pub description: Text,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: i32,
}

impl Columns for api::table::Columns {
    fn heads(&self) -> Vec<Head> {
        self.heads.iter().map(Head::from).collect()
    }

    fn cells(&self, object: &Map<String, Value>, now: Timestamp) -> Vec<Value> {
        (self.cells)(object, now)
    }
}

/// The columns of what is stored, for what is shown in another way.
pub(crate) struct Through<C, V> {
    /// How what is stored is printed.
    pub columns: C,
    /// How what is shown came about.
    pub view: V,
}

impl<C: Columns, V: View> Columns for Through<C, V> {
    fn heads(&self) -> Vec<Head> {
        self.columns.heads()
    }

    fn cells(&self, object: &Map<String, Value>, now: Timestamp) -> Vec<Value> {
        self.columns.cells(&self.view.stored(object.clone()), now)
    }
}

impl From<&api::table::Column> for Head {
    fn from(column: &api::table::Column) -> Self {
        Self {
            name: column.name.into(),
            kind: column.kind.into(),
            format: column.format.into(),
            description: column.description.into(),
            priority: column.priority,
        }
    }
}

impl Columns for api::table::Custom {
    fn heads(&self) -> Vec<Head> {
        let name = Head::from(&api::table::NAME);
        let others = self.columns().iter().map(|column| Head {
            name: column.name.clone().into(),
            kind: column.kind.clone().into(),
            format: column.format.clone().into(),
            description: column.description.clone().into(),
            priority: column.priority,
        });
        std::iter::once(name).chain(others).collect()
    }

    fn cells(&self, object: &Map<String, Value>, now: Timestamp) -> Vec<Value> {
        self.cells(object, now)
    }
}

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

/// A table of these objects; `metadata` is that of the list.
pub fn table(
    columns: &dyn Columns,
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

/// What is left of an object when only its metadata is asked for.
pub fn metadata_only(mut object: Map<String, Value>) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object.remove("metadata").unwrap_or_default(),
    })
}

fn row(columns: &dyn Columns, object: Map<String, Value>, include: Include, now: Timestamp) -> Value {
    let cells = columns.cells(&object, now);
    let object = match include {
        Include::None => return json!({"cells": cells}),
        Include::Object => Value::Object(object),
        Include::Metadata => metadata_only(object),
    };
    json!({"cells": cells, "object": object})
}
