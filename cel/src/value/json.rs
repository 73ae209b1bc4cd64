//! Converts values from and to JSON.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Number, Value as Json};

use super::{Key, Value, duration, timestamp};
use crate::budget::Budget;
use crate::error::Error;

impl From<&Json> for Value {
    /// Converts JSON without a schema.
    fn from(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => Self::from(number),
            Json::String(text) => Self::from(text.as_str()),
            Json::Array(items) => Self::list(items.iter().map(Self::from).collect()),
            Json::Object(fields) => Self::from(fields),
        }
    }
}

impl From<&serde_json::Map<String, Json>> for Value {
    fn from(fields: &serde_json::Map<String, Json>) -> Self {
        Self::map(fields.iter().map(|(name, value)| (Key::from(name.as_str()), Self::from(value))))
    }
}

impl From<&Number> for Value {
    fn from(number: &Number) -> Self {
        match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Self::Int(value),
            (None, Some(value)) => Self::Uint(value),
            (None, None) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
        }
    }
}

impl Value {
    /// Converts a value to JSON. Each reference to a shared value creates a copy, and each copy is charged.
    ///
    /// # Errors
    /// If a value has no JSON representation, or the budget is exceeded.
    pub fn to_json(&self, budget: &mut Budget) -> Result<Json, Error> {
        budget.charge(1)?;
        Ok(match self {
            Self::Null | Self::Optional(None) => Json::Null,
            Self::Bool(value) => (*value).into(),
            Self::Int(value) => (*value).into(),
            Self::Uint(value) => (*value).into(),
            Self::Double(value) => Number::from_f64(*value).map(Json::Number).ok_or_else(|| no_json(self))?,
            Self::String(text) => {
                budget.charge_bytes(text.len())?;
                Json::from(&**text)
            }
            Self::Bytes(bytes) => {
                budget.charge_bytes(bytes.len())?;
                BASE64_STANDARD.encode(bytes).into()
            }
            Self::List(list) => {
                list.items.iter().map(|item| item.to_json(budget)).collect::<Result<Json, _>>()?
            }
            Self::Map(map) => {
                let fields = map.iter().map(|(key, value)| Ok((key.to_string(), value.to_json(budget)?)));
                Json::Object(fields.collect::<Result<_, Error>>()?)
            }
            Self::Duration(nanos) => duration(*nanos).into(),
            Self::Timestamp(at) => timestamp(*at).into(),
            Self::Optional(Some(value)) => value.to_json(budget)?,
            Self::Type(_) | Self::Opaque(_) => return Err(no_json(self)),
        })
    }
}

fn no_json(value: &Value) -> Error {
    Error::failed(format!("a {} cannot be written as JSON", value.type_name()))
}
