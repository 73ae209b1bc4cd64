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
fn a_patch_is_an_object() {
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
    fn a_patch_twice_is_a_patch_once(object in any_object(), patch in any_object()) {
        let once = apply(object.clone(), &patch).unwrap();
        prop_assert_eq!(apply(once.clone(), &patch).unwrap(), once);
    }

    #[test]
    fn any_patch_is_made_or_refused(object in any_value(), patch in any_value()) {
        prop_assert_eq!(apply(object.clone(), &patch).is_ok(), matches!(patch, Value::Object(_)));
    }
}
