//! Validates lists: number of items, uniqueness, and list types.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::Walk;
use super::messages::{invalid, too_many};
use crate::crd::schema::{ListType, Schema};
use crate::path::Path;
use crate::strategy::Cause;

impl Walk {
    pub(super) fn list(
        &mut self,
        schema: &Schema,
        elements: &[Value],
        before: Option<&Vec<Value>>,
        path: &Path<'_>,
    ) {
        if let Some(rules) = schema.rules.as_deref() {
            let count = elements.len() as u64;
            let name = || path.to_owned().to_string();
            if let Some(most) = rules.items.most.filter(|most| count > *most) {
                self.add(too_many(&name(), count, most));
            }
            if let Some(least) = rules.items.least.filter(|least| count < *least) {
                let what = format!("should have at least {least} items");
                self.add(invalid(&name(), &Value::from(count), &what));
            }
            let mut seen = HashSet::new();
            if rules.unique && !elements.iter().all(|element| seen.insert(canonical(element))) {
                let what = "shouldn't contain duplicates";
                self.add(Cause::invalid(name(), "\"\"", &format!("{} in body {what}", name())));
            }
        }
        self.duplicates(schema, elements, path);
        let Some(items) = &schema.items else { return };
        let before = correlated(schema, elements, before);
        for (at, (element, before)) in elements.iter().zip(before).enumerate() {
            self.value(items, element, before, &path.index(at));
        }
    }

    /// Rejects duplicates in lists of type `set` and `map`.
    fn duplicates(&mut self, schema: &Schema, elements: &[Value], path: &Path<'_>) {
        let nothing = Schema::default();
        let items = schema.items.as_deref().unwrap_or(&nothing);
        let mut seen = HashSet::new();
        for (at, element) in elements.iter().enumerate() {
            let name = match &schema.list {
                ListType::Atomic => return,
                ListType::Set => element.clone(),
                ListType::Map(_) if !element.is_object() => continue,
                ListType::Map(keys) => key(element, keys, items),
            };
            if !seen.insert(canonical(&name)) {
                self.add(Cause::duplicate(path.index(at).to_owned().to_string(), name));
            }
        }
    }
}

/// Returns for each element the old element with the same keys. Only elements of lists of type `map` can be
/// correlated.
pub(in crate::crd) fn correlated<'v>(
    schema: &Schema,
    elements: &[Value],
    before: Option<&'v Vec<Value>>,
) -> Vec<Option<&'v Value>> {
    let (ListType::Map(keys), Some(items), Some(before)) = (&schema.list, &schema.items, before) else {
        return vec![None; elements.len()];
    };
    let name = |element: &Value| canonical(&key(element, keys, items));
    let before: HashMap<String, &Value> = before.iter().map(|element| (name(element), element)).collect();
    elements.iter().map(|element| before.get(&name(element)).copied()).collect()
}

/// The key fields of an element, with defaults.
fn key(element: &Value, keys: &[String], items: &Schema) -> Value {
    let field = |key: &String| {
        let default = || items.property(key).and_then(|property| property.default.as_deref());
        element.get(key).or_else(default).map(|value| (key.clone(), value.clone()))
    };
    Value::Object(keys.iter().filter_map(field).collect())
}

/// Returns a text that is the same for equal values, independent of the order of fields.
fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
                fields.sort_by_key(|(name, _)| *name);
                Value::Object(
                    fields
                        .into_iter()
                        .map(|(name, value)| (name.clone(), sorted(value)))
                        .collect::<Map<_, _>>(),
                )
            }
            Value::Array(elements) => elements.iter().map(sorted).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
        }
    }
    sorted(value).to_string()
}
