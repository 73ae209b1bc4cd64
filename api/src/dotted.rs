//! Reads and writes JSON fields at dotted paths such as `spec.replicas`.

use serde_json::{Map, Value};

/// A JSON object.
type Json = Map<String, Value>;

/// The string at a path; empty if there is none.
pub(crate) fn text<'a>(object: &'a Json, path: &str) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The value at a path, or `None` for `null`.
pub(crate) fn at<'a>(object: &'a Json, path: &str) -> Option<&'a Value> {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut fields = object;
    for name in parents.split('.').filter(|name| !name.is_empty()) {
        fields = fields.get(name)?.as_object()?;
    }
    fields.get(last).filter(|value| !value.is_null())
}

/// The mutable value at a path.
pub(crate) fn at_mut<'a>(object: &'a mut Json, path: &str) -> Option<&'a mut Value> {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut fields = object;
    for name in parents.split('.').filter(|name| !name.is_empty()) {
        fields = fields.get_mut(name)?.as_object_mut()?;
    }
    fields.get_mut(last)
}

/// The object at a path, created if it is missing. `None` if another value is in the way.
pub(crate) fn fields_at<'a>(object: &'a mut Json, path: &str) -> Option<&'a mut Json> {
    let mut fields = object;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let value = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        fields = value.as_object_mut()?;
    }
    Some(fields)
}

/// Sets the value at a path if it is missing, `null` or an empty string.
pub(crate) fn fill(object: &mut Json, path: &str, value: impl Into<Value>) {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    let Some(fields) = fields_at(object, parents) else { return };
    let is_silent = match fields.get(last) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    };
    if is_silent {
        fields.insert(last.to_owned(), value.into());
    }
}

/// Calls [`fill`] for each row of a table.
pub(crate) fn fill_all(object: &mut Json, table: &[(&str, Value)]) {
    for (path, value) in table {
        fill(object, path, value.clone());
    }
}

/// Sets or removes the value at a path.
pub(crate) fn set(object: &mut Json, path: &str, value: Option<Value>) {
    let (parents, last) = path.rsplit_once('.').unwrap_or(("", path));
    match value {
        Some(value) => {
            if let Some(fields) = fields_at(object, parents) {
                fields.insert(last.to_owned(), value);
            }
        }
        None => {
            let fields = if parents.is_empty() { Some(object) } else { object_at(object, parents) };
            if let Some(fields) = fields {
                fields.remove(last);
            }
        }
    }
}

/// The mutable object at a path.
pub(crate) fn object_at<'a>(object: &'a mut Json, path: &str) -> Option<&'a mut Json> {
    at_mut(object, path).and_then(Value::as_object_mut)
}

/// The objects in the list at a path.
pub(crate) fn each<'a>(object: &'a mut Json, path: &str) -> impl Iterator<Item = &'a mut Json> {
    let list = at_mut(object, path).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}
