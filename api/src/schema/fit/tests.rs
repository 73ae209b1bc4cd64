//! What is left of an object, and what is found wrong with it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use serde_json::{Value, json};

fn fitted(mut object: Value, api_version: &str, kind: &str) -> (Value, Vec<String>) {
    let faults = super::fit(object.as_object_mut().unwrap(), api_version, kind);
    (object, faults.iter().map(|fault| format!("{}: {}", fault.path, fault.what)).collect())
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
    let (pod, faults) = fitted(pod, "v1", "Pod");
    assert_eq!(faults, [] as [&str; 0]);
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
fn what_is_of_another_type_stays_and_is_told() {
    let object = json!({"spec": {"replicas": "three", "paused": "no", "template": [], "x": 1}});
    let (left, faults) = fitted(object.clone(), "apps/v1", "Deployment");
    assert_eq!(left, object);
    let fields: Vec<&str> = faults.iter().filter_map(|fault| fault.split(':').next()).collect();
    assert_eq!(fields, ["spec.replicas", "spec.paused", "spec.template"]);
}

#[test]
fn nothing_in_a_list_is_what_it_would_be_by_itself() {
    let pod = json!({"metadata": {"finalizers": [null, "a"]}, "spec": {"containers": [null]}});
    let (pod, faults) = fitted(pod, "v1", "Pod");
    assert_eq!(faults, [] as [&str; 0]);
    assert_eq!(pod, json!({"metadata": {"finalizers": ["", "a"]}, "spec": {"containers": [{"name": ""}]}}));
}
