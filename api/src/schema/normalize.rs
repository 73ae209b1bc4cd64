//! Normalizes objects of any built-in kind to the form in which they are stored.

use serde_json::{Map, Value};

use super::field::Field;
use super::initial_status::zero_of;
use super::scalar;
use super::type_table::{Struct, all};
use super::types::Kind;
use crate::field_error::{FieldError, FieldErrors};
use crate::path::Path;
use crate::quantity::Quantity;

/// Normalizes numbers and quantities, removes nulls and zero values that are the same as absent, and returns values of
/// the wrong type. Those values and unknown fields stay unchanged. Custom resources stay unchanged.
pub fn normalize(object: &mut Map<String, Value>, api_version: &str, kind: &str) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    if let Some(of) = all().kind_of(api_version, kind) {
        fields(of, object, &Path::ROOT, &mut errors);
    }
    errors.into_vec()
}

fn fields(of: &'static Struct, object: &mut Map<String, Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    object.retain(|name, value| {
        let Some(field) = of.field(name) else { return true };
        walk(&field.kind, value, &path.field(name), errors);
        !value.is_null() && !is_same_as_absent(field, value)
    });
}

/// True for a zero value that is the same as absent. Structs are always kept, because `emptyDir: {}` has a meaning.
fn is_same_as_absent(field: &Field, value: &Value) -> bool {
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

fn walk(kind: &'static Kind, value: &mut Value, path: &Path<'_>, errors: &mut FieldErrors) {
    match (kind, &mut *value) {
        (Kind::Any | Kind::OneOf(_), _)
        | (_, Value::Null)
        | (Kind::String | Kind::IntOrString, Value::String(_))
        | (Kind::Bool, Value::Bool(_)) => {}
        (Kind::Object(name), Value::Object(object)) => {
            if let Some(of) = all().get(name) {
                fields(of, object, path, errors);
            }
        }
        (Kind::List(of), Value::Array(elements)) => {
            for (at, element) in elements.iter_mut().enumerate() {
                // A list has no absent elements: `null` becomes the zero value.
                if let (Value::Null, Some(zero)) = (&*element, zero_of(of)) {
                    *element = zero;
                }
                walk(of, element, &path.index(at), errors);
            }
        }
        (Kind::Map(of), Value::Object(entries)) => {
            for (key, entry) in entries.iter_mut() {
                walk(of, entry, &path.key(key), errors);
            }
            entries.retain(|_, entry| !entry.is_null());
        }
        (Kind::Object(_) | Kind::List(_) | Kind::Map(_), found) => {
            let what = format!("expected {}, found {}", kind.described(), scalar::described(found));
            errors.add(path, what, format!("write {}", kind.described()));
        }
        (Kind::Quantity, Value::String(text)) => {
            if !canonical(text) {
                single(kind, value, path, errors);
            }
        }
        _ => single(kind, value, path, errors),
    }
}

/// Normalizes a scalar. An invalid one stays unchanged, so that validation reports it again.
fn single(kind: &'static Kind, value: &mut Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let given = value.clone();
    scalar::check(kind, value, path, errors);
    match value {
        Value::Null => *value = given,
        Value::String(text) if *kind == Kind::Quantity => drop(canonical(text)),
        _ => {}
    }
}

/// Formats a quantity canonically. Returns false if it is invalid.
fn canonical(text: &mut String) -> bool {
    let Ok(amount) = text.parse::<Quantity>() else { return false };
    *text = amount.to_string();
    true
}

#[cfg(test)]
mod tests {
    //! Tests of normalized objects and type errors.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use serde_json::{Value, json};

    fn fitted(mut object: Value, api_version: &str, kind: &str) -> (Value, Vec<String>) {
        let errors = super::normalize(object.as_object_mut().unwrap(), api_version, kind);
        (object, errors.iter().map(|error| format!("{}: {}", error.path, error.what)).collect())
    }

    #[test]
    fn quantities_are_canonical_and_empty_values_are_removed() {
        let pod = json!({
            "metadata": {"name": "a", "labels": {}, "creationTimestamp": null},
            "spec": {
                "hostNetwork": false, "automountServiceAccountToken": false, "nodeName": "",
                "terminationGracePeriodSeconds": 0, "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "c", "image": "", "ports": [{"containerPort": 80.0, "hostPort": 0}],
                    "resources": {"limits": {"cpu": 1, "memory": "1024Mi", "x/y": null}, "requests": {"cpu": "1000m"}},
                    "env": [{"name": "A", "value": ""}], "args": ["", "a"]}],
            },
        });
        let (pod, errors) = fitted(pod, "v1", "Pod");
        assert_eq!(errors, [] as [&str; 0]);
        let expected = json!({
            "metadata": {"name": "a"},
            "spec": {
                "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
                "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{"name": "c", "ports": [{"containerPort": 80}],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}},
                    "env": [{"name": "A"}], "args": ["", "a"]}],
            },
        });
        assert_eq!(pod, expected);
        assert_eq!(fitted(pod.clone(), "v1", "Pod").0, pod, "fitting is idempotent");
    }

    #[test]
    fn values_of_wrong_types_are_kept_and_reported() {
        let object = json!({"spec": {"replicas": "three", "paused": "no", "template": [], "x": 1}});
        let (left, errors) = fitted(object.clone(), "apps/v1", "Deployment");
        assert_eq!(left, object);
        let fields: Vec<&str> = errors.iter().filter_map(|error| error.split(':').next()).collect();
        assert_eq!(fields, ["spec.replicas", "spec.paused", "spec.template"]);
    }

    #[test]
    fn null_list_elements_become_zero_values() {
        let pod = json!({"metadata": {"finalizers": [null, "a"]}, "spec": {"containers": [null]}});
        let (pod, errors) = fitted(pod, "v1", "Pod");
        assert_eq!(errors, [] as [&str; 0]);
        assert_eq!(
            pod,
            json!({"metadata": {"finalizers": ["", "a"]}, "spec": {"containers": [{"name": ""}]}})
        );
    }
}
