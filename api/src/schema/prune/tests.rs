//! Tests of pruning unknown fields.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use super::prune;

fn check(api_version: &str, kind: &str, object: Value, expected: Value, unknown: &[&str]) {
    let Value::Object(mut object) = object else { panic!("not an object") };
    assert_eq!(prune(&mut object, api_version, kind), unknown);
    assert_eq!(Value::Object(object), expected);
}

#[test]
fn unknown_fields_are_removed() {
    let pod = json!({"kind": "Pod", "metadata": {"name": "a", "nam": 1}, "spec": {"containers": [{"name": "c", "imagee": "x"}]}, "x": {}});
    let pruned = json!({"kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}});
    check("v1", "Pod", pod, pruned, &["metadata.nam", "spec.containers[0].imagee", "x"]);
}

#[test]
fn maps_and_free_forms_stay() {
    let map = json!({"metadata": {"name": "a", "labels": {"any": "thing"}}, "data": {"x.y": "z"}});
    check("v1", "ConfigMap", map.clone(), map, &[]);
    let own = json!({"spec": {"any": "thing"}});
    check("example.com/v1", "Own", own.clone(), own, &[]);
}

#[test]
fn null_is_absent() {
    let mut object = serde_json::json!({"metadata": {"name": "a", "creationTimestamp": null, "labels": {"a": null, "b": "c"}},
        "spec": {"replicas": null, "template": {"spec": {"containers": [{"name": "a", "image": null}]}}}});
    let object = object.as_object_mut().unwrap();
    assert_eq!(super::prune(object, "apps/v1", "Deployment"), Vec::<String>::new());
    let kept = serde_json::json!({"metadata": {"name": "a", "labels": {"b": "c"}},
        "spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}});
    assert_eq!(serde_json::Value::Object(object.clone()), kept);
}
