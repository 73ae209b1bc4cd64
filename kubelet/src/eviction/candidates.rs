//! Observes the pods that can be evicted, with their usage of a resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::quantity::Quantity;
use api::resources::{list, pod_requests};

use super::rank::{Candidate, ContainerUse};
use crate::desired::DesiredPod;
use crate::observed::{PodUid, Timestamp};
use crate::options::Signal;
use crate::pod_workers::Dependencies;
use crate::pod_workers::storage::{self, PodStorage};
use crate::spec;
use crate::stats::{PodUsage, StatsProvider};
use crate::volumes::DiskUse;

/// The part of a pod's local storage that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskScope {
    /// Writable layers, logs and `emptyDir` volumes.
    All,
    /// Writable layers and logs.
    Engine,
    /// `emptyDir` volumes.
    Volumes,
}

/// The usage of a pod.
#[derive(Debug, Default)]
struct PodUse {
    /// The resource in question: bytes, inodes or processes. `None` if it is unknown.
    used: Option<u64>,
    /// Bytes by container, for the message.
    containers: BTreeMap<String, u64>,
}

/// The pods that can be evicted.
pub(super) struct Candidates {
    /// The resource that pods request, if the signal is about one.
    resource: Option<&'static str>,
    pods: BTreeMap<PodUid, (Arc<DesiredPod>, PodUse)>,
}

impl Candidates {
    /// Observes all pods that have containers, except critical ones.
    pub async fn observe(
        deps: &Dependencies,
        stats: &Arc<StatsProvider>,
        signal: Signal,
        scope: DiskScope,
    ) -> Self {
        let active = deps.evictions.active().into_iter();
        let may_go =
            |pod: &Arc<DesiredPod>| !spec::is_critical(&pod.pod) && !deps.pleg.pod(&pod.uid).is_gone();
        let active: Vec<Arc<DesiredPod>> = active.filter(may_go).collect();
        let resource = match signal {
            Signal::MemoryAvailable => Some("memory"),
            Signal::NodeFsAvailable | Signal::ImageFsAvailable => Some("ephemeral-storage"),
            Signal::NodeFsInodesFree | Signal::ImageFsInodesFree | Signal::PidAvailable => None,
        };
        let mut pods = BTreeMap::new();
        match signal {
            Signal::MemoryAvailable | Signal::PidAvailable => {
                let usage = stats.take(Timestamp::now()).await;
                let is_complete = usage.as_ref().is_ok_and(|usage| !usage.is_incomplete);
                let usage = usage.map(|usage| usage.pods).unwrap_or_default();
                for pod in active {
                    let found = usage.iter().find(|usage| usage.uid == pod.uid.as_str());
                    let used = found.map(|usage| of_cgroups(signal, usage));
                    // A pod between two runs uses nothing.
                    let nothing = PodUse { used: is_complete.then_some(0), ..PodUse::default() };
                    pods.insert(pod.uid.clone(), (pod, used.unwrap_or(nothing)));
                }
            }
            Signal::NodeFsAvailable
            | Signal::NodeFsInodesFree
            | Signal::ImageFsAvailable
            | Signal::ImageFsInodesFree => {
                for pod in active {
                    let used = match storage::measure(deps, &pod.uid).await {
                        Ok(storage) => of_disk(signal, scope, &storage),
                        Err(error) => {
                            tracing::warn!(pod = %pod.uid, error, "cannot measure the storage of a pod");
                            PodUse::default()
                        }
                    };
                    pods.insert(pod.uid.clone(), (pod, used));
                }
            }
        }
        Self { resource, pods }
    }

    /// The candidates, not ranked yet.
    pub fn candidates(&self) -> Vec<Candidate> {
        let pods = self.pods.iter().map(|(uid, (pod, used))| {
            let requests = pod.pod.spec.as_ref().map(pod_requests).unwrap_or_default();
            let request = self.resource.and_then(|resource| requests.get(resource));
            Candidate {
                uid: uid.clone(),
                priority: spec::priority(&pod.pod),
                request: request.and_then(|amount| u64::try_from(amount.units()).ok()).unwrap_or(0),
                usage: used.used,
            }
        });
        pods.collect()
    }

    /// The usage of each container of a pod, for the message. Empty if the resource has no requests.
    pub fn containers(&self, uid: &PodUid) -> Vec<ContainerUse> {
        let (Some((pod, used)), Some(resource)) = (self.pods.get(uid), self.resource) else {
            return Vec::new();
        };
        let containers = pod
            .pod
            .spec
            .iter()
            .flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
        let uses = containers.filter_map(|container| {
            let requests =
                list(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
            Some(ContainerUse {
                name: container.name.clone(),
                used_bytes: *used.containers.get(&container.name)?,
                request: requests.get(resource).copied().unwrap_or(Quantity::ZERO),
            })
        });
        uses.collect()
    }
}

fn of_cgroups(signal: Signal, usage: &PodUsage) -> PodUse {
    let bytes = usage.used.counted.working_set_bytes;
    let processes = usage.containers.iter().map(|container| container.processes).sum();
    let containers = usage.containers.iter();
    let containers =
        containers.map(|container| (container.name.clone(), container.used.counted.working_set_bytes));
    let used = if signal == Signal::PidAvailable { processes } else { bytes };
    PodUse { used: Some(used), containers: containers.collect() }
}

fn of_disk(signal: Signal, scope: DiskScope, storage: &PodStorage) -> PodUse {
    let counted = match scope {
        DiskScope::All => storage.total(),
        DiskScope::Engine => storage.of_engine(),
        DiskScope::Volumes => storage.volumes,
    };
    let DiskUse { bytes, inodes } = counted;
    let is_inodes = matches!(signal, Signal::NodeFsInodesFree | Signal::ImageFsInodesFree);
    let containers = storage.containers.iter();
    let containers =
        containers.map(|container| (container.name.clone(), container.layer.plus(container.logs).bytes));
    PodUse { used: Some(if is_inodes { inodes } else { bytes }), containers: containers.collect() }
}
