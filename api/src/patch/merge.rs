//! JSON merge patch (RFC 7386): objects are merged, `null` deletes, other values replace.

use serde_json::{Map, Value};

use super::{PatchError, check_depth};

/// Applies a merge patch to `object`.
///
/// # Errors
/// If the patch is not a JSON object.
pub fn apply(mut object: Value, patch: &Value) -> Result<Value, PatchError> {
    check_depth(&object, patch)?;
    let Value::Object(changes) = patch else {
        return Err(PatchError::Malformed("a JSON merge patch must be a JSON object".to_owned()));
    };
    merge(&mut object, changes);
    Ok(object)
}

fn merge(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    fields.retain(|name, _| patch.get(name) != Some(&Value::Null));
    for (name, change) in patch {
        match change {
            Value::Null => {}
            Value::Object(change) => merge(fields.entry(name.as_str()).or_insert(Value::Null), change),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                fields.insert(name.clone(), change.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests of JSON merge patches.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::apply;
    use crate::patch::PatchError;
    use crate::shape::random::{any_object, any_value};

    #[test]
    fn objects_merge_and_null_deletes() {
        for (object, patch, merged) in [
            (json!({"a": 1}), json!({}), json!({"a": 1})),
            (json!({"a": 1}), json!({"a": 2, "b": 3}), json!({"a": 2, "b": 3})),
            (json!({"a": 1, "b": 2}), json!({"a": null, "none": null}), json!({"b": 2})),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null}}), json!({"a": {"c": 2}})),
            (json!({"a": [1, 2]}), json!({"a": [3]}), json!({"a": [3]})),
            (json!({"a": [1]}), json!({"a": {"b": null, "c": 1}}), json!({"a": {"c": 1}})),
            (json!({}), json!({"a": {"b": {"c": null}}}), json!({"a": {"b": {}}})),
            (json!({"a": {"b": 1}}), json!({"a": "x"}), json!({"a": "x"})),
            (json!({}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]})),
        ] {
            assert_eq!(apply(object.clone(), &patch), Ok(merged), "{patch}");
        }
    }

    #[test]
    fn merge_patch_must_be_an_object() {
        for patch in [json!(null), json!(1), json!([]), json!("x")] {
            assert!(matches!(apply(json!({}), &patch), Err(PatchError::Malformed(_))), "{patch}");
        }
    }

    #[test]
    fn deep_patches_are_refused() {
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"d": deep});
        }
        assert!(matches!(apply(json!({}), &deep), Err(PatchError::TooLarge(_))));
        assert!(matches!(apply(deep.clone(), &json!({})), Err(PatchError::TooLarge(_))));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn patch_is_idempotent(object in any_object(), patch in any_object()) {
            let once = apply(object.clone(), &patch).unwrap();
            prop_assert_eq!(apply(once.clone(), &patch).unwrap(), once);
        }

        #[test]
        fn patch_never_panics(object in any_value(), patch in any_value()) {
            prop_assert_eq!(apply(object.clone(), &patch).is_ok(), matches!(patch, Value::Object(_)));
        }
    }
}
