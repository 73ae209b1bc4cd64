//! Effects of single edits on hashes.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::{container, sandbox};

fn base() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {
            "containers": [
                {"name": "a", "image": "one", "env": [{"name": "X", "value": "1"}],
                 "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "cfg", "mountPath": "/cfg"}],
                 "resources": {"limits": {"cpu": "1"}}},
                {"name": "b", "image": "two"}
            ],
            "volumes": [{"name": "data", "hostPath": {"path": "/srv"}}, {"name": "cfg", "configMap": {"name": "c"}}]
        }
    })
}

fn hashes(pod: &Value) -> [String; 3] {
    let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
    [sandbox(&pod), container(&pod, "a"), container(&pod, "b")]
}

/// Which hashes an edit changes: sandbox, a, b.
fn changed(pointer: &str, value: Value) -> [bool; 3] {
    let mut pod = base();
    let before = hashes(&pod);
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = pod.pointer_mut(parent).unwrap();
    match parent {
        Value::Array(list) => match key.parse::<usize>() {
            Ok(at) => list[at] = value,
            Err(_) => list.push(value),
        },
        other => other[key] = value,
    }
    let after = hashes(&pod);
    std::array::from_fn(|i| before[i] != after[i])
}

/// The annotation of container `a` that names its AppArmor profile.
fn app_armor(profile: &str) -> Value {
    json!({"container.apparmor.security.beta.kubernetes.io/a": profile})
}

const NOTHING: [bool; 3] = [false; 3];
const SANDBOX: [bool; 3] = [true, false, false];
const A: [bool; 3] = [false, true, false];

#[test]
fn container_hash_changes_only_for_edits_that_need_a_restart() {
    for (pointer, value, expected) in [
        ("/metadata/labels", json!({"x": "y"}), NOTHING),
        ("/metadata/annotations", json!({"x": "y"}), NOTHING),
        ("/metadata/annotations", app_armor("runtime/default"), NOTHING),
        ("/metadata/annotations", app_armor("unconfined"), A),
        ("/spec/terminationGracePeriodSeconds", json!(5), NOTHING),
        ("/spec/activeDeadlineSeconds", json!(5), NOTHING),
        ("/spec/restartPolicy", json!("Never"), NOTHING),
        ("/spec/tolerations", json!([{"operator": "Exists"}]), NOTHING),
        ("/spec/containers/0/livenessProbe", json!({"exec": {"command": ["x"]}}), NOTHING),
        ("/spec/containers/0/lifecycle", json!({"preStop": {"exec": {"command": ["x"]}}}), NOTHING),
        ("/spec/containers/0/imagePullPolicy", json!("Always"), NOTHING),
        ("/spec/containers/0/ports", json!([{"containerPort": 80}]), NOTHING),
        ("/spec/containers/0/resources/limits/cpu", json!("1000m"), NOTHING),
        ("/spec/containers/0/resources/requests", json!({"cpu": "1"}), NOTHING),
        ("/spec/containers/0/resources/requests", json!({"ephemeral-storage": "1"}), NOTHING),
        ("/spec/containers/0/terminationMessagePath", json!("/dev/termination-log"), NOTHING),
        ("/spec/volumes/1/configMap/name", json!("other"), NOTHING),
        ("/spec/volumes/1/configMap/items", json!([{"key": "k", "path": "p"}]), NOTHING),
        ("/spec/volumes/0/hostPath/type", json!("Directory"), NOTHING),
        ("/spec/dnsPolicy", json!("ClusterFirst"), NOTHING),
        ("/spec/hostNetwork", json!(false), NOTHING),
        ("/spec/securityContext", json!({}), NOTHING),
        ("/spec/containers/0/securityContext", json!({"privileged": false}), NOTHING),
        ("/spec/containers/0/image", json!("three"), A),
        ("/spec/containers/0/command", json!(["x"]), A),
        ("/spec/containers/0/args", json!(["x"]), A),
        ("/spec/containers/0/env/0/value", json!("2"), A),
        ("/spec/containers/0/env/-", json!({"name": "Y"}), A),
        (
            "/spec/containers/0/env/0",
            json!({"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}),
            A,
        ),
        ("/spec/containers/0/envFrom", json!([{"secretRef": {"name": "s"}}]), A),
        ("/spec/containers/0/workingDir", json!("/x"), A),
        ("/spec/containers/0/tty", json!(true), A),
        ("/spec/containers/0/stdin", json!(true), A),
        ("/spec/containers/0/volumeMounts/0/mountPath", json!("/x"), A),
        ("/spec/containers/0/volumeMounts/0/readOnly", json!(true), A),
        ("/spec/containers/0/volumeMounts/1/subPath", json!("x"), A),
        ("/spec/volumes/0/hostPath/path", json!("/x"), A),
        ("/spec/volumes/0", json!({"name": "data", "emptyDir": {}}), A),
        ("/spec/containers/0/resources/limits/cpu", json!("2"), A),
        ("/spec/containers/0/resources/requests", json!({"memory": "1Mi"}), A),
        ("/spec/containers/0/securityContext", json!({"runAsUser": 0}), A),
        ("/spec/containers/0/securityContext", json!({"allowPrivilegeEscalation": false}), A),
        ("/spec/containers/0/securityContext", json!({"runAsNonRoot": false}), A),
        ("/spec/containers/0/securityContext", json!({"capabilities": {"drop": ["ALL"]}}), A),
        ("/spec/containers/0/lifecycle", json!({"stopSignal": "SIGUSR1"}), A),
        ("/spec/containers/0/ports", json!([{"containerPort": 80, "hostPort": 8080}]), SANDBOX),
        ("/spec/hostNetwork", json!(true), SANDBOX),
        ("/spec/hostPID", json!(true), SANDBOX),
        ("/spec/hostIPC", json!(true), SANDBOX),
        ("/spec/shareProcessNamespace", json!(true), SANDBOX),
        ("/spec/hostname", json!("x"), SANDBOX),
        ("/spec/subdomain", json!("x"), SANDBOX),
        ("/spec/hostAliases", json!([{"ip": "1.2.3.4", "hostnames": ["x"]}]), SANDBOX),
        ("/spec/dnsPolicy", json!("Default"), SANDBOX),
        ("/spec/dnsConfig", json!({"nameservers": ["1.1.1.1"]}), SANDBOX),
        ("/spec/securityContext", json!({"runAsUser": 0}), SANDBOX),
        ("/spec/securityContext", json!({"fsGroup": 0}), SANDBOX),
        ("/spec/securityContext", json!({"sysctls": [{"name": "net.x", "value": "1"}]}), SANDBOX),
    ] {
        assert_eq!(changed(pointer, value.clone()), expected, "{pointer} = {value}");
    }
}

/// These values must never change, because an upgrade of the kubelet must not restart pods.
#[test]
fn frozen() {
    assert_eq!(hashes(&base()), ["e3b0c44298fc1c14", "aaa62e244146b7b5", "215205b67ccbc13e"]);
    let empty = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
    assert_eq!(hashes(&empty), ["e3b0c44298fc1c14"; 3]);
}
