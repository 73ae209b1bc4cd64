//! Tests of JSON patch operations and their limits.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{MAX_OPERATIONS, apply};
use crate::patch::PatchError;
use crate::shape::random::{any_object, any_value};

fn object() -> Value {
    json!({"metadata": {"name": "web", "labels": {"app": "web", "a/b": "x"}}, "spec": {"list": [1, 2, 3], "replicas": 2}})
}

#[test]
fn json_patch_operations_change_their_targets() {
    for (patch, path, expected) in [
        (json!([]), "/spec/replicas", json!(2)),
        (json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]), "/spec/replicas", json!(5)),
        (
            json!([{"op": "add", "path": "/metadata/labels/new", "value": "y"}]),
            "/metadata/labels/new",
            json!("y"),
        ),
        (json!([{"op": "add", "path": "/spec/replicas", "value": 7}]), "/spec/replicas", json!(7)),
        (json!([{"op": "add", "path": "/spec/list/-", "value": 4}]), "/spec/list", json!([1, 2, 3, 4])),
        (json!([{"op": "add", "path": "/spec/list/0", "value": 0}]), "/spec/list", json!([0, 1, 2, 3])),
        (json!([{"op": "remove", "path": "/spec/list/1"}]), "/spec/list", json!([1, 3])),
        (
            json!([{"op": "remove", "path": "/metadata/labels/a~1b"}]),
            "/metadata/labels",
            json!({"app": "web"}),
        ),
        (
            json!([{"op": "copy", "from": "/metadata/labels/app", "path": "/spec/app"}]),
            "/spec/app",
            json!("web"),
        ),
        (
            json!([{"op": "move", "from": "/spec/list", "path": "/spec/moved"}]),
            "/spec/moved",
            json!([1, 2, 3]),
        ),
        (json!([{"op": "test", "path": "/spec/replicas", "value": 2}]), "/spec/replicas", json!(2)),
        (json!([{"op": "test", "path": "/spec/none", "value": null}]), "/spec/replicas", json!(2)),
        (json!([{"op": "test", "path": "/spec/none"}]), "/spec/replicas", json!(2)),
        (json!([{"op": "replace", "path": "/metadata/labels"}]), "/metadata/labels", json!(null)),
        (json!([{"op": "add", "path": "/spec/none"}]), "/spec/none", json!(null)),
        (
            json!([{"op": "test", "path": "/spec/list", "value": [1, 2, 3]}, {"op": "replace", "path": "/spec", "value": {}}]),
            "/spec",
            json!({}),
        ),
    ] {
        let patched = apply(object(), &patch).unwrap();
        assert_eq!(patched.pointer(path), Some(&expected), "{patch}");
    }
}

#[test]
fn json_patch_error_names_the_failed_operation() {
    for (patch, message) in [
        (
            json!([{"op": "test", "path": "/spec/replicas", "value": 2}, {"op": "test", "path": "/spec/replicas", "value": 3}]),
            "operation 1 (test /spec/replicas): test failed: the value differs",
        ),
        (
            json!([{"op": "test", "path": "/spec/none", "value": 1}]),
            "operation 0 (test /spec/none): the path does not exist",
        ),
        (
            json!([{"op": "remove", "path": "/spec/none"}]),
            "operation 0 (remove /spec/none): the path does not exist",
        ),
        (
            json!([{"op": "replace", "path": "/none/x", "value": 1}]),
            "operation 0 (replace /none/x): the path does not exist",
        ),
        (
            json!([{"op": "add", "path": "/spec/list/9", "value": 1}]),
            "operation 0 (add /spec/list/9): the path does not exist",
        ),
        (
            json!([{"op": "copy", "from": "/none", "path": "/x"}]),
            "operation 0 (copy /x): `from` does not exist",
        ),
        (
            json!([{"op": "move", "from": "/spec", "path": "/spec/in"}]),
            "operation 0 (move /spec/in): cannot move",
        ),
        (json!([{"op": "replace", "path": "", "value": 1}]), "the result of the patch is not an object"),
    ] {
        match apply(object(), &patch) {
            Err(PatchError::Unprocessable(what)) => assert!(what.starts_with(message), "{what}"),
            other => panic!("{patch}: {other:?}"),
        }
    }
}

#[test]
fn invalid_patches_are_bad_requests() {
    for patch in [
        json!({}),
        json!("x"),
        json!([1]),
        json!([{}]),
        json!([{"op": "jump", "path": "/x"}]),
        json!([{"op": "remove"}]),
        json!([{"op": "remove", "path": "spec"}]),
        json!([{"op": "remove", "path": "/a~2b"}]),
    ] {
        assert!(matches!(apply(object(), &patch), Err(PatchError::Malformed(_))), "{patch}");
    }
}

#[test]
fn json_patch_limits_are_enforced() {
    let test = json!({"op": "test", "path": "/spec/replicas", "value": 2});
    assert!(apply(object(), &Value::Array(vec![test.clone(); MAX_OPERATIONS])).is_ok());
    let doubling = |time| json!({"op": "copy", "from": "/spec", "path": format!("/spec/copy{time}")});
    let mut deepening = vec![json!({"op": "add", "path": "/d", "value": {}})];
    for depth in 1..200 {
        deepening.push(json!({"op": "add", "path": "/d".repeat(depth + 1), "value": {}}));
    }
    let swap = [
        json!({"op": "move", "from": "/spec", "path": "/metadata/spec"}),
        json!({"op": "move", "from": "/metadata/spec", "path": "/spec"}),
    ];
    let big = json!({"metadata": {}, "spec": {"text": "x".repeat(1_000_000)}});
    for (object, patch) in [
        (object(), vec![test; MAX_OPERATIONS + 1]),
        (object(), (0..40).map(doubling).collect()),
        (object(), deepening),
        (big, swap.iter().cycle().take(200).cloned().collect()),
    ] {
        assert!(matches!(apply(object.clone(), &Value::Array(patch)), Err(PatchError::TooLarge(_))));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn patch_never_panics(
        object in any_object(),
        value in any_value(),
        op in prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]),
        from in "(/[a-d0-2~-]{0,2}){0,3}",
        path in "(/[a-d0-2~-]{0,2}){0,3}",
    ) {
        let patch = json!([{"op": op, "from": from, "path": path, "value": value}]);
        if let Ok(patched) = apply(object.clone(), &patch) {
            prop_assert!(patched.is_object());
        }
    }
}
