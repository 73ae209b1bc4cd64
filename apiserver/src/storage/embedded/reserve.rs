//! Disk space reserve beside a store, so that objects can be deleted on a full disk.
//!
//! A commit needs pages before it frees any, and a delete copies the object to the log. On a full disk the writer
//! releases the reserve, performs the writes that free space, and fills the reserve again.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::storage::{Limits, Transaction, Write};

/// Size of the reserve: five objects of maximum size, each deleted with a copy in the log.
pub(super) const RESERVE_BYTES: u64 = 8 << 20;
/// Limits of the log while the disk is full, which leave the rest of the reserve for commits. A client whose watch is
/// further behind must list again.
pub(super) const LOG_ON_FULL_DISK: Limits = Limits { revisions: 256, bytes: 1 << 20 };
/// How much an object may grow on a full disk, in bytes. A graceful delete adds `metadata.deletionTimestamp`.
const GROWTH_BYTES: usize = 128;
/// Free space from which a disk no longer counts as full, in bytes.
const USABLE_BYTES: u64 = RESERVE_BYTES + (1 << 20);
/// Size of the writes that fill the reserve.
const STEP_BYTES: u64 = 64 << 10;

/// The path of the reserve that belongs to a store.
pub(super) fn path(store: &Path) -> PathBuf {
    store.with_extension("reserve")
}

/// Fills the reserve as far as possible and returns its size. It writes all blocks, because a sparse file reserves
/// nothing.
pub(super) fn fill(path: &Path) -> io::Result<u64> {
    let mut options = OpenOptions::new();
    let mut file = options.create(true).append(true).mode(0o600).open(path)?;
    let mut bytes = file.metadata()?.len();
    if bytes >= RESERVE_BYTES {
        return Ok(bytes);
    }
    let step = vec![0; STEP_BYTES as usize];
    while bytes < RESERVE_BYTES {
        let wanted = (RESERVE_BYTES - bytes).min(STEP_BYTES) as usize;
        match file.write(&step[..wanted]) {
            Ok(0) => break,
            Ok(written) => bytes += written as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => break,
            Err(error) => return Err(error),
        }
    }
    file.sync_all()?;
    Ok(bytes)
}

/// Releases the reserve. Returns false if there is none.
pub(super) fn release(path: &Path) -> io::Result<bool> {
    match File::options().write(true).open(path) {
        Ok(file) => {
            let had_any = file.metadata()?.len() > 0;
            file.set_len(0)?;
            file.sync_all()?;
            Ok(had_any)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the file system has enough space again after it was full.
pub(super) fn is_usable(path: &Path) -> io::Result<bool> {
    let system = rustix::fs::statvfs(path)?;
    Ok(system.f_bavail.saturating_mul(system.f_frsize) >= USABLE_BYTES)
}

/// Whether a transaction frees space or needs none. Deletes do, and puts whose value hardly grows. `stored_len`
/// returns the length of a key's value.
pub(super) fn frees_space(transaction: &Transaction, stored_len: impl Fn(&str) -> Option<usize>) -> bool {
    transaction.writes.iter().all(|write| match write {
        Write::Delete { .. } => true,
        Write::Put { key, value } => {
            stored_len(key).is_some_and(|stored_len| value.len() <= stored_len + GROWTH_BYTES)
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use super::*;
    use crate::storage::Expected;

    #[test]
    fn disk_reserve_is_filled_once_and_released_completely() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(&folder.path().join("store.redb"));
        assert!(!release(&path).unwrap());
        for _ in 0..2 {
            assert_eq!(fill(&path).unwrap(), RESERVE_BYTES);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), RESERVE_BYTES);
        }
        assert!(release(&path).unwrap() && !release(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn deletes_and_shrinking_writes_may_use_the_reserve() {
        let put = |bytes: usize| Transaction::put("a", Expected::Any, vec![0; bytes].into());
        let stored = |key: &str| (key == "a").then_some(1000);
        assert!(frees_space(&Transaction::delete("b", Expected::Any), stored));
        assert!(frees_space(&put(900), stored) && frees_space(&put(1000 + GROWTH_BYTES), stored));
        assert!(!frees_space(&put(1001 + GROWTH_BYTES), stored));
        assert!(!frees_space(&put(10), |_| None), "a new key");
        let mut both = put(10);
        both.writes.extend(Transaction::put("b", Expected::Any, vec![0; 10].into()).writes);
        assert!(!frees_space(&both, stored));
    }
}
