//! Starts the pod sources, merges their snapshots, and reports problems.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apiserver::Api;
use apiserver::tasks::Tasks;
use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::{mpsc, watch};

use super::service_proxy;
use crate::cluster::services::ServiceSnapshot;
use crate::desired::{Desired, Merge, Snapshot, SourceKind};
use crate::local_services::LocalServices;
use crate::observed::Timestamp;
use crate::options::Options;
use crate::report::{About, Outbox, Severity};
use crate::sources::{file, push, url};
use crate::status::{StatusManager, resources};

/// Capacity of the snapshot channel. A newer snapshot replaces an older one, so one per source is enough.
const SNAPSHOTS: usize = 2;

/// Updates `desired` from all sources while it has receivers. Returns the sender for snapshots
/// of the API server source, and the API of the node.
pub(super) fn follow(
    options: &Options,
    outbox: Arc<Outbox>,
    status_manager: Arc<StatusManager>,
    desired: watch::Sender<Arc<Desired>>,
    services: Option<watch::Sender<Arc<ServiceSnapshot>>>,
    tasks: &mut Tasks,
) -> (mpsc::Sender<Arc<Snapshot>>, Arc<Api>) {
    let (snapshots, arrived) = mpsc::channel(SNAPSHOTS);
    let mut sources = vec![SourceKind::Push];
    let settings = push::Settings {
        node: options.node_name.clone(),
        root_dir: options.root_dir.clone(),
        cache: status_manager.store().clone(),
        catalog: resources::catalog(),
        desired: desired.subscribe(),
        ended: status_manager.ended_pods(),
        service_ranges: options.service_ranges.clone(),
        is_of_cluster: options.cluster.is_some(),
    };
    let (api, allocator) = push::start(settings, snapshots.clone(), &outbox, tasks);
    if options.cluster.is_none() {
        // The DNS server alone also needs the Services.
        let is_served = services.is_some() && service_proxy::is_wanted(options);
        let local = LocalServices {
            node: options.node_name.clone(),
            root_dir: options.root_dir.clone(),
            allocator,
            desired: desired.subscribe(),
            status_manager: status_manager.clone(),
            sender: services.unwrap_or_else(|| watch::channel(Arc::default()).0),
            is_served,
            outbox: outbox.clone(),
        };
        tasks.spawn("local Services", local.run());
    }
    if let Some(path) = options.pod_manifest_path.clone() {
        sources.push(SourceKind::File);
        let settings = file::Settings {
            path,
            node: options.node_name.clone(),
            every: options.file_check_frequency,
            root_dir: options.root_dir.clone(),
        };
        tasks.spawn("file source", file::watch(settings, snapshots.clone()));
    }
    if let Some(url) = options.manifest_url.clone() {
        sources.push(SourceKind::Http);
        let settings = url::Settings {
            url,
            headers: options.manifest_url_headers.clone(),
            node: options.node_name.clone(),
            every: options.http_check_frequency,
            root_dir: options.root_dir.clone(),
        };
        tasks.spawn("URL source", url::watch(settings, snapshots.clone()));
    }
    if options.cluster.is_some() {
        sources.push(SourceKind::Api);
    }
    let merger = Merger {
        merge: Merge::new(sources),
        node: options.node_name.clone(),
        skipped: BTreeMap::new(),
        is_of_cluster: options.cluster.is_some(),
        outbox,
        status_manager,
        desired,
    };
    tasks.spawn("pod config", merger.run(arrived));
    (snapshots, api)
}

/// Merges the snapshots of all sources, and reports what changed.
struct Merger {
    merge: Merge,
    node: String,
    /// The skipped entries of each source that were reported.
    skipped: BTreeMap<SourceKind, Vec<String>>,
    is_of_cluster: bool,
    outbox: Arc<Outbox>,
    status_manager: Arc<StatusManager>,
    desired: watch::Sender<Arc<Desired>>,
}

impl Merger {
    async fn run(mut self, mut arrived: mpsc::Receiver<Arc<Snapshot>>) {
        show_namespaces(&self.status_manager, self.merge.desired());
        while let Some(snapshot) = arrived.recv().await {
            self.report_skipped(&snapshot);
            let before = self.merge.desired().clone();
            let now = self.merge.put(snapshot);
            self.report_changes(&before, &now);
            if !Arc::ptr_eq(&before, &now) {
                self.desired.send_replace(now);
            }
        }
        self.desired.closed().await; // Without sources, the last desired state stays.
    }

    fn report_skipped(&mut self, snapshot: &Snapshot) {
        let reported = self.skipped.insert(snapshot.source, snapshot.skipped.clone()).unwrap_or_default();
        for entry in snapshot.skipped.iter().filter(|entry| !reported.contains(entry)) {
            let path = entry.split(": ").next().unwrap_or_default();
            self.warn(path, "ManifestSkipped", entry.clone());
        }
    }

    fn report_changes(&self, before: &Desired, now: &Desired) {
        for (uid, pod) in &now.pods {
            if before.pods.get(uid).is_some_and(|old| !Arc::ptr_eq(&old.pod, &pod.pod)) {
                self.outbox.edited(uid.clone());
            }
        }
        if self.is_of_cluster && !Arc::ptr_eq(&before.references, &now.references) {
            let known = &before.references.services;
            for (namespace, name) in now.references.services.keys().filter(|key| !known.contains_key(*key)) {
                let text = format!(
                    "the Service {namespace}/{name} of a manifest is ignored, because this node belongs to a cluster: \
                     apply it there (kubectl apply -f FILE)"
                );
                self.warn(&format!("{namespace}/{name}"), "ServiceIgnored", text);
            }
        }
        for found in now.problems.iter().filter(|found| !before.problems.contains(found)) {
            self.warn(&found.origin, "InvalidManifest", found.to_string());
        }
        if before.problems != now.problems {
            self.outbox.problems(now.problems.iter().map(ToString::to_string).collect());
        }
        if !Arc::ptr_eq(&before.references, &now.references) {
            show_references(&self.status_manager, now);
        }
        show_namespaces(&self.status_manager, now);
    }

    /// Records a Warning event. The path is part of the event's subject, so that events about many files are not
    /// aggregated.
    fn warn(&self, path: &str, reason: &'static str, message: String) {
        let about = About { field_path: path.to_owned(), ..About::node(&self.node) };
        self.outbox.note(about, Severity::Warning, reason, message);
    }
}

/// Shows the ConfigMaps and Secrets of files and URLs in the API of the node. Pushed ones are there already.
fn show_references(status_manager: &StatusManager, desired: &Desired) {
    let now = Timestamp::now();
    let maps =
        desired.references.config_maps.iter().filter(|(key, _)| desired.is_of_manifest("ConfigMap", key));
    status_manager.set(resources::CONFIG_MAPS, maps.map(|(_, map)| map.as_ref()), now);
    let secrets = desired.references.secrets.iter().filter(|(key, _)| desired.is_of_manifest("Secret", key));
    status_manager.set(resources::SECRETS, secrets.map(|(_, secret)| secret.as_ref()), now);
}

/// Shows the namespaces of all objects, and those that every node has.
fn show_namespaces(status_manager: &StatusManager, desired: &Desired) {
    let of_objects =
        desired.owners.keys().map(|name| name.namespace.as_str()).filter(|name| !name.is_empty());
    let names: BTreeSet<&str> = push::SYSTEM_NAMESPACES.into_iter().chain(of_objects).collect();
    let namespaces: Vec<Namespace> = names.into_iter().map(namespace).collect();
    status_manager.set(resources::NAMESPACES, namespaces.iter(), Timestamp::now());
}

fn namespace(name: &str) -> Namespace {
    let labels = BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name.to_owned())]);
    let metadata = ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..ObjectMeta::default() };
    let status = NamespaceStatus { phase: Some("Active".to_owned()), ..NamespaceStatus::default() };
    Namespace { metadata, status: Some(status), ..Namespace::default() }
}
