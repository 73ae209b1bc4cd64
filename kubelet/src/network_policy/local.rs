//! The pods of this node as policies see them: sandboxes with their addresses, and the labels and ports of their pods.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use api::network_policy::{NamedPort, Pod, Protocol};
use k8s_openapi::api::core::v1::{ContainerPort, Pod as ApiPod};

use super::plan::LocalPod;
use crate::desired::{Completeness, Desired};
use crate::network::native::PolicySandbox;
use crate::observed::PodUid;

/// The labels and ports of the pods with sandboxes. A pod that is no longer desired keeps its last ones, because it may
/// still have connections.
#[derive(Debug, Default)]
pub struct LocalPods {
    known: HashMap<PodUid, Arc<ApiPod>>,
}

impl LocalPods {
    /// Whether the pod of each sandbox is known, or no longer exists.
    pub fn knows_all(&self, sandboxes: &[PolicySandbox], desired: &Desired) -> bool {
        let is_complete = desired.completeness == Completeness::Complete
            && desired.api_completeness == Completeness::Complete;
        let is_known = |uid: &PodUid| self.known.contains_key(uid) || desired.pods.contains_key(uid);
        is_complete || sandboxes.iter().all(|one| is_known(&one.uid))
    }

    /// The pods of these sandboxes.
    pub fn update(&mut self, sandboxes: &[PolicySandbox], desired: &Desired) -> Vec<LocalPod> {
        let uids: HashSet<&PodUid> = sandboxes.iter().map(|one| &one.uid).collect();
        self.known.retain(|uid, _| uids.contains(uid));
        for uid in uids {
            if let Some(pod) = desired.pods.get(uid) {
                self.known.insert(uid.clone(), pod.pod.clone());
            }
        }
        sandboxes.iter().map(|one| self.local_pod(one)).collect()
    }

    fn local_pod(&self, sandbox: &PolicySandbox) -> LocalPod {
        let (namespace, name) = sandbox.pod.split_once('/').unwrap_or(("", &sandbox.pod));
        let known = self.known.get(&sandbox.uid);
        let pod = Pod {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            labels: known.and_then(|pod| pod.metadata.labels.clone()).unwrap_or_default(),
            addresses: sandbox.addresses.clone(),
            ports: known.map(|pod| named_ports(pod)).unwrap_or_default(),
        };
        LocalPod { pod: Arc::new(pod), port: sandbox.port.clone(), mac: sandbox.mac }
    }
}

fn named_ports(pod: &ApiPod) -> Vec<NamedPort> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    containers.flat_map(|container| container.ports.iter().flatten()).filter_map(named_port).collect()
}

fn named_port(port: &ContainerPort) -> Option<NamedPort> {
    let name = port.name.clone().filter(|name| !name.is_empty())?;
    let protocol = Protocol::parse(port.protocol.as_deref().unwrap_or_default())?;
    Some(NamedPort { name, protocol, number: u16::try_from(port.container_port).ok()? })
}
