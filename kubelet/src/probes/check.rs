//! What one look does, prepared once and repeated every period.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};

use super::address::Address;
use super::{exec, grpc, http, tcp};
use crate::runtime::Runtime;

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should be.
    Success,
    /// It counts as success, but a person should know this.
    Warning(String),
    /// It is not as it should be.
    Failure(String),
    /// Nothing was found out: the look itself went wrong.
    Unknown(String),
}

/// One look, ready to be taken again and again.
pub(super) enum Check {
    Exec(Vec<String>),
    Http(Box<http::Get>),
    Tcp(Address),
    Grpc(Box<grpc::Health>),
    /// What the manifest asks for cannot be done.
    Impossible(String),
}

impl Check {
    /// What the probe asks for; `None` while the pod's address is needed and not known.
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
            http::Get::new(action, ports, ip, super::handler::PROBE_USER_AGENT)
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

    /// Looks once.
    pub async fn run(&self, runtime: &dyn Runtime, container_id: &str, timeout: Duration) -> Outcome {
        match self {
            Self::Exec(command) => exec::run(runtime, container_id, command, timeout).await,
            Self::Tcp(address) => tcp::connect(address, timeout).await,
            Self::Http(get) => http::judge(get.run(timeout).await),
            Self::Grpc(health) => Box::pin(health.check(timeout)).await,
            Self::Impossible(why) => Outcome::Unknown(why.clone()),
        }
    }
}
