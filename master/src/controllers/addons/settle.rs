//! Which version of each file is applied, and since when the files are as they are. Pure.
//!
//! A file that is being written may be valid before it is complete. A new version is therefore used only if a second
//! scan finds the same one; until then the former version counts.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::{Duration, Instant};

use super::files::{File, Scan};

/// How long a file must stay as it is before it is applied.
pub const QUIET: Duration = Duration::from_secs(1);
/// How long the files must stay as they are before something is pruned. Editors and `rsync` replace a file in less.
pub const CONFIRM: Duration = Duration::from_secs(5);

/// What the scans found so far.
#[derive(Debug, Default)]
pub struct Settling {
    files: BTreeMap<String, Seen>,
    /// When files disappeared.
    removed: BTreeMap<String, Instant>,
    /// When a file last appeared, changed or disappeared. `None` if the last scan failed.
    changed: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    last: File,
    /// When the file was first found like this.
    since: Instant,
    /// The version that is applied.
    used: Option<File>,
}

/// The files to apply.
#[derive(Debug)]
pub struct Settled {
    /// The last version of each file that stayed for [`QUIET`].
    pub files: Vec<File>,
    /// Names of files that have no such version yet, or disappeared less than [`CONFIRM`] ago.
    pub uncertain: BTreeSet<String>,
    /// When another file is settled if it does not change.
    pub next: Option<Instant>,
    /// When the files are confirmed if they do not change. Whatever is removed must still be absent then.
    pub confirmed_at: Instant,
}

impl Settling {
    /// Notes that the directory could not be scanned.
    pub fn interrupt(&mut self) {
        self.changed = None;
    }

    /// Compares a scan with the one before.
    pub fn see(&mut self, scan: &Scan, now: Instant) -> Settled {
        let mut changed = self.changed.unwrap_or(now);
        let names: BTreeSet<&str> = scan.files.iter().map(|file| file.name.as_str()).collect();
        let removed = self.files.extract_if(.., |name, _| !names.contains(name.as_str()));
        for (name, _) in removed {
            changed = now;
            self.removed.insert(name, now);
        }
        self.removed.retain(|name, at| !names.contains(name.as_str()) && now < *at + CONFIRM);
        let mut uncertain: BTreeSet<String> = self.removed.keys().cloned().collect();
        let (mut files, mut next) = (Vec::new(), None);
        for file in &scan.files {
            let new = || Seen { last: file.clone(), since: now, used: None };
            let seen = self.files.entry(file.name.clone()).or_insert_with(new);
            if !seen.last.is_same(file) {
                seen.since = now;
            }
            seen.last = file.clone();
            changed = changed.max(seen.since);
            let due = seen.since + QUIET;
            if due <= now {
                seen.used = Some(file.clone());
            } else {
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
            }
            match &seen.used {
                Some(used) => files.push(used.clone()),
                None => drop(uncertain.insert(file.name.clone())),
            }
        }
        self.changed = Some(changed);
        Settled { files, uncertain, next, confirmed_at: changed + CONFIRM }
    }
}
