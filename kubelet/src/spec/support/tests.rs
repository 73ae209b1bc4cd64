//! Unsupported fields match the support page.

#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::json;

use super::{PAGE, Refused, refusals};

fn refused(spec: serde_json::Value) -> Vec<String> {
    let pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
    refusals(&pod).into_iter().map(|refusal| refusal.path).collect()
}

#[test]
fn plain_pod_is_supported() {
    let spec = json!({"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}],
        "ephemeralContainers": [], "nodeSelector": {"a": "b"}, "volumes": [{"name": "v", "emptyDir": {}}]});
    assert_eq!(refused(spec), [""; 0]);
}

#[test]
fn every_unsupported_field_is_reported_with_its_path() {
    let spec = json!({
        "containers": [{"name": "a", "image": "i"}, {"name": "c", "image": "i",
            "volumeDevices": [{"name": "v", "devicePath": "/dev/x"}],
            "env": [{"name": "E", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "p", "key": "k"}}}]}],
        "runtimeClassName": "gvisor",
        "volumes": [{"name": "n", "nfs": {"server": "s", "path": "/"}},
            {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]});
    assert_eq!(
        refused(spec),
        [
            "spec.containers[1].env[0].valueFrom.fileKeyRef",
            "spec.containers[1].volumeDevices",
            "spec.runtimeClassName",
            "spec.volumes[0].nfs",
            "spec.volumes[1].projected.sources[0].serviceAccountToken",
        ]
    );
}

#[test]
fn static_pods_cannot_use_features_that_need_a_master() {
    let token = json!({"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
    for (source, expected) in [("file", 2), ("api", 1)] {
        let pod = json!({
            "metadata": {"name": "p", "annotations": {"kubernetes.io/config.source": source}},
            "spec": {"containers": [], "runtimeClassName": "x", "volumes": [token]},
        });
        assert_eq!(refusals(&serde_json::from_value(pod).unwrap()).len(), expected, "{source}");
    }
}

#[test]
fn unsupported_field_message_contains_a_remedy() {
    let pod =
        serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [], "runtimeClassName": "x"}}));
    let message = refusals(&pod.unwrap())[0].to_string();
    assert!(message.starts_with("spec.runtimeClassName is not supported on this node: "), "{message}");
}

#[test]
fn every_unsupported_field_of_the_page_has_a_remedy() {
    let rows = Refused::read(PAGE, &["refused", "of a master"]).0;
    assert!(rows.len() > 20, "the page has not been read: {} rows", rows.len());
    for ((of, field), rule) in rows {
        assert!(!rule.instead.is_empty(), "{of}.{field}: the third column has an alternative");
    }
}

#[test]
fn unsupported_value_is_named_and_other_values_are_accepted() {
    let pod = |policy: &str| json!({"metadata": {}, "spec": {"containers": [], "securityContext": {"supplementalGroupsPolicy": policy}}});
    let found = |policy| refusals(&serde_json::from_value(pod(policy)).unwrap());
    assert!(found("Merge").is_empty());
    assert_eq!(
        found("Strict")[0].to_string(),
        "spec.securityContext.supplementalGroupsPolicy: Strict is not supported on this node: use `Merge`"
    );
}

#[test]
fn every_unsupported_value_of_the_page_has_a_rule() {
    let rows = Refused::read(PAGE, &["refused", "of a master"]).0;
    let values = rows.values().filter(|rule| rule.value.is_some()).count();
    let sentences =
        PAGE.lines().filter(|line| line.contains("| partly |") && line.contains("refused")).count();
    assert_eq!(values, sentences, "write `VALUE` is refused: INSTEAD");
}
