//! Sysctls of a pod: checks that they are allowed and namespaced.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Sysctl};

use super::ConfigError;
use super::facts::Facts;
use super::host_network;

/// Safe sysctls for kernels from 4.18. They affect only the pod.
const SAFE: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

/// The sysctls of a pod, with dots as separators.
///
/// # Errors
/// If the node forbids a sysctl. The error names it.
pub(super) fn of(pod: &Pod, facts: &Facts) -> Result<BTreeMap<String, String>, ConfigError> {
    let spec = pod.spec.as_ref();
    let sysctls = spec.and_then(|s| s.security_context.as_ref()).and_then(|c| c.sysctls.as_ref());
    let host_ipc = spec.is_some_and(|s| s.host_ipc == Some(true));
    let checked = sysctls.into_iter().flatten().map(|sysctl| {
        let name = dotted(&sysctl.name);
        match refusal(&name, host_network(pod), host_ipc, facts) {
            None => Ok((name, sysctl.value.clone())),
            Some(why) => Err(forbidden(sysctl, &why)),
        }
    });
    checked.collect()
}

fn refusal(name: &str, host_network: bool, host_ipc: bool, facts: &Facts) -> Option<String> {
    let allowed =
        SAFE.contains(&name) || facts.allowed_unsafe_sysctls.iter().any(|a| covers(&dotted(a), name));
    let ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|p| name.starts_with(p))
        || name == "kernel.sem";
    let net = name.starts_with("net.");
    if !allowed {
        Some("it is not safe, and the node's allowedUnsafeSysctls does not list it".to_owned())
    } else if !ipc && !net {
        Some("it belongs to no namespace of a pod, so that it would change the whole node".to_owned())
    } else if ipc && host_ipc {
        Some("it cannot be set with hostIPC".to_owned())
    } else if net && host_network {
        Some("it cannot be set with hostNetwork".to_owned())
    } else {
        None
    }
}

fn forbidden(sysctl: &Sysctl, why: &str) -> ConfigError {
    ConfigError { reason: "SysctlForbidden", message: format!("forbidden sysctl: {:?}: {why}", sysctl.name) }
}

fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

/// Normalizes `net/ipv4/x` to `net.ipv4.x`. In the slash format a dot is part of a name, as in `net/ipv4/conf/eth0.1/x`.
fn dotted(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name[at..].starts_with('/') => name
            .chars()
            .map(|c| match c {
                '/' => '.',
                '.' => '/',
                c => c,
            })
            .collect(),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    //! Tests of allowed and forbidden sysctls.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::of;
    use crate::spec::Facts;

    #[test]
    fn sysctls_are_safe_allowed_or_forbidden() {
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
    fn sysctl_separators_are_normalized() {
        assert_eq!(super::dotted("net/ipv4/conf/eth0.1/x"), "net.ipv4.conf.eth0/1.x");
        assert_eq!(super::dotted("net.ipv4.conf.eth0/1.x"), "net.ipv4.conf.eth0/1.x");
        assert_eq!(super::dotted("plain"), "plain");
    }
}
