//! Takes out of an object what its kind does not have, as the API does with every typed object.

use serde_json::{Map, Value};

use super::all::{Struct, all};
use super::types::Kind;

/// Fields that are named at most; an object that has more is wrong as a whole.
const NAMED: usize = 100;

/// Takes out every field that the kind does not have and returns their paths (`spec.containers[0].imagee`). An object
/// of a kind that is not built in is left alone.
pub fn prune(object: &mut Map<String, Value>, api_version: &str, kind: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(of) = all().kind_of(api_version, kind) {
        fields(of, object, "", &mut unknown);
    }
    unknown.truncate(NAMED);
    unknown
}

fn fields(of: &'static Struct, object: &mut Map<String, Value>, path: &str, unknown: &mut Vec<String>) {
    object.retain(|name, value| {
        let here = || if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match of.field(name) {
            Some(field) => walk(&field.kind, value, here, unknown),
            None => unknown.push(here()),
        }
        of.field(name).is_some()
    });
}

/// The path is made only where something lies below it.
fn walk(kind: &'static Kind, value: &mut Value, path: impl Fn() -> String, unknown: &mut Vec<String>) {
    match (kind, value) {
        (Kind::Object(name), Value::Object(object)) => {
            if let Some(of) = all().get(name) {
                fields(of, object, &path(), unknown);
            }
        }
        (Kind::List(of), Value::Array(elements)) => {
            for (at, element) in elements.iter_mut().enumerate() {
                if element.is_object() {
                    let here = format!("{}[{at}]", path());
                    walk(of, element, || here.clone(), unknown);
                }
            }
        }
        (Kind::Map(of), Value::Object(entries)) => {
            for (key, entry) in entries.iter_mut().filter(|(_, entry)| entry.is_object()) {
                let here = format!("{}.{key}", path());
                walk(of, entry, || here.clone(), unknown);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
