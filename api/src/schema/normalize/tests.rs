//! Tests of normalized objects and type errors.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

fn fitted(mut object: Value, api_version: &str, kind: &str) -> (Value, Vec<String>) {
    let errors = super::normalize(object.as_object_mut().unwrap(), api_version, kind);
    (object, errors.iter().map(|error| format!("{}: {}", error.path, error.what)).collect())
}

#[test]
fn amounts_have_one_spelling_and_zeros_that_say_nothing_go() {
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
    assert_eq!(pod, json!({"metadata": {"finalizers": ["", "a"]}, "spec": {"containers": [{"name": ""}]}}));
}
