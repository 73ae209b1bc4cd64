//! Store ownership. The first master records in the store to which root CA and service-account key its objects
//! belong.
//!
//! Masters with different keys would overwrite each other's objects. Tokens and certificates of one would fail at
//! the other. Therefore a shared store rejects a master with other keys. In a store of its own, a master only logs
//! a warning.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use apiserver::storage::{self, Entry, Expected, Outcome, Store, Transaction};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The key of the record. It is not in the range of served objects.
pub(crate) const KEY: &str = "/coracle/authority";
/// Prefix of object keys.
const OBJECTS: &str = "/registry/";

/// The identity of a store's owner, as digests of public keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// The digest of the root CA's key.
    pub root_authority: String,
    /// The digest of the service-account signing key.
    pub service_account_key: String,
    /// The digest of the previous root CA's key during a rotation.
    #[serde(skip)]
    pub retiring_authority: Option<String>,
}

/// Whether other masters may use the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The store is in this master's data directory.
    Alone,
    /// Other masters may share the store.
    Shared,
}

/// The reason why a master may not use a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store belongs to masters with other keys.
    #[error(
        "the objects in this etcd belong to masters with another {what}; nothing was changed there: copy `pki` of \
         one of these masters to {pki} and start again. If it is lost, `etcdctl del {KEY}` assigns the etcd to \
         this master; all earlier certificates, kubeconfigs, join strings and tokens then become invalid"
    )]
    Foreign {
        /// The identity that differs, such as `key of service accounts`.
        what: &'static str,
        /// The directory of this master's certificates.
        pki: PathBuf,
    },
    /// The record cannot be read.
    #[error("cannot read the owner record of the store")]
    Store(#[from] storage::Error),
}

/// The decision whether a master may use a store.
#[derive(Debug, PartialEq, Eq)]
enum OwnerCheck {
    /// The store belongs to this master.
    Own,
    /// The store has no owner. Record this master.
    Note,
    /// Record this master, and warn that credentials became invalid.
    NoteAndWarn(&'static str),
    /// Do not start the master. The value names the identity that differs.
    Refuse(&'static str),
}

/// Claims the store for this master. `made` is true if the root CA or the service-account key was just created.
/// Returns false if the record could not be written, so that the caller retries.
///
/// # Errors
/// If the store belongs to other masters, or cannot be read.
pub async fn claim(store: &dyn Store, own: &Mark, kept: Kept, made: bool, pki: &Path) -> Result<bool, Error> {
    let found = store.get(KEY).await?.entry;
    let is_empty = store.range(OBJECTS, None, 1).await?.entries.is_empty();
    let refuse = |what| Error::Foreign { what, pki: pki.to_owned() };
    match judge(noted(found.as_ref()).as_ref(), own, kept, made && !is_empty) {
        OwnerCheck::Own => return Ok(true),
        OwnerCheck::Refuse(what) => return Err(refuse(what)),
        OwnerCheck::Note => {}
        OwnerCheck::NoteAndWarn(what) => tracing::warn!(
            pki = %pki.display(),
            "the store was last served with another {what}: certificates, kubeconfigs, join strings and tokens \
             that depend on it are invalid. This is correct after `master rotate-ca`, or after the restore of an \
             older backup; otherwise stop the master and restore the previous `pki`, or distribute new credentials"
        ),
    }
    let expected = found.map_or(Expected::Absent, |entry| Expected::Modified(entry.modified));
    let text = serde_json::to_vec(own).unwrap_or_default();
    match store.commit(Transaction::put(KEY, expected, Bytes::from(text))).await {
        Ok(Outcome::Committed { .. }) => Ok(true),
        // Another master wrote the record first.
        Ok(Outcome::Conflict { current, .. }) => match noted(current.as_ref()) {
            Some(other) if is_of(&other, own) => Ok(true),
            other => Err(refuse(other.map_or("authority", |other| difference(&other, own)))),
        },
        Err(error) => {
            // A full disk must not stop the server from serving reads.
            tracing::warn!(%error, "cannot write the owner record of the store; retrying every minute");
            Ok(false)
        }
    }
}

/// Judges a record. `is_late` is true if keys were created although the store already had objects.
fn judge(noted: Option<&Mark>, own: &Mark, kept: Kept, is_late: bool) -> OwnerCheck {
    match (noted, kept) {
        (Some(noted), _) if is_of(noted, own) => OwnerCheck::Own,
        (Some(noted), _) if is_before(noted, own) => OwnerCheck::Note,
        (Some(noted), Kept::Shared) => OwnerCheck::Refuse(difference(noted, own)),
        (Some(noted), Kept::Alone) => OwnerCheck::NoteAndWarn(difference(noted, own)),
        (None, _) if is_late => OwnerCheck::NoteAndWarn("root authority or key of service accounts"),
        (None, _) => OwnerCheck::Note,
    }
}

fn is_of(noted: &Mark, own: &Mark) -> bool {
    noted.root_authority == own.root_authority && noted.service_account_key == own.service_account_key
}

/// Whether the record is from before the CA rotation.
fn is_before(noted: &Mark, own: &Mark) -> bool {
    own.retiring_authority.as_ref() == Some(&noted.root_authority)
        && noted.service_account_key == own.service_account_key
}

fn difference(one: &Mark, other: &Mark) -> &'static str {
    match (one.root_authority == other.root_authority, one.service_account_key == other.service_account_key) {
        (false, false) => "root authority and key of service accounts",
        (false, true) => "root authority",
        (true, _) => "key of service accounts",
    }
}

/// Parses a record. Returns `None` if it is invalid.
fn noted(entry: Option<&Entry>) -> Option<Mark> {
    serde_json::from_slice(&entry?.value).ok()
}
