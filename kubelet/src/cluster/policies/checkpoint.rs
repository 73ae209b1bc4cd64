//! Stores the policies and their peers on disk. A kubelet that starts while no API server answers enforces these.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use api::network_policy::{NamespaceLabels, Policy};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::list_guard::ListGuards;
use super::snapshot::{ObjectName, PeerPod, PolicySnapshot};
use crate::cluster::{directory, stored};
use crate::disk;

/// Largest file that is read, in bytes. 100,000 pods of about 400 bytes need two thirds of it.
const MAX_BYTES: u64 = 64 << 20;
/// Changes within this time are written together, because pods change often. A change of policies is written at once.
const WRITE_DELAY: Duration = Duration::from_secs(5);

/// The content of the file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Content {
    policies: Vec<Arc<Policy>>,
    namespaces: Arc<NamespaceLabels>,
    peers: Vec<Arc<PeerPod>>,
    guards: ListGuards,
}

/// The file `policies.json`.
#[derive(Clone, Debug)]
pub struct PoliciesFile(PathBuf);

impl PoliciesFile {
    /// The file in the root directory of the kubelet.
    pub fn under(root_dir: &Path) -> Self {
        Self(directory(root_dir).join("policies.json"))
    }

    /// Reads the file. Returns `None` if it does not exist. A file that cannot be parsed is logged and ignored.
    pub async fn read(&self) -> Option<PolicySnapshot> {
        stored::read(
            &self.0,
            load,
            "cannot read the stored NetworkPolicies; none are known until the API server answers",
        )
        .await
    }

    /// Writes each update until the sender is dropped.
    pub async fn write(self, mut updates: watch::Receiver<Arc<PolicySnapshot>>) {
        let mut written: Option<Arc<PolicySnapshot>> = None;
        while updates.changed().await.is_ok() {
            let has_same_policies = |snapshot: &PolicySnapshot| {
                written.as_ref().is_some_and(|written| written.policies == snapshot.policies)
            };
            if has_same_policies(&updates.borrow()) {
                tokio::time::sleep(WRITE_DELAY).await;
            }
            let snapshot = updates.borrow_and_update().clone();
            if !snapshot.is_known {
                continue;
            }
            let (path, stored) = (self.0.clone(), snapshot.clone());
            match disk::run(move || save(&path, &stored)).await {
                Ok(()) => written = Some(snapshot),
                Err(error) => {
                    let path = self.0.display();
                    tracing::warn!(%path, %error, "cannot store the NetworkPolicies; after a restart they are unknown \
                         until the API server answers");
                }
            }
        }
    }
}

fn load(path: &Path) -> io::Result<Option<PolicySnapshot>> {
    let Some(content) = stored::load::<Content>(path, MAX_BYTES)? else { return Ok(None) };
    let name = |namespace: &str, name: &str| -> ObjectName { (namespace.to_owned(), name.to_owned()) };
    let policies = content.policies.into_iter().map(|one| (name(&one.namespace, &one.name), one));
    let peers = content.peers.into_iter().map(|one| (name(&one.pod.namespace, &one.pod.name), one));
    Ok(Some(PolicySnapshot {
        is_known: true,
        is_forbidden: false,
        policies: policies.collect(),
        namespaces: content.namespaces,
        peers: peers.collect(),
        guards: content.guards,
    }))
}

fn save(path: &Path, snapshot: &PolicySnapshot) -> io::Result<()> {
    let content = Content {
        policies: snapshot.policies.values().cloned().collect(),
        namespaces: snapshot.namespaces.clone(),
        peers: snapshot.peers.values().cloned().collect(),
        guards: snapshot.guards.clone(),
    };
    stored::save(path, &serde_json::to_string(&content)?)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    //! Tests of the stored policies.
    use super::super::tests::informer;
    use super::{load, save};

    #[test]
    fn a_stored_snapshot_is_read_back_as_it_was() {
        let mut informer = informer();
        informer.confirm("n");
        let snapshot = informer.snapshot();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cluster/policies.json");
        assert_eq!(load(&path).unwrap(), None, "there is no file yet");
        save(&path, &snapshot).unwrap();
        assert_eq!(load(&path).unwrap(), Some(snapshot));
        std::fs::write(&path, "{\"policies\": 7}").unwrap();
        assert!(load(&path).is_err());
    }
}
