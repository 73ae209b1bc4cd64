//! Sets the defaults of a schema.

use serde_json::Value;

use super::{Additional, Schema};
use crate::strategy::{DefaultsTooLarge, MAX_DEFAULT_BYTES};

impl Schema {
    /// Sets all defaults. A `null` value that is not nullable is replaced by the default.
    ///
    /// # Errors
    /// If the defaults are too large. Some defaults may be set then.
    pub fn fill(&self, value: &mut Value) -> Result<(), DefaultsTooLarge> {
        self.fill_within(value, &mut { MAX_DEFAULT_BYTES })
    }

    fn fill_within(&self, value: &mut Value, left: &mut usize) -> Result<(), DefaultsTooLarge> {
        match value {
            Value::Object(fields) => {
                for (name, property) in &self.properties {
                    let Some(default) = property.default.as_deref().filter(|_| !self.is_meta(name)) else {
                        continue;
                    };
                    match fields.get_mut(&**name) {
                        None => {
                            take(left, name.len() + 4)?;
                            drop(fields.insert(String::from(&**name), copy(default, left)?));
                        }
                        Some(value) if value.is_null() && !property.nullable => *value = copy(default, left)?,
                        Some(_) => {}
                    }
                }
                let mut filled = Ok(());
                fields.retain(|name, value| {
                    if filled.is_err() || self.is_meta(name) {
                        return true;
                    }
                    let of = self.property(name).or(match &self.additional {
                        Additional::Schema(values) => Some(values),
                        Additional::Any | Additional::None => None,
                    });
                    let Some(of) = of else { return true };
                    if value.is_null() && !of.nullable {
                        // A `null` value that is not nullable and has no default is removed.
                        let Some(default) = of.default.as_deref() else { return of.takes_null() };
                        match copy(default, left) {
                            Ok(default) => *value = default,
                            Err(too_large) => filled = Err(too_large),
                        }
                    }
                    filled = filled.and_then(|()| of.fill_within(value, left));
                    true
                });
                filled
            }
            Value::Array(elements) => {
                let Some(items) = &self.items else { return Ok(()) };
                for element in elements {
                    if let (Value::Null, false, Some(default)) = (&*element, items.nullable, &items.default) {
                        *element = copy(default, left)?;
                    }
                    items.fill_within(element, left)?;
                }
                Ok(())
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    /// True if the schema has no type, so that `null` is valid.
    fn takes_null(&self) -> bool {
        self.kind == super::Kind::Any
    }
}

/// Copies a default, within the size limit.
fn copy(default: &Value, left: &mut usize) -> Result<Value, DefaultsTooLarge> {
    take(left, json_bytes(default))?;
    Ok(default.clone())
}

fn take(left: &mut usize, bytes: usize) -> Result<(), DefaultsTooLarge> {
    *left = left.checked_sub(bytes).ok_or(DefaultsTooLarge)?;
    Ok(())
}

/// The approximate size of a value in JSON, without escapes.
fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(elements) => 2 + elements.iter().map(|element| json_bytes(element) + 1).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + json_bytes(value)).sum::<usize>()
        }
    }
}
