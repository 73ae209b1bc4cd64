//! Stores the peer nodes on disk. A kubelet that starts while no API server answers uses them for its routes.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::directory;
use super::stored::save;
use crate::disk;
use crate::network::{Member, Members};

/// Largest file that is read, in bytes. 5,000 nodes of about 200 bytes need a small part of it.
const MAX_BYTES: u64 = 16 << 20;
/// Changes within this time are written together.
const WRITE_DELAY: Duration = Duration::from_secs(1);

/// The file `members.json` that stores the cluster membership.
#[derive(Clone, Debug)]
pub struct MembersFile(PathBuf);

impl MembersFile {
    /// The file in the root directory of the kubelet.
    pub fn under(root_dir: &Path) -> Self {
        Self(directory(root_dir).join("members.json"))
    }

    /// Reads the file. Returns `None` if it does not exist. A file that cannot be parsed is logged and ignored.
    pub async fn read(&self) -> Option<Members> {
        let path = self.0.clone();
        let found = disk::run(move || load(&path)).await;
        found.unwrap_or_else(|why| {
            let path = self.0.display();
            tracing::warn!(%path, "{path} {why}; routes to other nodes appear once the API server answers");
            None
        })
    }

    /// Writes each update until the sender is dropped.
    pub async fn write(self, mut updates: watch::Receiver<Option<Arc<Members>>>) {
        while updates.changed().await.is_ok() {
            tokio::time::sleep(WRITE_DELAY).await;
            let Some(members) = updates.borrow_and_update().clone() else { continue };
            let path = self.0.clone();
            let written = disk::run(move || save(&path, &text(&members))).await;
            if let Err(error) = written {
                let path = self.0.display();
                tracing::warn!(%path, %error, "cannot store the peer nodes; after a restart they are unknown until the API \
                     server answers");
            }
        }
    }
}

fn load(path: &Path) -> Result<Option<Members>, String> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| format!("is not valid JSON: {error}"))?;
    members(&value).map(Some).ok_or_else(|| "contains no list of nodes".to_owned())
}

pub(super) fn text(members: &Members) -> String {
    fn texts<T: ToString>(all: &[T]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }
    let other = |one: &Member| {
        json!({
            "name": one.name, "isOlder": one.is_older, "addresses": texts(&one.addresses), "port": one.port,
            "ranges": texts(&one.ranges),
        })
    };
    let others: Vec<Value> = members.others.iter().map(other).collect();
    json!({"own": texts(&members.own), "others": others}).to_string()
}

pub(super) fn members(value: &Value) -> Option<Members> {
    fn parsed<T: std::str::FromStr>(list: &Value) -> Option<Vec<T>> {
        list.as_array()?.iter().map(|item| item.as_str()?.parse().ok()).collect()
    }
    let other = |one: &Value| {
        Some(Member {
            name: one["name"].as_str()?.to_owned(),
            is_older: one["isOlder"].as_bool()?,
            addresses: parsed(&one["addresses"])?,
            // Older kubelets did not store the port.
            port: one["port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or_default(),
            ranges: parsed(&one["ranges"])?,
        })
    };
    let others = value["others"].as_array()?.iter().map(other).collect::<Option<_>>()?;
    Some(Members { own: parsed(&value["own"])?, others })
}
