//! The pods of this node as policies see them: sandboxes with their addresses, and the labels and ports of their pods.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use api::network_policy::{NamedPort, Pod, Protocol};
use k8s_openapi::api::core::v1::{ContainerPort, Pod as ApiPod};

use super::plan::LocalPod;
use crate::desired::{Completeness, Desired, DesiredPod, SourceKind};
use crate::network::native::{PolicyFields, PolicySandbox, SandboxId};
use crate::observed::PodUid;

/// The labels and ports of the pods with sandboxes. A pod that is no longer desired keeps its last ones, because it may
/// still have connections. Pods that have not been desired since the kubelet started have the stored ones.
#[derive(Debug, Default)]
pub struct LocalPods {
    known: HashMap<PodUid, (Arc<ApiPod>, Arc<PolicyFields>)>,
}

impl LocalPods {
    /// Whether the fields of each sandbox's pod are known, or the pod no longer exists or cannot be known now.
    pub fn knows_all(&self, sandboxes: &[PolicySandbox], desired: &Desired) -> bool {
        let is_complete = desired.completeness == Completeness::Complete
            && desired.api_completeness == Completeness::Complete;
        let is_known = |one: &PolicySandbox| {
            one.fields.is_some()
                || self.known.contains_key(&one.uid)
                || find(desired, &one.uid).is_some()
                || desired.waiting.contains(&one.uid)
        };
        is_complete || sandboxes.iter().all(is_known)
    }

    /// The pods of these sandboxes.
    pub fn update(&mut self, sandboxes: &[PolicySandbox], desired: &Desired) -> Vec<LocalPod> {
        let uids: HashSet<&PodUid> = sandboxes.iter().map(|one| &one.uid).collect();
        self.known.retain(|uid, _| uids.contains(uid));
        for uid in uids {
            let Some(DesiredPod { pod, .. }) = find(desired, uid) else { continue };
            if self.known.get(uid).is_none_or(|(known, _)| !Arc::ptr_eq(known, pod)) {
                self.known.insert(uid.clone(), (pod.clone(), Arc::new(fields_of(pod))));
            }
        }
        sandboxes.iter().map(|one| self.local_pod(one)).collect()
    }

    /// The fields that are not stored yet.
    pub fn unstored(&self, sandboxes: &[PolicySandbox]) -> Vec<(SandboxId, Arc<PolicyFields>)> {
        let unstored = sandboxes.iter().filter_map(|one| {
            let (_, fields) = self.known.get(&one.uid)?;
            (one.fields.as_ref() != Some(fields)).then(|| (one.id.clone(), fields.clone()))
        });
        unstored.collect()
    }

    fn local_pod(&self, sandbox: &PolicySandbox) -> LocalPod {
        let fields = self.known.get(&sandbox.uid).map(|(_, fields)| fields).or(sandbox.fields.as_ref());
        let pod = match fields {
            Some(fields) => {
                let PolicyFields { namespace, name, labels, ports } = PolicyFields::clone(fields);
                Pod { namespace, name, labels, ports, addresses: sandbox.addresses.clone() }
            }
            None => {
                let (namespace, name) = sandbox.pod.split_once('/').unwrap_or(("", &sandbox.pod));
                Pod {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    addresses: sandbox.addresses.clone(),
                    ..Pod::default()
                }
            }
        };
        LocalPod {
            pod: Arc::new(pod),
            has_known_labels: fields.is_some(),
            port: sandbox.port.clone(),
            mac: sandbox.mac,
        }
    }
}

/// Whether a pod is desired by another source than the API server.
pub fn is_of_local_source(desired: &Desired, uid: &PodUid) -> bool {
    find(desired, uid).is_some_and(|pod| pod.source != SourceKind::Api)
}

/// A pod that is desired, or was until a local pod got the same name.
fn find<'d>(desired: &'d Desired, uid: &PodUid) -> Option<&'d DesiredPod> {
    let conflicting = || desired.name_conflicts.get(uid).map(|(pod, _)| pod);
    desired.pods.get(uid).or_else(conflicting).map(|pod| &**pod)
}

fn fields_of(pod: &ApiPod) -> PolicyFields {
    PolicyFields {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        labels: pod.metadata.labels.clone().unwrap_or_default(),
        ports: named_ports(pod),
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests;
