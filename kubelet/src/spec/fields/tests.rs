//! All supported field references.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{metadata_field, pod_field, resource_field};
use crate::spec::Facts;

fn pod() -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u",
            "labels": {"a/b": "1", "c": "quote\" back\\ new\nline\u{7}"}, "annotations": {"x": "y"}},
        "spec": {"serviceAccountName": "sa", "containers": [
            {"name": "c", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "100m"}}},
            {"name": "bare"}]}
    }))
    .unwrap()
}

fn facts() -> Facts {
    Facts {
        node_name: "node".into(),
        host_ips: vec![[10, 0, 0, 1].into(), "fd00::1".parse().unwrap()],
        cpu_milli: 8000,
        memory_bytes: 16 << 30,
        ephemeral_storage_bytes: 100,
        ..Facts::default()
    }
}

#[test]
fn field_refs_resolve_pod_fields() {
    let ips: [IpAddr; 2] = [[172, 17, 0, 2].into(), "fd01::2".parse().unwrap()];
    for (path, expected) in [
        ("metadata.name", "p"),
        ("metadata.namespace", "n"),
        ("metadata.uid", "u"),
        ("metadata.labels['a/b']", "1"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['x']", "y"),
        ("metadata.labels", "a/b=\"1\"\nc=\"quote\\\" back\\\\ new\\nline\\a\""),
        ("metadata.annotations", "x=\"y\""),
        ("spec.nodeName", "node"),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "10.0.0.1"),
        ("status.hostIPs", "10.0.0.1,fd00::1"),
        ("status.podIP", "172.17.0.2"),
        ("status.podIPs", "172.17.0.2,fd01::2"),
    ] {
        assert_eq!(pod_field(&pod(), &facts(), &ips, path).as_deref(), Ok(expected), "{path}");
    }
    for path in ["", "metadata", "metadata.labels[x]", "metadata.name['x']", "spec.volumes", "status.phase"] {
        let error = pod_field(&pod(), &facts(), &ips, path).unwrap_err();
        assert!(error.message.contains("cannot be referred to"), "{path}: {error}");
    }
}

#[test]
fn unknown_pod_address_is_an_error() {
    let error = pod_field(&pod(), &facts(), &[], "status.podIP").unwrap_err();
    assert_eq!(error.message, "the pod has no address yet");
    assert!(metadata_field(&pod(), "status.podIP").is_err());
}

#[test]
fn host_network_pod_has_the_address_of_the_host() {
    let mut pod = pod();
    pod.spec.as_mut().unwrap().host_network = Some(true);
    assert_eq!(pod_field(&pod, &facts(), &[], "status.podIP").as_deref(), Ok("10.0.0.1"));
}

#[test]
fn resource_field_refs_are_divided_by_the_divisor() {
    for (container, resource, divisor, expected) in [
        ("c", "limits.cpu", None, "2"),
        ("c", "limits.cpu", Some("1m"), "1500"),
        ("c", "limits.memory", None, "1073741824"),
        ("c", "limits.memory", Some("1Mi"), "1024"),
        ("c", "limits.memory", Some("1G"), "2"),
        ("c", "limits.memory", Some("0"), "1073741824"),
        ("c", "requests.cpu", Some("1m"), "100"),
        ("c", "requests.memory", None, "0"),
        ("bare", "limits.cpu", None, "8"),
        ("bare", "limits.memory", Some("1Gi"), "16"),
        ("bare", "limits.ephemeral-storage", None, "100"),
        ("bare", "requests.cpu", None, "0"),
    ] {
        let field = json!({"resource": resource, "divisor": divisor});
        let field = serde_json::from_value(field).unwrap();
        assert_eq!(
            resource_field(&pod(), container, &facts(), &field).as_deref(),
            Ok(expected),
            "{container} {resource}"
        );
    }
    for (container, resource, words) in [
        ("none", "limits.cpu", "does not have"),
        ("c", "limits.gpu", "use limits."),
        ("c", "cpu", "use limits."),
    ] {
        let field =
            serde_json::from_value(json!({"containerName": container, "resource": resource})).unwrap();
        let error = resource_field(&pod(), "c", &facts(), &field).unwrap_err();
        assert!(error.message.contains(words), "{error}");
    }
}
