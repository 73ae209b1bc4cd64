//! Records on disk about the network of each sandbox, from before its creation until its removal.
//!
//! A sandbox has a directory with three files: its `/etc/hosts`, its `/etc/resolv.conf`, and the record. The record
//! is written last, so that its presence shows that the others are complete. Files are not synced, because
//! sandboxes do not survive a power failure either.

use std::fs;
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::policy_gate::PolicyFields;
use super::state::Key;
use crate::observed::PodUid;
use crate::runtime::spec::HostPort;

const RECORD: &str = "record.json";
/// The file that is mounted as `/etc/hosts`.
pub(super) const HOSTS: &str = "hosts";
/// The file that is mounted as `/etc/resolv.conf`.
pub(super) const RESOLV: &str = "resolv.conf";

/// The network of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    uid: String,
    attempt: u32,
    /// The pod as `namespace/name`; empty in records of earlier versions.
    #[serde(default)]
    pod: String,
    /// The fields of the pod on which NetworkPolicies depend. `None` before the first rules for the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_fields: Option<Arc<PolicyFields>>,
    /// The addresses, the primary one first.
    pub addresses: Vec<IpAddr>,
    pub ports: Vec<HostPort>,
}

impl Record {
    /// Creates the record of a sandbox. `pod` is `namespace/name`.
    pub fn new(key: &Key, pod: String, addresses: Vec<IpAddr>, ports: Vec<HostPort>) -> Self {
        Self { uid: key.uid.to_string(), attempt: key.attempt, pod, policy_fields: None, addresses, ports }
    }

    /// The pod as `namespace/name`, or its UID if the name is not known.
    pub fn pod(&self) -> &str {
        if self.pod.is_empty() { &self.uid } else { &self.pod }
    }

    fn key(&self) -> Key {
        Key { uid: PodUid::new(&self.uid), attempt: self.attempt }
    }
}

/// Whether the directory has a record.
pub(super) fn is_any(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().join(RECORD).exists())
}

/// The directory of all records.
pub(super) struct Records {
    directory: PathBuf,
}

impl Records {
    /// Opens the directory and reads all records. Incomplete ones are removed.
    ///
    /// # Errors
    /// If the directory cannot be created or read.
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
                // An unreadable record may belong to a running pod.
                Err(error) => return Err(error),
            };
            match read {
                Some(record) if path == records.path(&record.key()) => found.push((record.key(), record)),
                _ => fs::remove_dir_all(path)?,
            }
        }
        Ok((records, found))
    }

    /// The directory of one sandbox.
    pub fn path(&self, key: &Key) -> PathBuf {
        self.directory.join(format!("{}_{}", key.uid, key.attempt))
    }

    /// Writes a record and its files.
    pub fn write(&self, key: &Key, record: &Record, hosts: &str, resolv: &str) -> io::Result<()> {
        let path = self.path(key);
        fs::create_dir_all(&path)?;
        for (file, text) in [(HOSTS, hosts), (RESOLV, resolv)] {
            fs::write(path.join(file), text)?;
            // Containers of any user may read the files.
            fs::set_permissions(path.join(file), fs::Permissions::from_mode(0o644))?;
        }
        self.replace(key, record)
    }

    /// Replaces the record of a sandbox that has its files already.
    pub fn replace(&self, key: &Key, record: &Record) -> io::Result<()> {
        let path = self.path(key);
        let mut file = tempfile::NamedTempFile::new_in(&path)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.persist(path.join(RECORD))?;
        Ok(())
    }

    /// Removes a sandbox's directory, the record first.
    pub fn remove(&self, key: &Key) -> io::Result<()> {
        let path = self.path(key);
        match fs::remove_file(path.join(RECORD)).and_then(|()| fs::remove_dir_all(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests that records survive a restart of the kubelet, and that incomplete ones are ignored.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::fs;
    use std::sync::Arc;

    use super::{HOSTS, Key, PolicyFields, RESOLV, Record, Records, is_any};
    use crate::observed::PodUid;
    use crate::runtime::spec::HostPort;

    #[test]
    fn incomplete_sandbox_records_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let key = |uid: &str, attempt| Key { uid: PodUid::new(uid), attempt };
        let port =
            HostPort { host_ip: None, host_port: 80, container_port: 8080, protocol: "tcp".to_owned() };
        let record = |key: &Key| {
            let addresses = vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
            Record::new(key, "default/web".to_owned(), addresses, vec![port.clone()])
        };
        let (records, none) = Records::open(directory.path()).unwrap();
        assert!(none.is_empty() && !is_any(directory.path()));
        for key in [key("a", 0), key("a", 1), key("b", 0), key("c", 0)] {
            records.write(&key, &record(&key), "hosts", "resolv").unwrap();
        }
        records.remove(&key("a", 0)).unwrap();
        records.remove(&key("a", 0)).unwrap();
        fs::remove_file(records.path(&key("b", 0)).join("record.json")).unwrap();
        fs::write(records.path(&key("c", 0)).join("record.json"), "{").unwrap();
        let (records, found) = Records::open(directory.path()).unwrap();
        assert_eq!(found, [(key("a", 1), record(&key("a", 1)))]);
        assert!(is_any(directory.path()));
        let path = records.path(&key("a", 1));
        assert_eq!(fs::read_to_string(path.join(HOSTS)).unwrap(), "hosts");
        assert_eq!(fs::read_to_string(path.join(RESOLV)).unwrap(), "resolv");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn policy_fields_survive_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let key = Key { uid: PodUid::new("a"), attempt: 0 };
        let (records, _) = Records::open(directory.path()).unwrap();
        let mut record = Record::new(&key, "shop/web".to_owned(), Vec::new(), Vec::new());
        records.write(&key, &record, "hosts", "resolv").unwrap();
        let labels = [("app".to_owned(), "web".to_owned())].into();
        let fields = PolicyFields { namespace: "shop".to_owned(), labels, ..PolicyFields::default() };
        record.policy_fields = Some(Arc::new(fields));
        records.replace(&key, &record).unwrap();
        assert_eq!(Records::open(directory.path()).unwrap().1, [(key, record)]);
    }

    #[test]
    fn record_identifies_a_pod_by_name_or_uid() {
        let called = |pod: &str| {
            let text = format!(r#"{{"uid": "u", "attempt": 0, {pod} "addresses": [], "ports": []}}"#);
            serde_json::from_str::<Record>(&text).unwrap().pod().to_owned()
        };
        assert_eq!((called(r#""pod": "shop/web","#), called("")), ("shop/web".to_owned(), "u".to_owned()));
    }
}
