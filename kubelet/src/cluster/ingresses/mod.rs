//! Informer of Ingresses and of the TLS Secrets that they name, for the Ingress controller.
//!
//! It lists and watches all Ingresses, and each Secret by its name: the API server shows a node only the Secrets of
//! Ingresses, and only if an administrator has labelled the Node. Both are stored on disk, so that a kubelet that starts
//! while no API server answers serves the last ones.

mod checkpoint;
mod objects;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver::auth::INGRESS_LABEL;
use apiserver::tasks::Tasks;
use client::{Delta, Kind, Scope};
use jiff::Timestamp;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};

use self::checkpoint::IngressesFile;
use self::objects::{ApiIngress, ApiSecret};
use super::is_certificate_error;
use super::reflector::reflect;
use super::stored;
use crate::identity::{Api, ApiError, EventReporter};

#[cfg(test)]
pub use self::objects::{Backend, Tls};
pub use self::objects::{
    BackendPort, Ingress, NamespacedName, Path as IngressPath, PathType, Paths, Rule, ServiceBackend,
    TlsFiles,
};

/// Shortest time between two snapshots. Changes that arrive meanwhile are published together.
const MIN_PUBLISH_INTERVAL: Duration = Duration::from_millis(50);
/// After the API server has rejected a list, the kubelet lists again after this time. A label or role may allow it by
/// then.
const LIST_RETRY: Duration = Duration::from_secs(10);
/// The path of the Service by which an API server shows that it has data.
const API_SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";
/// Time between two attempts to confirm a list that lacks known Ingresses.
const CONFIRM_RETRY: Duration = Duration::from_secs(1);
/// Largest number of TLS Secrets that are watched. Each takes a watch, and the API server permits 1,000 per user.
const MAX_SECRETS: usize = 500;

/// The API clients, as the cluster tasks receive them.
type Apis = watch::Receiver<Option<Arc<Api>>>;

/// All Ingresses of the class and their certificates at one moment. A clone shares all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngressSnapshot {
    /// Whether an API server or the stored file has provided the content. If not, the snapshot is empty.
    pub is_known: bool,
    /// The Ingresses.
    pub ingresses: BTreeMap<NamespacedName, Arc<Ingress>>,
    /// The certificates by the name of their Secret. Missing and invalid Secrets are not here.
    pub certificates: BTreeMap<NamespacedName, Arc<TlsFiles>>,
    /// Known Ingresses that the last list lacks. They stay until the API server that sent it shows that it has data.
    pub unlisted: BTreeSet<NamespacedName>,
}

impl stored::Snapshot for IngressSnapshot {
    fn is_known(&self) -> bool {
        self.is_known
    }
}

impl IngressSnapshot {
    /// The Secrets that the Ingresses name, at most [`MAX_SECRETS`].
    fn secrets(&self) -> BTreeSet<NamespacedName> {
        let tls = self.ingresses.iter().flat_map(|(name, one)| one.tls.iter().map(move |tls| (name, tls)));
        let named = tls.filter(|(_, tls)| !tls.secret_name.is_empty());
        let mut secrets: BTreeSet<_> =
            named.map(|(of, tls)| NamespacedName::new(&of.namespace, &tls.secret_name)).collect();
        while secrets.len() > MAX_SECRETS {
            secrets.pop_last();
        }
        secrets
    }

    /// Applies a delta of Ingresses. A list does not remove known Ingresses; see [`IngressSnapshot::remove_unlisted`].
    fn apply(&mut self, delta: Delta<ApiIngress>) {
        match delta {
            Delta::Replaced(objects, _) => {
                let listed = objects.into_iter().filter_map(|one| Some((one.name(), one.into_ingress()?)));
                let listed: BTreeMap<_, _> = listed.map(|(name, one)| (name, Arc::new(one))).collect();
                self.unlisted =
                    self.ingresses.keys().filter(|one| !listed.contains_key(one)).cloned().collect();
                self.ingresses.extend(listed);
                self.is_known = true;
            }
            Delta::Applied(object) => {
                let name = object.name();
                self.unlisted.remove(&name);
                match object.into_ingress() {
                    Some(ingress) => drop(self.ingresses.insert(name, Arc::new(ingress))),
                    None => drop(self.ingresses.remove(&name)),
                }
            }
            Delta::Deleted(object) => drop(self.ingresses.remove(&object.name())),
        }
    }

    /// Removes the Ingresses that the last list lacks, after its server has shown that it has not lost its data.
    fn remove_unlisted(&mut self) {
        for name in std::mem::take(&mut self.unlisted) {
            self.ingresses.remove(&name);
        }
    }

    /// Applies a delta of the Secret of this name.
    fn apply_secret(&mut self, name: &NamespacedName, delta: Delta<ApiSecret>) {
        let secret = match delta {
            Delta::Replaced(objects, _) => objects.into_iter().next(),
            Delta::Applied(object) => Some(object),
            Delta::Deleted(_) => None,
        };
        match secret.and_then(ApiSecret::into_tls_files) {
            Some(files) => drop(self.certificates.insert(name.clone(), files)),
            None => drop(self.certificates.remove(name)),
        }
    }
}

/// State shared by the reflectors and the publisher.
#[derive(Debug, Default)]
struct Shared {
    snapshot: Mutex<IngressSnapshot>,
    changed: Notify,
    /// How many lists of Ingresses were received.
    lists: watch::Sender<u64>,
}

impl Shared {
    fn apply(&self, change: impl FnOnce(&mut IngressSnapshot)) {
        change(&mut self.snapshot.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_one();
    }

    fn snapshot(&self) -> IngressSnapshot {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts the informer. `sender` first receives the snapshot that is stored on disk.
pub fn start(
    root_dir: &Path,
    apis: &Apis,
    sender: watch::Sender<Arc<IngressSnapshot>>,
    node: &str,
    reporter: impl Fn() -> EventReporter + Clone + Send + 'static,
    tasks: &mut Tasks,
) {
    let shared = Arc::new(Shared::default());
    let (file, node, apis) = (IngressesFile::under(root_dir), node.to_owned(), apis.clone());
    tasks.spawn("ingress informer", async move {
        if let Some(stored) = file.read().await {
            sender.send_replace(Arc::new(stored.clone()));
            // They stay in use until the API server shows others.
            shared.apply(|snapshot| *snapshot = stored);
        }
        let secrets = Secrets { shared: shared.clone(), apis: apis.clone(), node };
        let updates = sender.subscribe();
        tokio::join!(
            follow(&shared, apis.clone(), reporter()),
            confirm(&shared, apis),
            publish(&shared, sender, secrets, reporter),
            file.write(updates)
        );
    });
}

/// Publishes each new snapshot, and watches the Secrets that it names.
async fn publish(
    shared: &Shared,
    sender: watch::Sender<Arc<IngressSnapshot>>,
    secrets: Secrets,
    reporter: impl Fn() -> EventReporter,
) {
    let (mut watches, mut running) = (JoinSet::new(), HashMap::<NamespacedName, AbortHandle>::new());
    loop {
        shared.changed.notified().await;
        let mut snapshot = shared.snapshot();
        if !snapshot.is_known {
            continue;
        }
        let wanted = snapshot.secrets();
        running.retain(|name, task| {
            let is_wanted = wanted.contains(name);
            if !is_wanted {
                task.abort();
            }
            is_wanted
        });
        while watches.try_join_next().is_some() {}
        for name in &wanted {
            running
                .entry(name.clone())
                .or_insert_with(|| watches.spawn(secrets.clone().follow(name.clone(), reporter())));
        }
        snapshot.certificates.retain(|name, _| wanted.contains(name));
        sender.send_if_modified(|known| {
            let is_new = **known != snapshot;
            // An equal snapshot keeps its place in memory, by which the Ingress controller sees that nothing changed.
            if is_new {
                *known = Arc::new(snapshot);
            }
            is_new
        });
        tokio::time::sleep(MIN_PUBLISH_INTERVAL).await;
    }
}

/// Removes Ingresses that a list lacks once its API server has the Service `default/kubernetes`. Every API server
/// creates that one, so without it the server has lost its data or has just started.
async fn confirm(shared: &Shared, apis: Apis) {
    let mut received = shared.lists.subscribe();
    loop {
        received.borrow_and_update();
        if shared.snapshot().unlisted.is_empty() {
            if received.changed().await.is_err() {
                return;
            }
            continue;
        }
        let api = apis.borrow().clone();
        let answer = match api {
            Some(api) => api.get(API_SERVICE).await.is_ok(),
            None => false,
        };
        // The answer does not confirm a newer list.
        if answer && received.has_changed().is_ok_and(|is_newer| !is_newer) {
            shared.apply(IngressSnapshot::remove_unlisted);
        } else {
            tokio::time::sleep(CONFIRM_RETRY).await;
        }
    }
}

/// Lists and watches the Ingresses until the kubelet stops.
async fn follow(shared: &Shared, apis: Apis, mut reporter: EventReporter) {
    let scope = Scope::default();
    loop {
        let on_error = |error: &ApiError| {
            if !is_certificate_error(error) {
                let text = format!(
                    "cannot watch Ingresses of the cluster: {error}; the last known ones stay in use"
                );
                reporter.warn("IngressWatchFailed", text, Timestamp::now());
            }
        };
        let mut apply = |delta| {
            let is_list = matches!(delta, Delta::Replaced(..));
            shared.apply(|snapshot| snapshot.apply(delta));
            if is_list {
                shared.lists.send_modify(|lists| *lists += 1);
            }
        };
        let Some(error) = reflect(apis.clone(), Kind::INGRESS, &scope, &mut apply, on_error).await else {
            return;
        };
        let text = format!(
            "the API server does not let this node list Ingresses ({error}), so it serves only those that it already \
             knows. Allow it: kubectl create clusterrole nodes-read-ingresses --verb=get,list,watch \
             --resource=ingresses.networking.k8s.io, and kubectl create clusterrolebinding \
             nodes-read-ingresses --clusterrole=nodes-read-ingresses --group=system:nodes"
        );
        reporter.warn("IngressesNotListed", text, Timestamp::now());
        tokio::time::sleep(LIST_RETRY).await;
    }
}

/// How the Secrets of Ingresses are watched.
#[derive(Clone)]
struct Secrets {
    shared: Arc<Shared>,
    apis: Apis,
    /// The node's name.
    node: String,
}

impl Secrets {
    /// Lists and watches one Secret until no Ingress names it.
    async fn follow(self, name: NamespacedName, mut reporter: EventReporter) {
        let scope = Scope::object(&name.namespace, &name.name);
        loop {
            let on_error = |error: &ApiError| {
                tracing::debug!(secret = %name, %error, "cannot watch the Secret of an Ingress");
            };
            let mut apply = |delta| self.shared.apply(|snapshot| snapshot.apply_secret(&name, delta));
            let refused = reflect(self.apis.clone(), Kind::SECRET, &scope, &mut apply, on_error).await;
            let Some(error) = refused else { return };
            // Without the right to a certificate, this node must not continue to use it.
            self.shared.apply(|snapshot| drop(snapshot.certificates.remove(&name)));
            let text = format!(
                "the API server does not let this node read the Secret {name} of an Ingress ({error}), so its hosts get the \
                 default certificate. Allow it: kubectl label node {} {INGRESS_LABEL}=true",
                self.node
            );
            reporter.warn("IngressSecretForbidden", text, Timestamp::now());
            tokio::time::sleep(LIST_RETRY).await;
        }
    }
}
