//! Tests of defaults in short manifests.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::PodSpec;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::container::pull_policy;
use crate::schema;

fn defaulted(spec: &str) -> Value {
    let mut spec: serde_json::Value = serde_json::from_str(spec).unwrap();
    super::pod_spec(spec.as_object_mut().unwrap());
    let once = spec.clone();
    super::pod_spec(spec.as_object_mut().unwrap());
    assert_eq!(once, spec, "defaults are idempotent");
    spec
}

#[test]
fn minimal_pod_spec_gets_all_defaults() {
    let spec = defaulted(r#"{"containers":[{"name":"c","image":"web:1","ports":[{"containerPort":80}]}]}"#);
    let expected = serde_json::json!({
        "containers": [{
            "image": "web:1", "imagePullPolicy": "IfNotPresent", "name": "c",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        }],
        "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
        "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
    });
    assert_eq!(spec, expected);
}

/// Derived defaults are not set in a template, so that later changes of the limits take effect.
#[test]
fn template_defaults_omit_derived_fields() {
    let spec = r#"{"hostNetwork":true,"containers":[{"name":"c","image":"web:1","ports":[{"containerPort":80}],
                   "resources":{"limits":{"cpu":"1"}}}],"initContainers":[{"name":"i","resources":{"limits":{"cpu":"1"}}}]}"#;
    let mut template: Value = serde_json::from_str(spec).unwrap();
    super::template_spec(template.as_object_mut().unwrap());
    let pod = defaulted(spec);
    for (pointer, made) in [
        ("/enableServiceLinks", json!(true)),
        ("/containers/0/resources/requests", json!({"cpu": "1"})),
        ("/initContainers/0/resources/requests", json!({"cpu": "1"})),
        ("/containers/0/ports/0/hostPort", json!(80)),
    ] {
        assert_eq!((template.pointer(pointer), pod.pointer(pointer)), (None, Some(&made)), "{pointer}");
    }
    super::pod_spec(template.as_object_mut().unwrap());
    assert_eq!(template, pod, "a pod of the template says the rest");
}

#[test]
fn defaults_set_both_service_account_fields() {
    for (written, name) in [
        (json!({"serviceAccountName": "a"}), "a"),
        (json!({"serviceAccount": "a"}), "a"),
        (json!({"serviceAccountName": "", "serviceAccount": "a"}), "a"),
        (json!({"serviceAccountName": "a", "serviceAccount": "older"}), "a"),
    ] {
        let spec = defaulted(&written.to_string());
        assert_eq!(
            (&spec["serviceAccountName"], &spec["serviceAccount"]),
            (&name.into(), &name.into()),
            "{written}"
        );
    }
}

#[test]
fn values_of_wrong_types_are_kept() {
    let odd = json!({
        "containers": [{"name": "c", "image": 5, "ports": "many", "env": [7, {"valueFrom": []}], "x": {"y": 1},
            "livenessProbe": true, "resources": {"limits": {"cpu": "1"}, "requests": "few"}}],
        "volumes": [{"name": "v", "secret": "s"}, {"name": "w", "x-source": {}}, null],
        "hostNetwork": "yes", "initContainers": {},
    });
    let filled = defaulted(&odd.to_string());
    for at in [
        "/containers/0/image",
        "/containers/0/ports",
        "/containers/0/env",
        "/containers/0/x",
        "/volumes",
        "/containers/0/livenessProbe",
        "/containers/0/resources",
        "/hostNetwork",
        "/initContainers",
    ] {
        assert_eq!(filled.pointer(at), odd.pointer(at), "{at}");
    }
}

/// Deserializing an object with defaults adds no further values.
#[test]
fn defaults_do_not_depend_on_the_typed_objects() {
    let volumes: Vec<Value> = ["azureDisk", "iscsi", "rbd", "hostPath", "image", "nfs", "csi", "gcePersistentDisk"]
        .iter()
        .map(|source| json!({"name": "v", *source: {}}))
        .chain([
            json!({}),
            json!({"name": "v", "secret": {"items": [{}]}}),
            json!({"name": "v", "downwardAPI": {"items": [{}, {"fieldRef": {}}, {"resourceFieldRef": {}}]}}),
            json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}, {"configMap": {"name": "m", "items": [{}]}}]}}),
            json!({"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}),
        ])
        .collect();
    let get = json!({"httpGet": {"httpHeaders": [{}]}});
    let container = json!({
        "ports": [{}], "volumeMounts": [{}], "volumeDevices": [{}], "resizePolicy": [{}], "resources": {"claims": [{}]},
        "env": [{}, {"valueFrom": {"fieldRef": {}}}, {"valueFrom": {"secretKeyRef": {"name": "s"}}}],
        "livenessProbe": get, "readinessProbe": {"tcpSocket": {}}, "startupProbe": {"grpc": {}},
        "lifecycle": {"preStop": get, "postStart": {"sleep": {}}},
    });
    let selector = json!({"matchExpressions": [{}]});
    let affinity = json!({
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {},
            "preferredDuringSchedulingIgnoredDuringExecution": [{}]},
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": selector}],
            "preferredDuringSchedulingIgnoredDuringExecution": [{}]},
    });
    let full = json!({
        "containers": [{}, container], "initContainers": [container], "ephemeralContainers": [{}], "volumes": volumes,
        "affinity": affinity, "topologySpreadConstraints": [{"labelSelector": selector}], "hostAliases": [{}],
        "schedulingGates": [{}], "readinessGates": [{}], "os": {}, "resourceClaims": [{}], "tolerations": [{}],
        "securityContext": {"sysctls": [{}], "seccompProfile": {}}, "dnsConfig": {"options": [{}]},
    });
    for mut spec in [json!({}), full] {
        let fields = spec.as_object_mut().unwrap();
        schema::require("core.v1.PodSpec", fields);
        super::pod_spec(fields);
        let typed = PodSpec::deserialize(&spec).unwrap();
        assert_eq!(serde_json::to_value(typed).unwrap(), spec);
    }
}

#[test]
fn pull_policy_follows_the_tag() {
    for (image, policy) in [
        ("web", "Always"),
        ("web:latest", "Always"),
        ("web:1", "IfNotPresent"),
        ("registry:5000/web", "Always"),
        ("registry:5000/web:1", "IfNotPresent"),
        ("web@sha256:00", "IfNotPresent"),
        ("web:latest@sha256:00", "Always"),
    ] {
        assert_eq!(pull_policy(image), policy, "{image}");
    }
}

#[test]
fn probes_volumes_ports_and_requests() {
    let spec = defaulted(
        r#"{"hostNetwork":true,
            "volumes":[{"name":"scratch"},{"name":"s","secret":{"secretName":"s"}},{"name":"h","hostPath":{"path":"/x"}}],
            "containers":[{"name":"c","image":"web","ports":[{"containerPort":80}],
              "livenessProbe":{"httpGet":{"port":80}},"readinessProbe":{"grpc":{"port":1},"periodSeconds":5},
              "resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"100m"}},
              "env":[{"name":"IP","valueFrom":{"fieldRef":{"fieldPath":"status.podIP"}}}]}]}"#,
    );
    let at = |pointer: &str| spec.pointer(pointer).cloned().unwrap();
    assert_eq!(at("/volumes/0/emptyDir"), serde_json::json!({}));
    assert_eq!(at("/volumes/1/secret/defaultMode"), 0o644);
    assert_eq!(at("/volumes/2/hostPath/type"), "");
    assert_eq!(at("/containers/0/ports/0/hostPort"), 80);
    assert_eq!(
        at("/containers/0/livenessProbe"),
        serde_json::json!({"failureThreshold": 3, "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
            "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1})
    );
    assert_eq!(at("/containers/0/readinessProbe/periodSeconds"), 5);
    assert_eq!(at("/containers/0/readinessProbe/grpc/service"), "");
    assert_eq!(at("/containers/0/resources/requests"), serde_json::json!({"cpu": "100m", "memory": "1Gi"}));
    assert_eq!(at("/containers/0/env/0/valueFrom/fieldRef/apiVersion"), "v1");
}
