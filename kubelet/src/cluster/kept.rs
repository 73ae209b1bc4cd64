//! What is known of the other nodes, on the disk: a machine that starts while no master answers still has its neighbours.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::directory;
use crate::disk;
use crate::network::{Member, Members};

/// Longest file that is read: five thousand nodes in some 200 bytes each.
const LONGEST_BYTES: u64 = 16 << 20;
/// What changes within this time is written together.
const GATHER: Duration = Duration::from_secs(1);

/// The file.
#[derive(Clone, Debug)]
pub struct Kept(PathBuf);

impl Kept {
    /// That of a kubelet's directory.
    pub fn under(root_dir: &Path) -> Self {
        Self(directory(root_dir).join("members.json"))
    }

    /// What it says; nothing when it is not there. What does not read is told in the log.
    pub async fn read(&self) -> Option<Members> {
        let path = self.0.clone();
        let found = disk::run(move || load(&path)).await;
        found.unwrap_or_else(|why| {
            let path = self.0.display();
            tracing::warn!(%path, "{path} {why}; other nodes are known once the master tells of them");
            None
        })
    }

    /// Keeps it up to date for as long as somebody tells.
    pub async fn write(self, mut told: watch::Receiver<Option<Arc<Members>>>) {
        while told.changed().await.is_ok() {
            tokio::time::sleep(GATHER).await;
            let Some(members) = told.borrow_and_update().clone() else { continue };
            let path = self.0.clone();
            let written = disk::run(move || save(&path, &text(&members))).await;
            if let Err(error) = written {
                let path = self.0.display();
                tracing::warn!(%path, %error, "what is known of other nodes cannot be written; a restart forgets it");
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
    file.take(LONGEST_BYTES).read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| format!("is no JSON: {error}"))?;
    members(&value).map(Some).ok_or_else(|| "does not say which nodes there are".to_owned())
}

/// Afterwards the file holds this, or still what it held before; nobody else may read it.
pub(super) fn save(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let partial = path.with_extension("json.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)?;
    File::open(folder)?.sync_all()
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
            // An older kubelet has not kept it.
            port: one["port"].as_u64().and_then(|port| port.try_into().ok()).unwrap_or_default(),
            ranges: parsed(&one["ranges"])?,
        })
    };
    let others = value["others"].as_array()?.iter().map(other).collect::<Option<_>>()?;
    Some(Members { own: parsed(&value["own"])?, others })
}
