//! Whose a store is: the first master notes which root authority and which key of service accounts its objects go with.
//!
//! Masters that share a store and not these would write over each other for ever, and nobody's token or certificate would
//! hold at both. So one that has others is refused there; where a store is one master's own, its administrator is told.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use apiserver::storage::{self, Entry, Expected, Outcome, Store, Transaction};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// Where the note lies in the store, beside all that is served.
pub(crate) const KEY: &str = "/coracle/authority";
/// What the keys of objects begin with.
const OBJECTS: &str = "/registry/";

/// What the objects of a store go with, as digests of public keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// The root authority's.
    pub root_authority: String,
    /// That of the key that signs tokens of service accounts.
    pub service_account_key: String,
    /// The root authority before, as long as it is believed: its masters are these.
    #[serde(skip)]
    pub retiring_authority: Option<String>,
}

/// Who else may have the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It lies in the directory of this master.
    Alone,
    /// Other masters may share it.
    Shared,
}

/// Why a store is not this master's.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Other masters have it, with another authority.
    #[error(
        "the objects in this etcd belong to masters with another {what}; nothing was changed there: copy `pki` of one of them \
         over {pki} and start again. If it is lost, `etcdctl del {KEY}` gives the etcd to this master, and every certificate, \
         kubeconfig, join string and token of before is void"
    )]
    Foreign {
        /// What differs.
        what: &'static str,
        /// Where this one's certificates are.
        pki: PathBuf,
    },
    /// The store does not say.
    #[error("cannot read whose the store is")]
    Store(#[from] storage::Error),
}

/// What is to be done about a store.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing.
    Own,
    /// Note that it is this master's.
    Note,
    /// The same, and tell what is void.
    NoteAndWarn(&'static str),
    /// Leave it alone.
    Refuse(&'static str),
}

/// Makes sure that the store is this master's, and notes it there; `made` says that a root authority or a key of service
/// accounts was made just now. False when the note could not be written, which is to be tried again.
///
/// # Errors
/// When other masters have it, or it cannot be read.
pub async fn claim(store: &dyn Store, own: &Mark, kept: Kept, made: bool, pki: &Path) -> Result<bool, Error> {
    let found = store.get(KEY).await?.entry;
    let is_empty = store.range(OBJECTS, None, 1).await?.entries.is_empty();
    let refuse = |what| Error::Foreign { what, pki: pki.to_owned() };
    match judge(noted(found.as_ref()).as_ref(), own, kept, made && !is_empty) {
        Verdict::Own => return Ok(true),
        Verdict::Refuse(what) => return Err(refuse(what)),
        Verdict::Note => {}
        Verdict::NoteAndWarn(what) => tracing::warn!(
            pki = %pki.display(),
            "the store was served with another {what}: every certificate, kubeconfig, join string or token of before that \
             goes with it is void; if the authority was made anew with `master rotate-ca` since this was noted (a backup that is older says so), \
             that is as it should be; else stop the master and put the `pki` of before back, or hand out new ones"
        ),
    }
    let expected = found.map_or(Expected::Absent, |entry| Expected::Modified(entry.modified));
    let text = serde_json::to_vec(own).unwrap_or_default();
    match store.commit(Transaction::put(KEY, expected, Bytes::from(text))).await {
        Ok(Outcome::Committed { .. }) => Ok(true),
        // Another master was a moment faster.
        Ok(Outcome::Conflict { current, .. }) => match noted(current.as_ref()) {
            Some(other) if is_of(&other, own) => Ok(true),
            other => Err(refuse(other.map_or("authority", |other| difference(&other, own)))),
        },
        Err(error) => {
            // A full disk is no reason not to show what there is.
            tracing::warn!(%error, "cannot note in the store which authority it goes with; it is tried again every minute");
            Ok(false)
        }
    }
}

/// What a note means for a master of that mark; `is_late` when it has made its keys for objects that were there before.
fn judge(noted: Option<&Mark>, own: &Mark, kept: Kept, is_late: bool) -> Verdict {
    match (noted, kept) {
        (Some(noted), _) if is_of(noted, own) => Verdict::Own,
        (Some(noted), _) if is_before(noted, own) => Verdict::Note,
        (Some(noted), Kept::Shared) => Verdict::Refuse(difference(noted, own)),
        (Some(noted), Kept::Alone) => Verdict::NoteAndWarn(difference(noted, own)),
        (None, _) if is_late => Verdict::NoteAndWarn("root authority or key of service accounts"),
        (None, _) => Verdict::Note,
    }
}

fn is_of(noted: &Mark, own: &Mark) -> bool {
    noted.root_authority == own.root_authority && noted.service_account_key == own.service_account_key
}

/// Whether it was noted before the root was made anew.
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

/// What an entry says; nothing when it cannot be read.
fn noted(entry: Option<&Entry>) -> Option<Mark> {
    serde_json::from_slice(&entry?.value).ok()
}
