//! `master restore`: makes the store of a directory from a backup, where no master runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use apiserver::storage::{Error, Revision, embedded};
use jiff::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::data_dir::DataDir;
use crate::store::DIRECTORY;

/// Where the new store is made before it takes its place.
const NEW: &str = "store.restored";

/// Restores a backup; says what was done. A store that is there already is put aside only when told so.
///
/// # Errors
/// When a master runs on the directory, there is a store in it, or the backup cannot be read; nothing was changed then.
pub fn restore(data_dir: &Path, file: &Path, replace: bool, now: Timestamp) -> anyhow::Result<String> {
    let _lock = DataDir::at(data_dir).take()?;
    let (store, new) = (data_dir.join(DIRECTORY), data_dir.join(NEW));
    let there = store.try_exists().with_context(|| store.display().to_string())?;
    if there && !replace {
        bail!(
            "{} holds a store already; nothing was changed: give --replace to put it aside, or name another --data-dir",
            data_dir.display()
        );
    }
    // What was given out must not be given again: the new store goes on behind both.
    let (above, doubt) = if there { last_revision(&store)? } else { (0, None) };
    remove_if_there(&new)?;
    let restored = embedded::restore(file, &new, above).inspect_err(|_| drop(remove_if_there(&new)));
    let revision = restored.with_context(|| format!("cannot restore {}", file.display()))?;
    let mut told = format!("{}: restored, revision {revision}; start the master.\n", store.display());
    if there {
        let aside = aside(data_dir, now);
        exchange(&new, &store).with_context(|| format!("cannot put {} aside", store.display()))?;
        fs::rename(&new, &aside).with_context(|| format!("the store of before is {}", new.display()))?;
        told += &format!("The store of before is {}.\n", aside.display());
    } else {
        fs::rename(&new, &store).with_context(|| format!("cannot make {}", store.display()))?;
    }
    fs::File::open(data_dir).and_then(|directory| directory.sync_all())?;
    Ok(told + &doubt.unwrap_or_default())
}

/// How far a store had come, and what there is to say when that cannot be known.
fn last_revision(store: &Path) -> anyhow::Result<(Revision, Option<String>)> {
    match embedded::revision(store) {
        Ok(revision) => Ok((revision.unwrap_or(0), None)),
        Err(error @ (Error::Damaged { .. } | Error::Newer { .. })) => {
            let doubt = format!("How far the store of before had come is not known ({error}).\n");
            Ok((0, Some(doubt)))
        }
        Err(error) => Err(error).with_context(|| format!("cannot look at {}", store.display())),
    }
}

/// Puts one in the place of the other in one step, so that no kill leaves the master without a store.
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
