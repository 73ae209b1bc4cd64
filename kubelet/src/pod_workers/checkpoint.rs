//! Checkpoint of a pod worker on disk, from which the next kubelet process continues.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::observed::probes::{Kind, ProbeResult, ProbeResults};
use crate::observed::{PodUid, Timestamp};
use crate::plan::{Ending, History};

/// Name of the file in the pod's directory.
const FILE: &str = "record.json";

/// The checkpoint of a pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Checkpoint {
    /// The last desired version of the pod.
    pub pod: Arc<Pod>,
    /// The pod history.
    pub history: History,
    /// Results of readiness and startup probes. The files use the name `verdicts`.
    #[serde(rename = "verdicts")]
    pub probe_results: Vec<SavedProbeResult>,
    /// The last published status.
    pub status: Option<Arc<PodStatus>>,
    /// The request to terminate the pod, if there is one.
    pub ending: Option<Ending>,
}

/// A saved probe result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SavedProbeResult {
    container_id: String,
    startup: bool,
    success: bool,
    since: Timestamp,
}

impl Checkpoint {
    pub fn new(
        pod: Arc<Pod>,
        history: &History,
        probe_results: &ProbeResults,
        status: Option<Arc<PodStatus>>,
        ending: Option<Ending>,
    ) -> Self {
        let saved = probe_results.iter().filter(|(_, kind, _)| *kind != Kind::Liveness);
        Self {
            pod,
            history: history.clone(),
            probe_results: saved
                .map(|(id, kind, probe_result)| SavedProbeResult {
                    container_id: id.to_owned(),
                    startup: kind == Kind::Startup,
                    success: probe_result.success,
                    since: probe_result.since,
                })
                .collect(),
            status,
            ending,
        }
    }

    /// The saved probe results.
    pub fn probe_results(&self) -> ProbeResults {
        let mut probe_results = ProbeResults::default();
        for saved in &self.probe_results {
            let kind = if saved.startup { Kind::Startup } else { Kind::Readiness };
            let probe_result =
                ProbeResult { success: saved.success, since: saved.since, message: String::new() };
            probe_results.set(&saved.container_id, kind, probe_result);
        }
        probe_results
    }
}

fn pods(root_dir: &Path) -> PathBuf {
    root_dir.join("pods")
}

fn path(root_dir: &Path, uid: &PodUid) -> PathBuf {
    pods(root_dir).join(uid.as_str()).join(FILE)
}

/// The node names in all readable checkpoints of a root directory.
pub async fn nodes(root_dir: &Path) -> BTreeSet<String> {
    let pods = pods(root_dir);
    disk::run(move || {
        let entries = std::fs::read_dir(pods).into_iter().flatten().flatten();
        let node = |path: PathBuf| {
            let checkpoint: Checkpoint =
                serde_json::from_slice(&std::fs::read(path.join(FILE)).ok()?).ok()?;
            checkpoint.pod.spec.as_ref()?.node_name.clone()
        };
        entries.filter_map(|entry| node(entry.path())).collect()
    })
    .await
}

/// Loads a checkpoint. Returns `None` if it does not exist or is invalid.
pub(super) async fn load(root_dir: &Path, uid: &PodUid) -> Option<Checkpoint> {
    let path = path(root_dir, uid);
    let (read, path) = disk::run(move || (std::fs::read(&path), path)).await;
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read the checkpoint of a pod; continuing without it");
            return None;
        }
    };
    match serde_json::from_slice(&bytes) {
        Ok(checkpoint) => Some(checkpoint),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the checkpoint of a pod is invalid; continuing without it");
            None
        }
    }
}

/// Writes the checkpoint atomically.
///
/// # Errors
/// If the directory or file cannot be written, for example because the disk is full.
pub(super) async fn save(root_dir: &Path, uid: &PodUid, checkpoint: &Checkpoint) -> io::Result<()> {
    let path = path(root_dir, uid);
    let bytes = serde_json::to_vec(checkpoint)?;
    disk::run(move || {
        // It contains the pod's environment, including passwords.
        if let Some(directory) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o750).create(directory)?;
        }
        let partial = path.with_extension("json.tmp");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(&bytes)?;
        std::fs::rename(&partial, &path)
    })
    .await
}
