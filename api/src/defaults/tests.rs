//! Defaults, told by what a short manifest becomes.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::Pod;

use super::container::pull_policy;

fn defaulted(spec: &str) -> serde_json::Value {
    let text = format!("{{\"metadata\":{{\"name\":\"a\"}},\"spec\":{spec}}}");
    let mut pod: Pod = serde_json::from_str(&text).unwrap();
    super::pod(&mut pod);
    let once = pod.clone();
    super::pod(&mut pod);
    assert_eq!(once, pod, "defaults are idempotent");
    serde_json::to_value(pod.spec.unwrap()).unwrap()
}

#[test]
fn a_short_spec_says_all_it_means() {
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
