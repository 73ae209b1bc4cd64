//! Runs lifecycle hooks (postStart, preStop) with the actions of probes.

use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use api::kubernetes_version::MAJOR_MINOR;
use k8s_openapi::api::core::v1::{
    ContainerPort, EnvVar, ExecAction, HTTPGetAction, SleepAction, TCPSocketAction,
};

use super::address::Address;
pub use super::check::Outcome;
use super::check::connect_tcp;
use super::exec as exec_probe;
use super::http::Get;
use crate::runtime::Runtime;

/// User agent of HTTP and gRPC probes.
pub static PROBE_USER_AGENT: LazyLock<String> = LazyLock::new(|| format!("kube-probe/{MAJOR_MINOR}"));
/// User agent of HTTP hooks.
pub static LIFECYCLE_USER_AGENT: LazyLock<String> = LazyLock::new(|| format!("kube-lifecycle/{MAJOR_MINOR}"));

/// Runs a command in the container. It succeeds if the command exits with 0 in time.
pub async fn exec(
    runtime: &dyn Runtime,
    container_id: &str,
    action: &ExecAction,
    env: &[EnvVar],
    timeout: Duration,
) -> Outcome {
    exec_probe::run(runtime, container_id, &exec_probe::command(action, env), timeout).await
}

/// Sends an HTTP request. Any response is a success, as in the stock kubelet.
pub async fn http_notify(
    action: &HTTPGetAction,
    ports: &[ContainerPort],
    ip: Option<IpAddr>,
    timeout: Duration,
) -> Outcome {
    match Get::new(action, ports, ip, &LIFECYCLE_USER_AGENT) {
        Ok(get) => match get.run(timeout).await {
            Ok(_) => Outcome::Success,
            Err(message) => Outcome::Failure(message),
        },
        Err(why) => Outcome::Unknown(why),
    }
}

/// Connects to a TCP port and closes the connection.
pub async fn tcp_socket(
    action: &TCPSocketAction,
    ports: &[ContainerPort],
    ip: Option<IpAddr>,
    timeout: Duration,
) -> Outcome {
    match Address::new(action.host.as_deref(), ip, &action.port, ports) {
        Ok(address) => connect_tcp(&address, timeout).await,
        Err(why) => Outcome::Unknown(why),
    }
}

/// Sleeps for the given number of seconds.
pub async fn sleep(action: &SleepAction) -> Outcome {
    tokio::time::sleep(Duration::from_secs(u64::try_from(action.seconds).unwrap_or_default())).await;
    Outcome::Success
}
