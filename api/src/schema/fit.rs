//! Brings an object of any kind into the form the API stores: amounts in their one spelling, nothing that says nothing.

use serde_json::{Map, Value};

use super::all::{Struct, all};
use super::field::Field;
use super::first_status::zero_of;
use super::scalar;
use super::types::Kind;
use crate::fault::{Fault, Faults};
use crate::path::Path;
use crate::quantity::Quantity;

/// Repairs what the API takes differently (`1.0` for a whole number, a number for an amount), takes out nulls and
/// zeros that mean the same as absence, and returns the values that are of another type than their field. These, and
/// fields that the kind does not have, stay as they are. An object of a kind that is not built in is left alone.
pub fn fit(object: &mut Map<String, Value>, api_version: &str, kind: &str) -> Vec<Fault> {
    let mut faults = Faults::default();
    if let Some(of) = all().kind_of(api_version, kind) {
        fields(of, object, &Path::ROOT, &mut faults);
    }
    faults.into_vec()
}

fn fields(of: &'static Struct, object: &mut Map<String, Value>, path: &Path<'_>, faults: &mut Faults) {
    object.retain(|name, value| {
        let Some(field) = of.field(name) else { return true };
        walk(&field.kind, value, &path.field(name), faults);
        !value.is_null() && !says_nothing(field, value)
    });
}

/// True for a zero that is the same as absence; structs are always kept, as `emptyDir: {}` says something.
fn says_nothing(field: &Field, value: &Value) -> bool {
    if field.required || field.pointer {
        return false;
    }
    match (&field.kind, value) {
        (Kind::String | Kind::Bytes, Value::String(text)) => text.is_empty(),
        (Kind::Bool, Value::Bool(flag)) => !flag,
        (Kind::Int32 | Kind::Int64, Value::Number(number)) => number.as_i64() == Some(0),
        (Kind::List(_), Value::Array(elements)) => elements.is_empty(),
        (Kind::Map(_), Value::Object(entries)) => entries.is_empty(),
        _ => false,
    }
}

fn walk(kind: &'static Kind, value: &mut Value, path: &Path<'_>, faults: &mut Faults) {
    match (kind, &mut *value) {
        (Kind::Any | Kind::OneOf(_), _)
        | (_, Value::Null)
        | (Kind::String | Kind::IntOrString, Value::String(_))
        | (Kind::Bool, Value::Bool(_)) => {}
        (Kind::Object(name), Value::Object(object)) => {
            if let Some(of) = all().get(name) {
                fields(of, object, path, faults);
            }
        }
        (Kind::List(of), Value::Array(elements)) => {
            for (at, element) in elements.iter_mut().enumerate() {
                // There is no place for nothing in a list.
                if let (Value::Null, Some(zero)) = (&*element, zero_of(of)) {
                    *element = zero;
                }
                walk(of, element, &path.index(at), faults);
            }
        }
        (Kind::Map(of), Value::Object(entries)) => {
            for (key, entry) in entries.iter_mut() {
                walk(of, entry, &path.key(key), faults);
            }
            entries.retain(|_, entry| !entry.is_null());
        }
        (Kind::Object(_) | Kind::List(_) | Kind::Map(_), found) => {
            let what = format!("expected {}, found {}", kind.described(), scalar::described(found));
            faults.add(path, what, format!("write {}", kind.described()));
        }
        (Kind::Quantity, Value::String(text)) => {
            if !canonical(text) {
                single(kind, value, path, faults);
            }
        }
        _ => single(kind, value, path, faults),
    }
}

/// A value without parts, which stays when it is beyond repair, so that what is wrong is found again.
fn single(kind: &'static Kind, value: &mut Value, path: &Path<'_>, faults: &mut Faults) {
    let given = value.clone();
    scalar::check(kind, value, path, faults);
    match value {
        Value::Null => *value = given,
        Value::String(text) if *kind == Kind::Quantity => drop(canonical(text)),
        _ => {}
    }
}

/// Gives an amount its one spelling; false for what is none.
fn canonical(text: &mut String) -> bool {
    let Ok(amount) = text.parse::<Quantity>() else { return false };
    *text = amount.to_string();
    true
}

#[cfg(test)]
mod tests;
