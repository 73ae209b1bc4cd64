//! Tests of messages as Go writes them, and of invalid JSON.
#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use super::*;
use crate::protobuf::decode;

fn encoded(api_version: &str, kind: &str, object: &Value) -> Vec<u8> {
    message(api_version, kind, object.to_string().as_bytes()).unwrap().unwrap()
}

/// Encodes and decodes an object.
fn round_trip(api_version: &str, kind: &str, fields: &Value) -> Value {
    let message = encoded(api_version, kind, fields);
    let Value::Object(mut read) = decode(&envelope(api_version, kind, &message)).unwrap() else {
        return Value::Null;
    };
    read.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    Value::Object(read)
}

#[test]
fn encoding_equals_that_of_go() {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let message = b"\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v";
    assert_eq!(encoded("v1", "ConfigMap", &map), message);
    let whole = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x0d\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v\x1a\0\x22\0";
    let json = map.to_string();
    assert_eq!(object("v1", "ConfigMap", json.as_bytes()).unwrap().unwrap(), whole);
    assert_eq!(partial_metadata(br#"{"name":"a"}"#).unwrap(), b"\x0a\x03\x0a\x01a");
    let mut item = Vec::new();
    list_item(&mut item, message);
    let head = list_head("v1", "ConfigMapList", br#"{"resourceVersion":"7"}"#, item.len()).unwrap();
    let list = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dConfigMapList\x12\x14\x0a\x03\x12\x017\x12\x0d\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v\x1a\0\x22\0";
    assert_eq!([&head, &*item, ENVELOPE_END].concat(), list);
}

#[test]
fn watch_frame_starts_with_its_length() {
    let object = b"k8s\0x";
    let frame = [watch_frame_head("ADDED", object.len()), object.to_vec()].concat();
    assert_eq!(frame, b"\0\0\0\x10\x0a\x05ADDED\x12\x07\x0a\x05k8s\0x");
}

#[test]
fn values_of_all_forms_round_trip() {
    let pod = json!({"spec": {
        "containers": [{"name": "a", "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": "http"}},
            "resources": {"limits": {"cpu": "100m"}}, "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 3}}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "terminationGracePeriodSeconds": 0,
        "securityContext": {"runAsUser": -1},
        "ephemeralContainers": [{"name": "e", "args": ["x", "y"], "targetContainerName": "a"}],
    }, "metadata": {"creationTimestamp": "1960-01-02T03:04:05Z", "labels": {"a": "", "b": "x".repeat(40_000)}}});
    assert_eq!(round_trip("v1", "Pod", &pod), pod);
    let lease = json!({"spec": {"renewTime": "1969-12-31T23:59:59.250000Z"}});
    assert_eq!(round_trip("coordination.k8s.io/v1", "Lease", &lease), lease);
    let properties = json!({
        "a": {"items": {"type": "string"}, "default": {"x": [null]}, "additionalProperties": false, "maximum": 1.5},
        "b": {"items": [{"type": "string"}], "additionalProperties": {"type": "integer"}, "enum": ["x", 1]},
        "c": {"dependencies": {"x": ["y"], "z": {"type": "string"}}},
    });
    let definition = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"properties": properties}}}],
        "group": "", "names": {"plural": "", "kind": ""}, "scope": ""}});
    let read = round_trip("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition);
    assert_eq!(read.pointer("/spec/versions/0/schema"), definition.pointer("/spec/versions/0/schema"));
}

#[test]
fn protobuf_omits_null_and_unknown_fields() {
    let pod = json!({"metadata": {"creationTimestamp": null, "labels": null, "finalizers": []},
        "spec": {"nodeName": null, "volumes": [{"emptyDir": null}], "unknown": {"deep": [1]}}});
    assert_eq!(round_trip("v1", "Pod", &pod), json!({"metadata": {}, "spec": {"volumes": [{}]}}));
}

#[test]
fn type_errors_do_not_show_secret_values() {
    for (kind, object, expected) in [
        ("Pod", json!({"spec": []}), "invalid type: sequence"),
        ("Pod", json!({"spec": {"nodeName": 3}}), "invalid type: integer `3`"),
        ("Pod", json!({"metadata": {"creationTimestamp": "soon"}}), "invalid value: string \"soon\""),
        ("Secret", json!({"data": {"a": "pass word"}}), "the value is not base64"),
    ] {
        let error = message("v1", kind, object.to_string().as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("pass word"), "{error}");
    }
    assert!(message("example.com/v1", "Widget", b"{}").unwrap().is_none());
    assert!(!has_message("example.com/v1", "Widget") && has_message("policy/v1beta1", "Eviction"));
}
