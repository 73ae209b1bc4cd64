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

use apiserver::admission::{Admission, NamespaceLifecycle, NestingLimit};
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
}

/// Loads the pushed objects, starts the source, and returns the API of the node. Damaged files cause an event.
pub fn start(
    settings: Settings,
    snapshots: mpsc::Sender<Arc<Snapshot>>,
    outbox: &Outbox,
    tasks: &mut Tasks,
) -> Arc<Api> {
    let Settings { node, root_dir, cache, catalog, desired, ended } = settings;
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
    let admission: Vec<Arc<dyn Admission>> = vec![
        Arc::new(NestingLimit),
        NamespaceLifecycle::new(registry.clone()),
        Arc::new(PushedOnly::new(node, store.clone(), desired)),
    ];
    let api = Api::writable(registry, admission, VERSION);
    tasks.spawn("push source", follow(store.snapshots(), snapshots));
    tasks.spawn("push cleanup", Cleanup::new(&api, store, ended).run());
    api
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
