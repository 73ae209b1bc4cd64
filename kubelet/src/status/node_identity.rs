//! Identity of the Node object of a lone node: UID and creation time, which survive restarts of the kubelet.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// File in the root directory.
const FILE: &str = "node-identity.json";

/// UID and creation time of the Node object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeIdentity {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.creationTimestamp`.
    pub created_at: Timestamp,
    /// Name of the node. A root directory that gets another node name gets another Node.
    node: String,
}

impl NodeIdentity {
    /// Reads the identity from a root directory, or creates it. If it cannot be saved, it is valid for this process.
    pub fn load(root_dir: &Path, node: &str, now: Timestamp) -> Self {
        let path = root_dir.join(FILE);
        let saved = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        if let Some(saved) = saved.filter(|saved| saved.node == node && !saved.uid.is_empty()) {
            return saved;
        }
        let new = Self { uid: Uuid::new_v4().to_string(), created_at: now, node: node.to_owned() };
        if let Err(error) = new.save(&path) {
            let path = path.display();
            tracing::warn!(%path, %error, "cannot save the identity of the Node object; it changes with the next start");
        }
        new
    }

    fn save(&self, path: &Path) -> io::Result<()> {
        let partial = path.with_extension("json.tmp");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        file.sync_all()?;
        fs::rename(&partial, path)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of restarts.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_identity_survives_restarts_but_not_another_node_name() {
        let root = tempfile::tempdir().unwrap();
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = NodeIdentity::load(root.path(), "n1", at(10));
        assert_eq!((first.created_at, first.uid.len()), (at(10), 36));
        assert_eq!(NodeIdentity::load(root.path(), "n1", at(20)), first);
        fs::write(root.path().join(FILE), "{").unwrap();
        let repaired = NodeIdentity::load(root.path(), "n1", at(30));
        assert_eq!((repaired.created_at, repaired.uid != first.uid), (at(30), true));
        assert_ne!(NodeIdentity::load(root.path(), "n2", at(40)).uid, repaired.uid);
    }
}
