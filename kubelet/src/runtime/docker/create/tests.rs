//! Docker API requests for specs.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use super::*;
use crate::observed::PodUid;
use crate::runtime::spec::{Dns, Resources, Termination};

fn identity(container: &str) -> Identity {
    Identity {
        uid: PodUid::new("u1"),
        pod: "web".to_owned(),
        namespace: "default".to_owned(),
        container: container.to_owned(),
        attempt: 0,
        hash: "h".to_owned(),
    }
}

fn container_spec() -> ContainerSpec {
    ContainerSpec {
        identity: identity("app"),
        sandbox_id: "box".to_owned(),
        network: Network::Pod,
        image: "busybox:1".to_owned(),
        image_id: "sha256:1234".to_owned(),
        command: Some(Vec::new()),
        args: Some(vec!["sleep".to_owned()]),
        working_dir: None,
        env: Vec::new(),
        mounts: Vec::new(),
        resources: Resources { memory_bytes: Some(1 << 20), ..Resources::default() },
        oom_score_adj: 1000,
        cgroup_parent: None,
        security: Security::default(),
        stdin: false,
        stdin_once: false,
        tty: false,
        host_pid: false,
        host_ipc: false,
        processes_of: None,
        back_off: Duration::from_secs(10),
        termination: Termination::default(),
        stop_signal: None,
        labels: Labels::new(),
    }
}

fn host(spec: &ContainerSpec) -> HostConfig {
    container_body("n1", &Settings::default(), spec).host_config.unwrap()
}

#[test]
fn a_container_joins_its_sandbox() {
    let body = container_body("n1", &Settings::default(), &container_spec());
    assert_eq!(
        (body.entrypoint, body.cmd),
        (None, Some(vec!["sleep".to_owned()])),
        "an empty command is the image's"
    );
    assert_eq!(body.image.as_deref(), Some("sha256:1234"));
    let host = body.host_config.unwrap();
    assert_eq!(host.network_mode.as_deref(), Some("container:box"));
    assert_eq!((host.ipc_mode.as_deref(), host.pid_mode.as_deref()), (Some("container:box"), None));
    assert_eq!((host.memory, host.memory_swap), (Some(1 << 20), Some(1 << 20)), "no swap beyond memory");
}

#[test]
fn container_shares_the_requested_namespaces() {
    let shared = ContainerSpec { processes_of: Some("box".to_owned()), ..container_spec() };
    assert_eq!(host(&shared).pid_mode.as_deref(), Some("container:box"));
    let hosts = ContainerSpec { host_pid: true, host_ipc: true, network: Network::Host, ..container_spec() };
    let hosts = host(&hosts);
    let modes = [hosts.pid_mode, hosts.ipc_mode, hosts.uts_mode, hosts.network_mode].map(Option::unwrap);
    assert_eq!(modes, ["host", "host", "host", "container:box"]);
}

#[test]
fn pod_labels_cannot_override_identity_labels() {
    let mut spec = container_spec();
    spec.labels.insert(labels::POD_UID.to_owned(), "other".to_owned());
    let all = container_body("n1", &Settings::default(), &spec).labels.unwrap();
    assert_eq!(all[labels::POD_UID], "u1");
    assert_eq!(inspect::identity(&all), Some(identity("app")));
}

#[test]
fn unmasked_paths_are_two_empty_lists() {
    let mut spec = container_spec();
    spec.security.options = vec!["seccomp=unconfined".to_owned(), "systempaths=unconfined".to_owned()];
    let host = host(&spec);
    assert_eq!(host.security_opt, Some(vec!["seccomp=unconfined".to_owned()]));
    assert_eq!((host.masked_paths, host.readonly_paths), (Some(Vec::new()), Some(Vec::new())));
}

#[test]
fn host_ports_of_one_container_port_are_combined() {
    let port = |host_port, protocol: &str| HostPort {
        host_ip: None,
        host_port,
        container_port: 53,
        protocol: protocol.to_owned(),
    };
    let (exposed, bindings) = ports(&[port(1053, "UDP"), port(2053, "udp"), port(1053, "tcp")]);
    assert_eq!(exposed, ["53/tcp", "53/udp"]);
    assert_eq!(bindings["53/udp"].as_ref().unwrap().len(), 2);
}

#[test]
fn host_network_sandbox_keeps_the_host_name() {
    let spec = SandboxSpec {
        identity: identity("POD"),
        image: "pause".to_owned(),
        network: Network::Host,
        host_ports: Vec::new(),
        hostname: None,
        domain: None,
        host_aliases: vec![("db".to_owned(), "10.0.0.1".parse().unwrap())],
        dns: Dns::default(),
        host_pid: false,
        host_ipc: false,
        share_process_namespace: false,
        sysctls: [("net.core.somaxconn".to_owned(), "1024".to_owned())].into(),
        cgroup_parent: None,
        security_options: Vec::new(),
        user: None,
    };
    let body = sandbox_body("n1", &spec);
    assert_eq!(body.hostname, None);
    let host = body.host_config.unwrap();
    assert_eq!(host.network_mode.as_deref(), Some("host"));
    assert_eq!(host.ipc_mode.as_deref(), Some("shareable"));
    assert_eq!((host.extra_hosts, host.dns), (Some(vec!["db:10.0.0.1".to_owned()]), None));
}
