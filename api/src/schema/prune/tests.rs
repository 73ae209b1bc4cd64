//! What is unknown goes and is named, and nothing else is touched.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

use super::prune;

fn check(api_version: &str, kind: &str, object: Value, expected: Value, unknown: &[&str]) {
    let Value::Object(mut object) = object else { panic!("not an object") };
    assert_eq!(prune(&mut object, api_version, kind), unknown);
    assert_eq!(Value::Object(object), expected);
}

#[test]
fn unknown_fields_go() {
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
