//! Names, ports and namespaces of a sandbox.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::sandbox;
use crate::runtime::spec::{HostPort, Network, SandboxSpec};
use crate::spec::{ConfigError, Facts};

fn make(more: Value) -> Result<SandboxSpec, ConfigError> {
    let mut spec = json!({"containers": [{"name": "c"}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let pod = json!({"metadata": {"name": "web-node", "namespace": "n", "uid": "u"}, "spec": spec});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    sandbox(&pod, &Facts { cluster_domain: "x.y".into(), ..Facts::default() }, 1, "pause")
}

#[test]
fn names() {
    let long = "a".repeat(62);
    for (spec, hostname, domain) in [
        (json!({}), Some("web-node"), None),
        (json!({"hostname": "h"}), Some("h"), None),
        (json!({"hostname": format!("{long}-b")}), Some(long.as_str()), None),
        (json!({"hostname": "h", "subdomain": "s"}), Some("h"), Some("s.n.svc.x.y")),
        (
            json!({"subdomain": "s", "setHostnameAsFQDN": true}),
            Some("web-node.s.n.svc.x.y"),
            Some("s.n.svc.x.y"),
        ),
        (json!({"setHostnameAsFQDN": true}), Some("web-node"), None),
        (json!({"hostnameOverride": "o", "hostname": "h", "subdomain": "s"}), Some("o"), None),
        (json!({"hostNetwork": true, "hostname": "h"}), None, None),
    ] {
        let made = make(spec.clone()).unwrap();
        assert_eq!((made.hostname.as_deref(), made.domain.as_deref()), (hostname, domain), "{spec}");
    }
    let error = make(json!({"hostname": long, "subdomain": "s", "setHostnameAsFQDN": true})).unwrap_err();
    assert!(error.message.contains("has 74 characters"), "{error}");
}

#[test]
fn sandbox_has_host_ports() {
    let ports = json!({"initContainers": [{"name": "s", "ports": [{"containerPort": 1, "hostPort": 2}]}],
        "containers": [{"name": "c", "ports": [
            {"containerPort": 80}, {"containerPort": 53, "hostPort": 5353, "protocol": "UDP", "hostIP": "127.0.0.1"},
            {"containerPort": 81, "hostPort": 8081, "hostIP": "0.0.0.0"}]}]});
    let port = |host_ip: Option<&str>, host_port, container_port, protocol: &str| HostPort {
        host_ip: host_ip.map(|ip| ip.parse().unwrap()),
        host_port,
        container_port,
        protocol: protocol.to_owned(),
    };
    let expected =
        [port(None, 2, 1, "tcp"), port(Some("127.0.0.1"), 5353, 53, "udp"), port(None, 8081, 81, "tcp")];
    assert_eq!(make(ports.clone()).unwrap().host_ports, expected);
    let mut on_host = ports;
    on_host["hostNetwork"] = json!(true);
    assert_eq!(make(on_host).unwrap().host_ports, []);
    for port in [
        json!({"containerPort": 1, "hostPort": 70000}),
        json!({"containerPort": 1, "hostPort": 1, "hostIP": "x"}),
    ] {
        assert!(make(json!({"containers": [{"name": "c", "ports": [port]}]})).is_err());
    }
}

#[test]
fn the_rest() {
    let made = make(json!({
        "hostPID": true, "hostIPC": true, "shareProcessNamespace": true,
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}],
        "securityContext": {"runAsUser": 7, "runAsGroup": 8, "seLinuxOptions": {"level": "s0"},
            "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}
    }))
    .unwrap();
    assert!(made.host_pid && made.host_ipc && made.share_process_namespace);
    assert_eq!(made.network, Network::Pod);
    assert_eq!(made.host_aliases, [("a".into(), [10, 0, 0, 1].into()), ("b".into(), [10, 0, 0, 1].into())]);
    assert_eq!(made.user.as_deref(), Some("7:8"));
    assert_eq!(made.security_options, ["label=level:s0"]);
    assert_eq!(made.sysctls.len(), 1);
    assert_eq!(
        (made.identity.engine_name().as_str(), made.image.as_str()),
        ("k8s_POD_web-node_n_u_1", "pause")
    );
    for (spec, words) in [
        (json!({"hostUsers": false}), "hostUsers"),
        (json!({"resources": {"limits": {"cpu": "1"}}}), "resources of the pod"),
        (json!({"hostAliases": [{"ip": "x"}]}), "hostAliases"),
        (json!({"securityContext": {"sysctls": [{"name": "vm.x", "value": "1"}]}}), "vm.x"),
    ] {
        let error = make(spec).unwrap_err();
        assert!(error.message.contains(words), "{error}");
    }
}
