//! The action of a probe. It is prepared once and run every period.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};

use super::address::Address;
use super::{exec, grpc, http};
use crate::runtime::Runtime;

/// Result of one probe attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The attempt succeeded.
    Success,
    /// The attempt succeeded with a warning.
    Warning(String),
    /// The attempt failed.
    Failure(String),
    /// The attempt could not be carried out.
    Unknown(String),
}

/// A prepared probe action.
pub(super) enum Check {
    Exec(Vec<String>),
    Http(Box<http::Get>),
    Tcp(Address),
    Grpc(Box<grpc::Health>),
    /// The action in the manifest is invalid.
    Impossible(String),
}

impl Check {
    /// Prepares the action of a probe. `None` if it needs the pod IP and that is unknown.
    pub fn prepare(probe: &Probe, container: &Container, ip: Option<IpAddr>) -> Option<Self> {
        let ports = container.ports.as_deref().unwrap_or_default();
        if let Some(action) = &probe.exec {
            let env = container.env.as_deref().unwrap_or_default();
            return Some(Self::Exec(exec::command(action, env)));
        }
        let needs_ip = match probe {
            Probe { http_get: Some(action), .. } => action.host.as_deref().unwrap_or_default().is_empty(),
            Probe { tcp_socket: Some(action), .. } => action.host.as_deref().unwrap_or_default().is_empty(),
            Probe { grpc: Some(_), .. } => true,
            _ => false,
        };
        if needs_ip && ip.is_none() {
            return None;
        }
        let prepared = if let Some(action) = &probe.http_get {
            http::Get::new(action, ports, ip, &super::handler::PROBE_USER_AGENT)
                .map(|get| Self::Http(Box::new(get)))
        } else if let Some(action) = &probe.tcp_socket {
            Address::new(action.host.as_deref(), ip, &action.port, ports).map(Self::Tcp)
        } else if let (Some(action), Some(ip)) = (&probe.grpc, ip) {
            grpc::Health::new(action, ip).map(|health| Self::Grpc(Box::new(health)))
        } else {
            Err("the probe names no action; give it one of exec, httpGet, tcpSocket or grpc".to_owned())
        };
        Some(prepared.unwrap_or_else(Self::Impossible))
    }

    pub fn is_exec(&self) -> bool {
        matches!(self, Self::Exec(_))
    }

    /// Runs one attempt.
    pub async fn run(&self, runtime: &dyn Runtime, container_id: &str, timeout: Duration) -> Outcome {
        match self {
            Self::Exec(command) => exec::run(runtime, container_id, command, timeout).await,
            Self::Tcp(address) => connect_tcp(address, timeout).await,
            Self::Http(get) => http::judge(get.run(timeout).await),
            Self::Grpc(health) => Box::pin(health.check(timeout)).await,
            Self::Impossible(why) => Outcome::Unknown(why.clone()),
        }
    }
}

/// Connects and closes the connection.
pub(super) async fn connect_tcp(address: &Address, timeout: Duration) -> Outcome {
    match tokio::time::timeout(timeout, address.connect()).await {
        Ok(Ok(_connection)) => Outcome::Success,
        Ok(Err(message)) => Outcome::Failure(message),
        Err(_) => Outcome::Failure(format!("dial tcp {address}: i/o timeout")),
    }
}
