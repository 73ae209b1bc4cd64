//! The same looks taken once, for the hooks of a container's life (postStart, preStop).

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    ContainerPort, EnvVar, ExecAction, HTTPGetAction, SleepAction, TCPSocketAction,
};

use super::address::Address;
pub use super::check::Outcome;
use super::http::Get;
use super::{exec as exec_probe, tcp};
use crate::runtime::Runtime;

/// How probes name themselves to HTTP and gRPC servers.
pub const PROBE_USER_AGENT: &str = "kube-probe/1.36";
/// How hooks name themselves to HTTP servers.
pub const LIFECYCLE_USER_AGENT: &str = "kube-lifecycle/1.36";

/// Runs a command in the container, at most so long; healthy when it ends with 0.
pub async fn exec(
    runtime: &dyn Runtime,
    container_id: &str,
    action: &ExecAction,
    env: &[EnvVar],
    timeout: Duration,
) -> Outcome {
    exec_probe::run(runtime, container_id, &exec_probe::command(action, env), timeout).await
}

/// Tells a URL of the pod something: any answer will do, whatever its status, as the stock kubelet has it for hooks.
pub async fn http_notify(
    action: &HTTPGetAction,
    ports: &[ContainerPort],
    ip: Option<IpAddr>,
    timeout: Duration,
) -> Outcome {
    match Get::new(action, ports, ip, LIFECYCLE_USER_AGENT) {
        Ok(get) => match get.run(timeout).await {
            Ok(_) => Outcome::Success,
            Err(said) => Outcome::Failure(said),
        },
        Err(why) => Outcome::Unknown(why),
    }
}

/// Connects to a port of the pod and hangs up.
pub async fn tcp_socket(
    action: &TCPSocketAction,
    ports: &[ContainerPort],
    ip: Option<IpAddr>,
    timeout: Duration,
) -> Outcome {
    match Address::new(action.host.as_deref(), ip, &action.port, ports) {
        Ok(address) => tcp::connect(&address, timeout).await,
        Err(why) => Outcome::Unknown(why),
    }
}

/// Lets so many seconds pass.
pub async fn sleep(action: &SleepAction) -> Outcome {
    tokio::time::sleep(Duration::from_secs(u64::try_from(action.seconds).unwrap_or_default())).await;
    Outcome::Success
}
