//! Fields of API objects, as the compact types of the scheduler are made of them.

use serde_json::Value;

use super::labels::Labels;
use crate::controllers::Json;

/// A field by its path (`spec.nodeName`).
pub fn at<'a>(object: &'a Json, path: &str) -> Option<&'a Value> {
    let mut names = path.split('.');
    let first = object.get(names.next()?)?;
    names.try_fold(first, |value, name| value.get(name))
}

/// A text, empty when there is none.
pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The text at a path of an object, empty when there is none.
pub fn text_at(object: &Json, path: &str) -> String {
    at(object, path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The elements of a list, none when there is no list.
pub fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

/// The texts of a list.
pub fn texts(value: Option<&Value>) -> Vec<String> {
    list(value).filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A map of texts.
pub fn labels(value: Option<&Value>) -> Labels {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
