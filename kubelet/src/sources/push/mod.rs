//! The source of pushed pods: objects that clients write through the API of this node.
//!
//! The write path is that of the control plane. [`PushedObjects`] is its durable store, [`PushedOnly`] its admission
//! plugin, and [`Cleanup`] completes deletions.

mod admission;
mod cleanup;
mod files;
mod store;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use apiserver::admission::{Admission, NamespaceLifecycle, NestingLimit, ServiceIpAllocator, ServiceRange};
use apiserver::registry::Registry;
use apiserver::tasks::Tasks;
use apiserver::watch_cache::WatchCache;
use apiserver::{Api, Catalog, VERSION};
use tokio::sync::{mpsc, watch};

use self::admission::PushedOnly;
use self::cleanup::Cleanup;
use self::store::PushedObjects;
use crate::desired::{Desired, Snapshot};
use crate::report::{About, EndedPods, Outbox, Severity};

/// The origin of pushed objects in messages.
const ORIGIN: &str = "the API of this node (kubectl)";
const PODS: &str = "pods";
const CONFIG_MAPS: &str = "configmaps";
const SECRETS: &str = "secrets";
const SERVICES: &str = "services";
const NAMESPACES: &str = "namespaces";
/// Namespaces that every node shows, as every control plane has them.
pub const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// What the source needs.
pub struct Settings {
    /// Name of this node.
    pub node: String,
    /// The root directory, which has the files.
    pub root_dir: PathBuf,
    /// The cache that the API serves.
    pub cache: WatchCache,
    /// The served resources.
    pub catalog: Catalog,
    /// The merge of all sources, which knows the owners of objects.
    pub desired: watch::Receiver<Arc<Desired>>,
    /// Pods of which nothing is left on this node.
    pub ended: Arc<EndedPods>,
    /// The addresses of Services.
    pub service_ranges: Vec<ServiceRange>,
    /// Whether the node belongs to a cluster, whose API server has the Services.
    pub is_of_cluster: bool,
}

/// Loads the pushed objects, starts the source, and returns the API of the node with its allocator of Service addresses.
/// Damaged files cause an event.
pub fn start(
    settings: Settings,
    snapshots: mpsc::Sender<Arc<Snapshot>>,
    outbox: &Outbox,
    tasks: &mut Tasks,
) -> (Arc<Api>, Arc<ServiceIpAllocator>) {
    let Settings { node, root_dir, cache, catalog, desired, ended, service_ranges, is_of_cluster } = settings;
    let (store, damaged) = PushedObjects::open(&root_dir, cache.clone(), catalog.clone());
    for damage in damaged {
        let path = damage.path.display().to_string();
        let message = format!(
            "the kubelet does not use {path}: {}. If its content is lost, create the object again",
            damage.why
        );
        let about = About { field_path: path, ..About::node(&node) };
        outbox.note(about, Severity::Warning, "PushedObjectDamaged", message);
    }
    let registry = Registry::over(Arc::new(store.clone()), cache, catalog);
    let allocator = Arc::new(ServiceIpAllocator::new(registry.clone(), service_ranges));
    let admission: Vec<Arc<dyn Admission>> = vec![
        Arc::new(NestingLimit),
        NamespaceLifecycle::new(registry.clone()),
        Arc::new(PushedOnly::new(node, store.clone(), desired, is_of_cluster)),
        allocator.clone(),
    ];
    let api = Api::writable(registry, admission, VERSION);
    tasks.spawn("push source", follow(store.snapshots(), snapshots));
    tasks.spawn("push cleanup", Cleanup::new(&api, store, ended).run());
    (api, allocator)
}

/// Sends every snapshot to the merge. A newer one replaces an older one.
async fn follow(mut latest: watch::Receiver<Arc<Snapshot>>, snapshots: mpsc::Sender<Arc<Snapshot>>) {
    loop {
        let snapshot = latest.borrow_and_update().clone();
        if snapshots.send(snapshot).await.is_err() || latest.changed().await.is_err() {
            return;
        }
    }
}
