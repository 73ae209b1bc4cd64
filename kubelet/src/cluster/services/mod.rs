//! Informer of Services and EndpointSlices for the service proxy and the DNS server.
//!
//! It lists and watches both kinds, and publishes a [`ServiceSnapshot`] after each change. It also stores the
//! snapshot, so that a kubelet that starts while no API server answers knows the last one.

mod checkpoint;
mod objects;
mod snapshot;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver::tasks::Tasks;
use client::{Delta, Kind, Scope, Versioned};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};

use self::snapshot::Informer;
use super::is_certificate_error;
use super::reflector::reflect;
use super::stored;
use crate::identity::{Api, ApiError, EventReporter};

pub use self::checkpoint::ServicesFile;
pub use self::objects::{
    Endpoint, EndpointPort, EndpointSlice, NamespacedName, Protocol, Service, ServiceName, ServicePort,
    ServiceType, TrafficPolicy,
};
pub use self::snapshot::ServiceSnapshot;

/// If the API server does not show Services or EndpointSlices to this node, the kubelet lists them again after this
/// time. A new role may allow it by then.
const LIST_RETRY: Duration = Duration::from_secs(60);

/// The API clients, as the cluster tasks receive them.
type Apis = watch::Receiver<Option<Arc<Api>>>;

/// State shared by the two reflectors and the publisher.
#[derive(Debug, Default)]
struct Shared {
    informer: Mutex<Informer>,
    changed: Notify,
}

impl Shared {
    fn apply(&self, change: impl FnOnce(&mut Informer)) {
        change(&mut self.informer.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    /// The complete snapshot. Without one, an unknown snapshot that says whether the API server forbids it.
    fn snapshot(&self) -> ServiceSnapshot {
        let informer = self.informer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_forbidden = informer.is_forbidden();
        informer.complete().unwrap_or_else(|| ServiceSnapshot { is_forbidden, ..ServiceSnapshot::default() })
    }
}

/// Starts the informer. `sender` first receives the snapshot that is stored on disk.
pub fn start(
    root_dir: &Path,
    apis: &Apis,
    sender: watch::Sender<Arc<ServiceSnapshot>>,
    reporter: impl Fn() -> EventReporter,
    tasks: &mut Tasks,
) {
    let shared = Arc::new(Shared::default());
    let file = ServicesFile::under(root_dir);
    tasks.spawn("service publisher", publish(shared.clone(), file, sender));
    let (known, apis_of, reporter_of) = (shared.clone(), apis.clone(), reporter());
    tasks.spawn("service reflector", async move {
        let apply = |delta| known.apply(|informer| informer.apply_services(delta));
        let forbid = || known.apply(Informer::forbid);
        follow(Kind::SERVICE, apis_of, reporter_of, apply, forbid).await;
    });
    let (apis_of, reporter_of) = (apis.clone(), reporter());
    tasks.spawn("endpoint slice reflector", async move {
        let apply = |delta| shared.apply(|informer| informer.apply_slices(delta));
        let forbid = || shared.apply(Informer::forbid);
        follow(Kind::ENDPOINT_SLICE, apis_of, reporter_of, apply, forbid).await;
    });
}

/// Publishes the stored snapshot, then each complete one of the informer.
async fn publish(shared: Arc<Shared>, file: ServicesFile, sender: watch::Sender<Arc<ServiceSnapshot>>) {
    if let Some(snapshot) = file.read().await {
        sender.send_replace(Arc::new(snapshot));
    }
    let write = file.write(sender.subscribe());
    tokio::select! {
        () = write => {}
        () = stored::publish(&shared.changed, || shared.snapshot(), &sender) => {}
    }
}

/// Lists and watches one kind until the kubelet stops.
async fn follow<T: DeserializeOwned + Versioned + Send + Sync>(
    kind: Kind,
    apis: Apis,
    mut reporter: EventReporter,
    mut apply: impl FnMut(Delta<T>) + Send,
    forbid: impl Fn() + Send,
) {
    let (name, scope) = (kind.qualified(), Scope::default());
    loop {
        let on_error = |error: &ApiError| {
            if !is_certificate_error(error) {
                let text = format!(
                    "cannot watch {name} of the cluster: {error}; Services keep using the last known endpoints"
                );
                reporter.warn("ServiceWatchFailed", text, Timestamp::now());
            }
        };
        let Some(error) = reflect(apis.clone(), kind.clone(), &scope, &mut apply, on_error).await else {
            return;
        };
        let text = format!(
            "the API server does not let this node list {name} ({error}), so neither Services nor their names (DNS) work \
             here. If another program serves Services on this node, such as kube-proxy, give --service-proxy none and \
             --cluster-dns. Otherwise allow it: kubectl create clusterrolebinding nodes-are-proxiers \
             --clusterrole=system:node-proxier --group=system:nodes"
        );
        forbid();
        reporter.warn("ServicesNotListed", text, Timestamp::now());
        tokio::time::sleep(LIST_RETRY).await;
    }
}
