//! All sources of variables, and missing references.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use api::references::References;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{Environment, Sources, needs_pod_ip};
use crate::spec::{ConfigError, Facts};

fn references() -> References {
    let map = json!({"data": {"one": "1", "two": "2", "not=valid": "x", "ümlaut": "x"}, "binaryData": {"bin": "AAE="}});
    let secret = json!({"data": {"password": "aHVudGVyMg==", "raw": "/w=="}});
    let mut references = References::default();
    let key = |name: &str| ("n".to_owned(), name.to_owned());
    references.config_maps.insert(key("map"), Arc::new(serde_json::from_value(map).unwrap()));
    references.secrets.insert(key("secret"), Arc::new(serde_json::from_value(secret).unwrap()));
    references
}

fn resolve(container: Value) -> Result<Environment, ConfigError> {
    let mut container = container;
    container["name"] = json!("c");
    let pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"containers": [container]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let facts = Facts { cpu_milli: 4000, ..Facts::default() };
    let sources =
        Sources { pod: &pod, facts: &facts, pod_ips: &[[10, 0, 0, 9].into()], references: &references() };
    Environment::of(&sources, &pod.spec.as_ref().unwrap().containers[0])
}

#[test]
fn env_sources_are_applied_in_order() {
    for (container, expected) in [
        (json!({}), ""),
        (json!({"env": [{"name": "A"}]}), "A="),
        (
            json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)$(C)$$(A)"}, {"name": "C"}]}),
            "A=1 B=1$(C)$(A) C=",
        ),
        (json!({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]}), "A=12"),
        (
            json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "one"}}}]}),
            "A=1",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "password"}}}]}),
            "A=hunter2",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "raw"}}}]}),
            "A=\u{fffd}",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]}),
            "A=10.0.0.9",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]}),
            "A=4",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "x", "optional": true}}}]}),
            "",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": "x", "optional": true}}}]}),
            "",
        ),
        (
            json!({"envFrom": [{"configMapRef": {"name": "x", "optional": true}}, {"secretRef": {"name": "x", "optional": true}}]}),
            "",
        ),
        (
            json!({"envFrom": [{"configMapRef": {"name": "map"}}], "env": [{"name": "one", "value": "$(two)"}]}),
            "one=2 two=2",
        ),
        (json!({"envFrom": [{"prefix": "P_", "configMapRef": {"name": "map"}}]}), "P_one=1 P_two=2"),
    ] {
        assert_eq!(resolve(container.clone()).unwrap().lines().join(" "), expected, "{container}");
    }
}

#[test]
fn keys_that_are_not_variable_names_are_skipped_and_reported() {
    let env = resolve(json!({"envFrom": [{"configMapRef": {"name": "map"}}]})).unwrap();
    assert_eq!(env.notes.len(), 1);
    assert_eq!(env.notes[0].reason, "InvalidEnvironmentVariableNames");
    assert!(
        env.notes[0].message.starts_with("keys [not=valid, ümlaut] of ConfigMap n/map"),
        "{}",
        env.notes[0].message
    );
}

#[test]
fn env_errors_name_the_missing_object_or_key() {
    for (container, words) in [
        (json!({"envFrom": [{"configMapRef": {"name": "x"}}]}), "configmap \"x\" not found in namespace n"),
        (json!({"envFrom": [{"secretRef": {"name": "x"}}]}), "secret \"x\" not found in namespace n"),
        (
            json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}}]}),
            "env A: configmap \"x\" not found",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "three"}}}]}),
            "env A: couldn't find key three in ConfigMap n/map: it has not=valid, one, two, ümlaut",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "secret", "key": "x"}}}]}),
            "couldn't find key x in Secret n/secret: it has password, raw",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}),
            "env A: field spec.x",
        ),
    ] {
        let error = resolve(container).unwrap_err();
        assert_eq!(error.reason, "CreateContainerConfigError");
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn env_detects_references_to_the_pod_address() {
    for (path, expected) in [("status.podIP", true), ("status.podIPs", true), ("status.hostIP", false)] {
        let container =
            json!({"name": "c", "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}}]});
        assert_eq!(needs_pod_ip(&serde_json::from_value(container).unwrap()), expected, "{path}");
    }
}
