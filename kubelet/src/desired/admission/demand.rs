//! Resource requests and host ports of a pod, for admission.

use std::collections::BTreeSet;
use std::fmt;

use api::resources::{ResourceList, is_sidecar, pod_requests};
use k8s_openapi::api::core::v1::Pod;

/// Resource requests and host ports of one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Demand {
    pub requests: ResourceList,
    ports: BTreeSet<HostPort>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostPort {
    number: i32,
    protocol: String,
    /// The host IP; empty for all addresses.
    address: String,
    /// Path of the field that requests the port.
    pub path: String,
}

impl Demand {
    pub fn of(pod: &Pod) -> Self {
        let Some(spec) = &pod.spec else { return Self::default() };
        let sidecars = spec.init_containers.iter().flatten().enumerate();
        let sidecars = sidecars.filter(|(_, init)| is_sidecar(init)).map(|(at, c)| ("initContainers", at, c));
        let containers = spec.containers.iter().enumerate().map(|(at, c)| ("containers", at, c));
        let ports = containers.chain(sidecars).flat_map(|(list, at, container)| {
            let ports = container.ports.iter().flatten().enumerate();
            ports.filter_map(move |(index, port)| {
                let address = port.host_ip.as_deref().unwrap_or_default();
                Some(HostPort {
                    number: port.host_port.filter(|number| *number > 0)?,
                    protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                    address: if matches!(address, "0.0.0.0" | "::") { "" } else { address }.to_owned(),
                    path: format!("spec.{list}[{at}].ports[{index}].hostPort"),
                })
            })
        });
        Self { requests: pod_requests(spec), ports: ports.collect() }
    }

    /// Returns a host port of this pod that conflicts with a host port of the other pod.
    pub fn conflict(&self, other: &Self) -> Option<&HostPort> {
        self.ports.iter().find(|port| other.ports.iter().any(|taken| port.overlaps(taken)))
    }
}

impl HostPort {
    fn overlaps(&self, other: &Self) -> bool {
        self.number == other.number
            && self.protocol == other.protocol
            && (self.address == other.address || self.address.is_empty() || other.address.is_empty())
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.protocol, self.number)?;
        if self.address.is_empty() { Ok(()) } else { write!(f, " on {}", self.address) }
    }
}
