//! What a worker writes down about its pod, so that the next kubelet goes on where this one was.

use std::collections::BTreeSet;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::observed::probes::{Kind, Verdict, Verdicts};
use crate::observed::{PodUid, Timestamp};
use crate::plan::{Ending, History};

/// The file in the pod's directory.
const FILE: &str = "record.json";

/// Everything that is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    /// The pod as it was last wanted.
    pub pod: Arc<Pod>,
    /// What has been.
    pub history: History,
    /// Standing verdicts of readiness and startup probes.
    pub verdicts: Vec<Stood>,
    /// What was last told of it.
    pub status: Option<Arc<PodStatus>>,
    /// Set once it is being ended.
    pub ending: Option<Ending>,
}

/// A verdict that stood.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Stood {
    container_id: String,
    startup: bool,
    success: bool,
    since: Timestamp,
}

impl Record {
    pub fn new(
        pod: Arc<Pod>,
        history: &History,
        verdicts: &Verdicts,
        status: Option<Arc<PodStatus>>,
        ending: Option<Ending>,
    ) -> Self {
        let stood = verdicts.iter().filter(|(_, kind, _)| *kind != Kind::Liveness);
        Self {
            pod,
            history: history.clone(),
            verdicts: stood
                .map(|(id, kind, verdict)| Stood {
                    container_id: id.to_owned(),
                    startup: kind == Kind::Startup,
                    success: verdict.success,
                    since: verdict.since,
                })
                .collect(),
            status,
            ending,
        }
    }

    /// The verdicts, for a prober to begin with.
    pub fn verdicts(&self) -> Verdicts {
        let mut verdicts = Verdicts::default();
        for stood in &self.verdicts {
            let kind = if stood.startup { Kind::Startup } else { Kind::Readiness };
            let verdict = Verdict { success: stood.success, since: stood.since, message: String::new() };
            verdicts.set(&stood.container_id, kind, verdict);
        }
        verdicts
    }
}

fn pods(root_dir: &Path) -> PathBuf {
    root_dir.join("pods")
}

fn path(root_dir: &Path, uid: &PodUid) -> PathBuf {
    pods(root_dir).join(uid.as_str()).join(FILE)
}

/// The names of the nodes whose pods have a record in that directory, as far as they can be read.
pub async fn nodes(root_dir: &Path) -> BTreeSet<String> {
    let pods = pods(root_dir);
    disk::run(move || {
        let entries = std::fs::read_dir(pods).into_iter().flatten().flatten();
        let node = |path: PathBuf| {
            let record: Record = serde_json::from_slice(&std::fs::read(path.join(FILE)).ok()?).ok()?;
            record.pod.spec.as_ref()?.node_name.clone()
        };
        entries.filter_map(|entry| node(entry.path())).collect()
    })
    .await
}

/// Reads the record of a pod; `None` when there is none or it cannot be understood.
pub(super) async fn load(root_dir: &Path, uid: &PodUid) -> Option<Record> {
    let path = path(root_dir, uid);
    let (read, path) = disk::run(move || (std::fs::read(&path), path)).await;
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot read the record of a pod; going on without it");
            return None;
        }
    };
    match serde_json::from_slice(&bytes) {
        Ok(record) => Some(record),
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "the record of a pod is damaged; going on without it");
            None
        }
    }
}

/// Writes the record in one atomic step.
///
/// # Errors
/// When the directory or file cannot be written, a full disk among others.
pub(super) async fn save(root_dir: &Path, uid: &PodUid, record: &Record) -> io::Result<()> {
    let path = path(root_dir, uid);
    let bytes = serde_json::to_vec(record)?;
    disk::run(move || {
        // It holds the pod's environment, passwords included.
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
