//! From the sources to the workers: starts the sources, merges what they send, tells what is wrong with it.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::desired::{Desired, FoundProblem, Merge, Snapshot, SourceKind};
use crate::observed::Timestamp;
use crate::options::Options;
use crate::report::{About, Outbox, Severity};
use crate::sources::{file, url};
use crate::status::{Board, resources};

/// Snapshots on their way; each replaces the one before, so that one a source is plenty.
const SNAPSHOTS: usize = 2;

/// Keeps `desired` true for as long as anyone looks at it. What is returned takes the snapshots of the master, where there is one.
pub(super) fn follow(
    options: &Options,
    outbox: Arc<Outbox>,
    board: Arc<Board>,
    desired: watch::Sender<Arc<Desired>>,
) -> mpsc::Sender<Arc<Snapshot>> {
    let (snapshots, mut arrived) = mpsc::channel(SNAPSHOTS);
    let mut sources = Vec::new();
    if let Some(path) = options.pod_manifest_path.clone() {
        sources.push(SourceKind::File);
        let settings = file::Settings {
            path,
            node: options.node_name.clone(),
            every: options.file_check_frequency,
            root_dir: options.root_dir.clone(),
        };
        tokio::spawn(file::watch(settings, snapshots.clone()));
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
        tokio::spawn(url::watch(settings, snapshots.clone()));
    }
    if options.cluster.is_some() {
        sources.push(SourceKind::Api);
    }
    let node = options.node_name.clone();
    tokio::spawn(async move {
        let mut merge = Merge::new(sources);
        while let Some(snapshot) = arrived.recv().await {
            let before = merge.desired().clone();
            let now = merge.put(snapshot);
            let is_news = |found: &&FoundProblem| !before.problems.contains(found);
            for found in now.problems.iter().filter(is_news) {
                tracing::warn!(origin = %found.origin, problem = %found.problem, "a manifest is wrong");
                // Each manifest is a subject of its own, so that many wrong ones are not combined into one event.
                let about = About { field_path: found.origin.to_string(), ..About::node(&node) };
                outbox.note(about, Severity::Warning, "InvalidManifest", found.to_string());
            }
            if before.problems != now.problems {
                outbox.problems(now.problems.iter().map(ToString::to_string).collect());
            }
            if !Arc::ptr_eq(&before.references, &now.references) {
                show_references(&board, &now);
            }
            if !Arc::ptr_eq(&before, &now) {
                desired.send_replace(now);
            }
        }
        desired.closed().await; // No source is left: what was wanted last stays wanted.
    });
    snapshots
}

/// ConfigMaps and Secrets of local sources are objects of the node like its pods.
fn show_references(board: &Board, desired: &Desired) {
    let now = Timestamp::now();
    board.set(resources::CONFIG_MAPS, desired.references.config_maps.values().map(AsRef::as_ref), now);
    board.set(resources::SECRETS, desired.references.secrets.values().map(AsRef::as_ref), now);
}
