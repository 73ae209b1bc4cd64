//! Printer columns of custom resources (`additionalPrinterColumns`).

use jiff::Timestamp;
use serde_json::Value;

use super::json_path::JsonPath;
use super::{Object, age, text};

/// A printer column of a custom resource.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomColumn {
    /// The column header.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// The OpenAPI format.
    pub format: String,
    /// The description of the column.
    pub description: String,
    /// 0 for columns that are always shown; higher ones are shown with `-o wide`.
    pub priority: i32,
    /// The path of the value.
    pub json_path: JsonPath,
}

/// The printer columns of a custom resource, after the name.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomColumns {
    columns: Vec<CustomColumn>,
}

impl CustomColumns {
    /// Creates the columns. Without any, the table shows the age.
    pub fn new(mut columns: Vec<CustomColumn>) -> Self {
        if columns.is_empty() {
            let at = ["metadata", "creationTimestamp"];
            columns.push(CustomColumn {
                name: super::AGE.name.to_owned(),
                kind: "date".to_owned(),
                format: String::new(),
                description: super::AGE.description.to_owned(),
                priority: 0,
                json_path: JsonPath::of_names(&at),
            });
        }
        Self { columns }
    }

    /// The columns after the name.
    pub fn columns(&self) -> &[CustomColumn] {
        &self.columns
    }

    /// The cells of an object: its name, and one cell per column. A missing value is `null`.
    pub fn cells(&self, object: &Object, now: Timestamp) -> Vec<Value> {
        let name = text(object, "metadata", "name").into();
        let whole = Value::Object(object.clone());
        let cell = |column: &CustomColumn| {
            let found = column.json_path.find(&whole);
            found.first().map_or(Value::Null, |first| cell(&column.kind, first, &found, now))
        };
        std::iter::once(name).chain(self.columns.iter().map(cell)).collect()
    }
}

/// The value of a column. A value of another type is shown as `null`.
fn cell(kind: &str, first: &Value, all: &[&Value], now: Timestamp) -> Value {
    match (kind, first) {
        ("integer", Value::Number(number)) => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a number that is not whole shows what is whole of it"
            )]
            let whole = number.as_i64().or_else(|| number.as_f64().map(|number| number as i64));
            whole.into()
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => first.clone(),
        ("date", Value::String(moment)) => match moment.parse::<Timestamp>() {
            Ok(_) => age::since(moment, now).into(),
            Err(_) => "<invalid>".into(),
        },
        ("string", Value::String(_)) if all.len() == 1 => first.clone(),
        ("string", Value::Null) => Value::Null,
        ("string", _) => all.iter().map(|value| super::plain(value)).collect::<Vec<_>>().join(" ").into(),
        _ => Value::Null,
    }
}
