//! Fills in what a schema says of fields that were left out.

use serde_json::Value;

use super::{Additional, Schema};

impl Schema {
    /// Sets every default, in objects that are there; a `null` where there can be none counts as left out.
    pub fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, property) in &self.properties {
                    let Some(default) = property.default.as_deref().filter(|_| !self.is_meta(name)) else {
                        continue;
                    };
                    match fields.get_mut(&**name) {
                        None => drop(fields.insert(String::from(&**name), default.clone())),
                        Some(value) if value.is_null() && !property.nullable => *value = default.clone(),
                        Some(_) => {}
                    }
                }
                fields.retain(|name, value| {
                    if self.is_meta(name) {
                        return true;
                    }
                    let of = self.property(name).or(match &self.additional {
                        Additional::Schema(values) => Some(values),
                        Additional::Any | Additional::None => None,
                    });
                    let Some(of) = of else { return true };
                    if value.is_null() && !of.nullable {
                        // What may not be `null` and has no default is as if it had not been written.
                        let Some(default) = of.default.as_deref() else { return of.takes_null() };
                        *value = default.clone();
                    }
                    of.fill(value);
                    true
                });
            }
            Value::Array(elements) => {
                let Some(items) = &self.items else { return };
                for element in elements {
                    if let (Value::Null, false, Some(default)) = (&*element, items.nullable, &items.default) {
                        *element = (**default).clone();
                    }
                    items.fill(element);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// True when nothing is said of the value that `null` would break.
    fn takes_null(&self) -> bool {
        self.kind == super::Kind::Any
    }
}
