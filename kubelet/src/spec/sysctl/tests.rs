//! Which sysctls a pod may set.
#![allow(clippy::unwrap_used, reason = "tests")]

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::of;
use crate::spec::Facts;

#[test]
fn safe_allowed_and_forbidden() {
    let facts = Facts {
        allowed_unsafe_sysctls: vec!["net.core.*".into(), "kernel/msgmax".into(), "vm.swappiness".into()],
        ..Facts::default()
    };
    for (name, field, refusal) in [
        ("net.ipv4.tcp_syncookies", "x", None),
        ("net/ipv4/tcp_syncookies", "x", None),
        ("kernel.shm_rmid_forced", "x", None),
        ("net.core.somaxconn", "x", None),
        ("kernel.msgmax", "x", None),
        ("kernel.sem", "x", Some("allowedUnsafeSysctls")),
        ("net.ipv4.ip_forward", "x", Some("allowedUnsafeSysctls")),
        ("vm.swappiness", "x", Some("whole node")),
        ("net.core.somaxconn", "hostNetwork", Some("hostNetwork")),
        ("kernel.shm_rmid_forced", "hostIPC", Some("hostIPC")),
    ] {
        let pod: Pod = serde_json::from_value(json!({"spec": {"containers": [], field: true,
            "securityContext": {"sysctls": [{"name": name, "value": "1"}]}}}))
        .unwrap();
        let result = of(&pod, &facts);
        match refusal {
            None => assert_eq!(result.unwrap().into_values().collect::<Vec<_>>(), ["1"], "{name}"),
            Some(words) => {
                let error = result.unwrap_err();
                assert_eq!(error.reason, "SysctlForbidden");
                assert!(error.message.contains(name) && error.message.contains(words), "{error}");
            }
        }
    }
}

#[test]
fn slashes_and_dots_change_places() {
    assert_eq!(super::dotted("net/ipv4/conf/eth0.1/x"), "net.ipv4.conf.eth0/1.x");
    assert_eq!(super::dotted("net.ipv4.conf.eth0/1.x"), "net.ipv4.conf.eth0/1.x");
    assert_eq!(super::dotted("plain"), "plain");
}
