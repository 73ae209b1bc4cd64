//! Tests of metadata validation.

use serde_json::{Value, json};

use super::super::metadata;

fn messages(metadata_of: Value, before: Option<Value>, group: &str, kind: &str) -> Vec<String> {
    let object = json!({"metadata": metadata_of});
    let before = before.map(|before| json!({"metadata": before}));
    let causes =
        metadata(object.as_object().unwrap(), before.as_ref().and_then(Value::as_object), group, kind);
    causes.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
}

#[test]
fn each_kind_validates_its_names() {
    for (group, kind, name, is_right) in [
        ("", "Pod", "a.b-c.1", true),
        ("", "Pod", "a_b", false),
        ("", "Pod", "", false),
        ("", "Namespace", "a.b", false),
        ("", "Namespace", "0a", true),
        ("", "Service", "0a", false),
        ("", "Service", "a0", true),
        ("apps", "StatefulSet", "a.b", false),
        ("rbac.authorization.k8s.io", "ClusterRole", "system:node", true),
        ("rbac.authorization.k8s.io", "ClusterRole", "a/b", false),
        ("apiregistration.k8s.io", "APIService", "v1.apps", true),
        ("batch", "CronJob", &"a".repeat(53), false),
        ("batch", "CronJob", &"a".repeat(52), true),
        ("networking.k8s.io", "IPAddress", "10.0.0.1", true),
        ("networking.k8s.io", "IPAddress", "10.0.0.01", false),
        ("example.com", "Thing", "a.b", true),
        ("", "Event", "Web.17a", true),
        ("certificates.k8s.io", "CertificateSigningRequest", "node:a", true),
    ] {
        let messages = messages(json!({"name": name}), None, group, kind);
        assert_eq!(messages.is_empty(), is_right, "{kind} {name}: {messages:?}");
    }
}

#[test]
fn labels_annotations_owners_and_finalizers() {
    let long = "a".repeat(256 << 10);
    for (metadata, field, words) in [
        (json!({"labels": {"a b": "c"}}), "metadata.labels", "name part must consist"),
        (json!({"labels": {"a": "b c"}}), "metadata.labels[a]", "a valid label must be"),
        (json!({"annotations": {"UPPER.example.com/x": "y", "/x": "y"}}), "metadata.annotations", "\"/x\""),
        (json!({"annotations": {"x": long}}), "metadata.annotations", "Too long"),
        (json!({"finalizers": ["a b"]}), "metadata.finalizers[0]", "name part"),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a"}]}),
            "metadata.ownerReferences[0].uid",
            "must not be empty",
        ),
        (
            json!({"ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": true},
                {"apiVersion": "v1", "kind": "Pod", "name": "b", "uid": "2", "controller": true}]}),
            "metadata.ownerReferences",
            "Only one reference can have Controller set to true",
        ),
    ] {
        let mut object = metadata.clone();
        object["name"] = "a".into();
        let messages = messages(object, None, "", "Pod");
        assert!(
            messages.len() == 1
                && messages[0].starts_with(&format!("{field}: "))
                && messages[0].contains(words),
            "{messages:?}"
        );
    }
}

#[test]
fn terminating_object_accepts_no_new_finalizers() {
    let before = json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]});
    let mut after = before.clone();
    after["finalizers"] = json!(["a.b/c", "a.b/d"]);
    let messages = messages(after, Some(before.clone()), "", "Pod");
    assert!(
        messages[0].contains("no new finalizers can be added if the object is being deleted"),
        "{messages:?}"
    );
    let mut less = before.clone();
    less["finalizers"] = json!([]);
    assert_eq!(super::metadata::messages(less, Some(before), "", "Pod"), [] as [&str; 0]);
}
