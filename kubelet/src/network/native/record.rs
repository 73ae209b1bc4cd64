//! What is kept on disk of a sandbox's network, from before the engine makes the sandbox until it is gone.
//!
//! A sandbox has a directory with three files: what a pod sees as `/etc/hosts` and `/etc/resolv.conf`, and the record, which is
//! written last and so says that the others are whole. Nothing is flushed: what a power cut takes, its sandboxes have not outlived.

use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::state::Key;
use crate::observed::PodUid;
use crate::runtime::spec::HostPort;

const RECORD: &str = "record.json";
/// What is mounted as `/etc/hosts`.
pub(super) const HOSTS: &str = "hosts";
/// What is mounted as `/etc/resolv.conf`.
pub(super) const RESOLV: &str = "resolv.conf";

/// What a sandbox has been given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    uid: String,
    attempt: u32,
    /// The pod as people call it, `namespace/name`; empty in what earlier versions wrote.
    #[serde(default)]
    pod: String,
    /// The primary one first.
    pub addresses: Vec<IpAddr>,
    /// Ports of the host.
    pub ports: Vec<HostPort>,
}

impl Record {
    /// Of that sandbox, and of the pod that people call so.
    pub fn new(key: &Key, pod: String, addresses: Vec<IpAddr>, ports: Vec<HostPort>) -> Self {
        Self { uid: key.uid.to_string(), attempt: key.attempt, pod, addresses, ports }
    }

    /// The pod as people call it; its UID where that is all that is known.
    pub fn pod(&self) -> &str {
        if self.pod.is_empty() { &self.uid } else { &self.pod }
    }

    fn key(&self) -> Key {
        Key { uid: PodUid::new(&self.uid), attempt: self.attempt }
    }
}

/// Whether there is any record in a directory.
pub(super) fn is_any(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().join(RECORD).exists())
}

/// The directory of all records.
pub(super) struct Records {
    directory: PathBuf,
}

impl Records {
    /// Opens it, with all that is there; what was not finished goes.
    ///
    /// # Errors
    /// When it cannot be made or read.
    pub fn open(directory: &Path) -> io::Result<(Self, Vec<(Key, Record)>)> {
        fs::create_dir_all(directory)?;
        let records = Self { directory: directory.to_owned() };
        let mut found = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let path = entry.path();
            let read = match fs::read(path.join(RECORD)) {
                Ok(bytes) => serde_json::from_slice::<Record>(&bytes).ok(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                // What cannot be read now may be a running pod's.
                Err(error) => return Err(error),
            };
            match read {
                Some(record) if path == records.path(&record.key()) => found.push((record.key(), record)),
                _ => fs::remove_dir_all(path)?,
            }
        }
        Ok((records, found))
    }

    /// The directory of one.
    pub fn path(&self, key: &Key) -> PathBuf {
        self.directory.join(format!("{}_{}", key.uid, key.attempt))
    }

    /// Writes one and its files.
    pub fn write(&self, key: &Key, record: &Record, hosts: &str, resolv: &str) -> io::Result<()> {
        let path = self.path(key);
        fs::create_dir_all(&path)?;
        for (file, text) in [(HOSTS, hosts), (RESOLV, resolv)] {
            fs::write(path.join(file), text)?;
            // Whoever a container runs as.
            fs::set_permissions(path.join(file), fs::Permissions::from_mode(0o644))?;
        }
        let mut file = tempfile::NamedTempFile::new_in(&path)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.persist(path.join(RECORD))?;
        Ok(())
    }

    /// Takes one away, the record first.
    pub fn remove(&self, key: &Key) -> io::Result<()> {
        let path = self.path(key);
        match fs::remove_file(path.join(RECORD)).and_then(|()| fs::remove_dir_all(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
