//! Columns of server-side tables, as kubectl prints them.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Conversion, Text};

/// Columns of a resource.
pub trait Columns: Send + Sync {
    /// Column definitions.
    fn heads(&self) -> Vec<Head>;

    /// Cells of an object, one per column.
    fn cells(&self, object: &Map<String, Value>, now: Timestamp) -> Vec<Value>;
}

/// A column definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Name of the column.
    pub name: Text,
    /// Type of the cells: `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: Text,
    /// Format: `name` for the name of the object, otherwise empty.
    pub format: Text,
    /// Description of the column.
    pub description: Text,
    /// Priority: 0 if the column is always shown, 1 if only with `-o wide`.
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

/// Columns of a stored kind, for a served version that is converted to it.
pub struct ConvertedColumns<C, V> {
    /// Columns of the stored kind.
    pub columns: C,
    /// Conversion to the stored kind.
    pub conversion: V,
}

impl<C: Columns, V: Conversion> Columns for ConvertedColumns<C, V> {
    fn heads(&self) -> Vec<Head> {
        self.columns.heads()
    }

    fn cells(&self, object: &Map<String, Value>, now: Timestamp) -> Vec<Value> {
        self.columns.cells(&self.conversion.to_stored(object.clone()), now)
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

impl Columns for api::table::CustomColumns {
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
