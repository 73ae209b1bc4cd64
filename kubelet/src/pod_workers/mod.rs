//! Pod workers: one task per pod. It computes pod actions, executes them, and publishes the status.
//!
//! Workers make no decisions of their own: `plan` computes the actions from the desired pod and the pod cache.

mod apply;
mod checkpoint;
mod create;
pub mod evictions;
mod hashes;
mod hooks;
mod in_progress;
mod pod_worker;
pub mod pool;
mod publish;
mod references;
mod refused_edits;
mod stop;
pub mod storage;
mod storage_monitor;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use api::references::References;
use tokio::sync::{Notify, watch};

use crate::cgroups::{Cgroups, Slices};
use crate::desired::DesiredPod;
use crate::images::Images;
use crate::metrics::Metrics;
use crate::observed::{PodUid, Timestamp};
use crate::plan::{BackOff, Ending, RefusedEdit};
use crate::pleg::Pleg;
use crate::report::Outbox;
use crate::runtime::Runtime;
use crate::spec::Facts;
use crate::volumes::Volumes;
pub use checkpoint::nodes;
pub use evictions::Evictions;

/// Shared dependencies of all pod workers.
pub struct Dependencies {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// The PLEG and pod cache.
    pub pleg: Arc<Pleg>,
    /// The image manager.
    pub images: Arc<Images>,
    /// Pod cgroups under cgroupfs, if they are available.
    pub cgroups: Option<Arc<Cgroups>>,
    /// Pod cgroups under systemd, if they are available.
    pub slices: Option<Arc<Slices>>,
    /// The volume manager.
    pub volumes: Arc<Volumes>,
    /// The metrics registry.
    pub metrics: Arc<Metrics>,
    /// The outbox, which receives reports and events.
    pub outbox: Arc<Outbox>,
    /// Facts of the node.
    pub facts: watch::Receiver<Arc<Facts>>,
    /// Queue of terminated pods.
    pub finished: FinishedPods,
    /// Pods that can be evicted, and those that were.
    pub evictions: Arc<Evictions>,
    /// Parameters of the restart back-off.
    pub back_off: BackOff,
    /// The kubelet's root directory.
    pub root_dir: PathBuf,
    /// The pause image.
    pub sandbox_image: String,
}

/// The assignment of a pod worker: the desired pod, and the request to terminate it.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The desired pod. For a terminating pod, it is the last desired version.
    pub pod: Arc<DesiredPod>,
    /// The ConfigMaps and Secrets for the pod.
    pub references: Arc<References>,
    /// The request to terminate and remove the pod. It is never withdrawn.
    pub ending: Option<Ending>,
    /// Whether the source of the pod has sent a complete list since the kubelet started.
    pub is_confirmed: bool,
    /// A newer version of the pod that was rejected.
    pub refused_edit: Option<Arc<RefusedEdit>>,
    /// When the pod was last permitted to return after an eviction because of node pressure.
    pub returned_at: Option<Timestamp>,
}

/// Terminated pods that admission has not processed yet. A pod is queued at most once.
#[derive(Debug, Default)]
pub struct FinishedPods {
    pods: Mutex<BTreeSet<PodUid>>,
    arrived: Notify,
}

impl FinishedPods {
    /// Queues a pod.
    fn add(&self, uid: PodUid) {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner).insert(uid);
        self.arrived.notify_one();
    }

    /// Waits for terminated pods, and removes them from the queue.
    async fn take(&self) -> BTreeSet<PodUid> {
        loop {
            let pods = std::mem::take(&mut *self.pods.lock().unwrap_or_else(PoisonError::into_inner));
            if !pods.is_empty() {
                return pods;
            }
            self.arrived.notified().await;
        }
    }
}
