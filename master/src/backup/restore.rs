//! `master restore`: creates the store of a stopped master from a backup.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use apiserver::storage::{Error, Revision, embedded};
use jiff::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::data_dir::DataDir;
use crate::store::DIRECTORY;

/// Temporary directory of the new store.
const NEW: &str = "store.restored";

/// Restores a backup and returns a summary. With `replace`, an existing store is moved aside.
///
/// # Errors
/// If a master is running, a store exists, or the backup cannot be read. Nothing is changed then.
pub fn restore(data_dir: &Path, file: &Path, replace: bool, now: Timestamp) -> anyhow::Result<String> {
    let _lock = DataDir::at(data_dir).take()?;
    let (store, new) = (data_dir.join(DIRECTORY), data_dir.join(NEW));
    let there = store.try_exists().with_context(|| store.display().to_string())?;
    if there && !replace {
        bail!(
            "{} already contains a store; nothing was changed: add --replace to move it aside, or use another --data-dir",
            data_dir.display()
        );
    }
    // Revisions must not be reused, so the new store continues after both the backup and the old store.
    let (above, doubt) = if there { last_revision(&store)? } else { (0, None) };
    remove_if_there(&new)?;
    let restored = embedded::restore(file, &new, above).inspect_err(|_| drop(remove_if_there(&new)));
    let revision = restored.with_context(|| format!("cannot restore {}", file.display()))?;
    let mut report = format!("{}: restored, revision {revision}; start the master.\n", store.display());
    if there {
        let aside = aside(data_dir, now);
        exchange(&new, &store).with_context(|| format!("cannot move {} aside", store.display()))?;
        fs::rename(&new, &aside).with_context(|| format!("the previous store is {}", new.display()))?;
        report += &format!("The previous store is {}.\n", aside.display());
    } else {
        fs::rename(&new, &store).with_context(|| format!("cannot make {}", store.display()))?;
    }
    fs::File::open(data_dir).and_then(|directory| directory.sync_all())?;
    Ok(report + &doubt.unwrap_or_default())
}

/// The last revision of a store. If it is unknown, a message.
fn last_revision(store: &Path) -> anyhow::Result<(Revision, Option<String>)> {
    match embedded::revision(store) {
        Ok(revision) => Ok((revision.unwrap_or(0), None)),
        Err(error @ (Error::Damaged { .. } | Error::Newer { .. })) => {
            let doubt = format!("The last revision of the previous store is unknown ({error}).\n");
            Ok((0, Some(doubt)))
        }
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", store.display())),
    }
}

/// Swaps two directories atomically, so that the master is never without a store.
fn exchange(new: &Path, old: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE)?)
}

fn aside(data_dir: &Path, now: Timestamp) -> PathBuf {
    data_dir.join(format!("{DIRECTORY}.{}", now.strftime("%Y%m%dT%H%M%SZ")))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
