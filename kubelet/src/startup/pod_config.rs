//! Starts the pod sources, merges their snapshots, and reports problems.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::tasks::Tasks;
use tokio::sync::{mpsc, watch};

use crate::desired::{Desired, Merge, Snapshot, SourceKind};
use crate::observed::Timestamp;
use crate::options::Options;
use crate::report::{About, Outbox, Severity};
use crate::sources::{file, url};
use crate::status::{StatusManager, resources};

/// Capacity of the snapshot channel. A newer snapshot replaces an older one, so one per source is enough.
const SNAPSHOTS: usize = 2;

/// Updates `desired` from all sources while it has receivers. Returns the sender for snapshots of the API server source.
pub(super) fn follow(
    options: &Options,
    outbox: Arc<Outbox>,
    status_manager: Arc<StatusManager>,
    desired: watch::Sender<Arc<Desired>>,
    tasks: &mut Tasks,
) -> mpsc::Sender<Arc<Snapshot>> {
    let (snapshots, arrived) = mpsc::channel(SNAPSHOTS);
    let mut sources = Vec::new();
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
        outbox,
        status_manager,
        desired,
    };
    tasks.spawn("pod config", merger.run(arrived));
    snapshots
}

/// Merges the snapshots of all sources, and reports what changed.
struct Merger {
    merge: Merge,
    node: String,
    /// The skipped entries of each source that were reported.
    skipped: BTreeMap<SourceKind, Vec<String>>,
    outbox: Arc<Outbox>,
    status_manager: Arc<StatusManager>,
    desired: watch::Sender<Arc<Desired>>,
}

impl Merger {
    async fn run(mut self, mut arrived: mpsc::Receiver<Arc<Snapshot>>) {
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
        for found in now.problems.iter().filter(|found| !before.problems.contains(found)) {
            self.warn(&found.origin, "InvalidManifest", found.to_string());
        }
        if before.problems != now.problems {
            self.outbox.problems(now.problems.iter().map(ToString::to_string).collect());
        }
        if !Arc::ptr_eq(&before.references, &now.references) {
            show_references(&self.status_manager, now);
        }
    }

    /// Records a Warning event. The path is part of the event's subject, so that events about many files are not
    /// aggregated.
    fn warn(&self, path: &str, reason: &'static str, message: String) {
        let about = About { field_path: path.to_owned(), ..About::node(&self.node) };
        self.outbox.note(about, Severity::Warning, reason, message);
    }
}

/// Adds ConfigMaps and Secrets of local sources to the local API.
fn show_references(status_manager: &StatusManager, desired: &Desired) {
    let now = Timestamp::now();
    status_manager.set(
        resources::CONFIG_MAPS,
        desired.references.config_maps.values().map(AsRef::as_ref),
        now,
    );
    status_manager.set(resources::SECRETS, desired.references.secrets.values().map(AsRef::as_ref), now);
}
