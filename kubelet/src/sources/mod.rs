//! Where pods come from.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use api::object::Object;
use api::references::References;
use notify::Watcher;
use sha2::{Digest, Sha256};
use tokio::sync::{Notify, watch};

use crate::desired::{Completeness, Desired, DesiredPod, SourceKind};
use crate::observed::PodUid;

/// Reads a directory whenever it changes, and every so often anyway.
pub async fn follow(path: &Path, node: &str, every: Duration, desired: watch::Sender<Arc<Desired>>) {
    let changed = Arc::new(Notify::new());
    let wake = changed.clone();
    let watcher = notify::recommended_watcher(move |_| wake.notify_one());
    let mut watcher = match watcher {
        Ok(watcher) => Some(watcher),
        Err(error) => {
            tracing::warn!(%error, "cannot watch for changes of files; reading them again and again instead");
            None
        }
    };
    if let Some(watcher) = &mut watcher
        && let Err(error) = watcher.watch(path, notify::RecursiveMode::NonRecursive)
    {
        tracing::warn!(%error, path = %path.display(), "cannot watch");
    }
    loop {
        desired.send_replace(Arc::new(read(path, node)));
        let _ = tokio::time::timeout(every, changed.notified()).await;
    }
}

fn read(path: &Path, node: &str) -> Desired {
    let mut pods = BTreeMap::new();
    let mut references = References::default();
    let Ok(entries) = std::fs::read_dir(path) else { return Desired::default() };
    for entry in entries.flatten() {
        let Ok(bytes) = std::fs::read(entry.path()) else { continue };
        let decoded = api::decode(&bytes);
        for problem in decoded.problems {
            tracing::warn!(file = %entry.path().display(), %problem, "refused");
        }
        for object in decoded.objects {
            match object {
                Object::Pod(mut pod) => {
                    let name = pod.metadata.name.clone().unwrap_or_default();
                    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
                    let digest = Sha256::digest(format!("{node}/file/{namespace}/{name}"));
                    let uid: String = digest.iter().take(16).map(|b| format!("{b:02x}")).collect();
                    let uid = pod.metadata.uid.clone().unwrap_or(uid);
                    pod.metadata.name = Some(format!("{name}-{node}"));
                    pod.metadata.uid = Some(uid.clone());
                    let uid = PodUid::new(&uid);
                    let pod = DesiredPod { uid: uid.clone(), pod: Arc::from(pod), source: SourceKind::File };
                    pods.insert(uid, Arc::new(pod));
                }
                Object::ConfigMap(map) => {
                    let key = (
                        map.metadata.namespace.clone().unwrap_or_default(),
                        map.metadata.name.clone().unwrap_or_default(),
                    );
                    references.config_maps.insert(key, Arc::from(map));
                }
                Object::Secret(secret) => {
                    let key = (
                        secret.metadata.namespace.clone().unwrap_or_default(),
                        secret.metadata.name.clone().unwrap_or_default(),
                    );
                    references.secrets.insert(key, Arc::from(secret));
                }
            }
        }
    }
    Desired { pods, references: Arc::new(references), completeness: Completeness::Complete }
}
