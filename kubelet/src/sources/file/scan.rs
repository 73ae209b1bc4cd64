//! Scans a path: lists manifests, reads the changed ones, and builds a snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::problem::{ObjectName, Problem};
use command::Stamp;

use super::entry::{self, Entry};
use super::owners::{self, Owners};
use super::skipped::{self, SkippedEntry};
use crate::desired::{Completeness, FoundProblem, Snapshot, SourceKind};
use crate::file_watch::{self, WatchSet, WatchedDirectory};
use crate::observed::Timestamp;
use crate::sources::identity::problem;
use crate::sources::last_good::LastGood;
use crate::sources::manifest::{self, Known, Manifest, Named};

/// Grace period before the pods of a removed file end. Tools that remove and rewrite a file take well below a
/// second. A terminated pod would lose its emptyDirs.
pub(super) const VANISHED_FILE_GRACE: Duration = Duration::from_secs(2);

/// The path of a source and the state of its manifests.
pub(super) struct Scanner {
    path: PathBuf,
    place: manifest::ManifestContext,
    store: LastGood,
    files: BTreeMap<PathBuf, File>,
    /// The owning file of each object that several files define.
    owners: Owners,
    /// All objects by name.
    known: Known,
    /// Skipped directory entries.
    skipped: BTreeSet<SkippedEntry>,
    was_listed: bool,
    sent: Option<Arc<Snapshot>>,
}

/// A manifest in the list of the path: its path below the source's path, and the resolved path.
struct Listed {
    path: PathBuf,
    real: PathBuf,
}

/// State of one manifest file.
struct File {
    origin: Arc<str>,
    /// Stamp of the version that was read. `None` if it must be read again.
    stamp: Option<Stamp>,
    manifest: Manifest,
    /// When a scan first found the file missing. Its objects stay for [`VANISHED_FILE_GRACE`].
    gone_since: Option<Instant>,
}

/// What events say about files, in addition to what a scan can detect.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedFiles {
    /// Files that are being written. They are read after they are closed, because half a manifest may be valid.
    pub being_written: BTreeSet<PathBuf>,
    /// Files that were just created. An empty one is probably about to be written.
    pub created: BTreeSet<PathBuf>,
    /// Files that were written. They are read regardless of their stamp, because two writes may have the same
    /// timestamp.
    pub written: BTreeSet<PathBuf>,
}

/// Result of a scan.
pub(super) struct Scan {
    /// The snapshot, if it differs from the previous one.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Names whose changes affect the result.
    pub watch_set: WatchSet,
    /// Manifests whose saved version is outdated, for [`Scanner::save`].
    pub unsaved: Vec<PathBuf>,
    /// When the next scan is due, if a removed file is in its grace period.
    pub next: Option<Instant>,
}

impl Scanner {
    /// Creates a scanner with the saved versions of all manifests.
    pub fn new(path: &Path, node: &str, root_dir: &Path) -> Self {
        let place = manifest::ManifestContext { node: node.to_owned(), source: SourceKind::File };
        let store = LastGood::new(root_dir, SourceKind::File);
        let files = store.load().into_iter().map(|(origin, objects)| {
            let manifest = Manifest { objects, problems: Vec::new() };
            (PathBuf::from(&origin), File { manifest, ..File::new(Path::new(&origin)) })
        });
        let mut scanner = Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            place,
            files: files.collect(),
            owners: Owners::new(),
            known: Known::new(),
            store,
            skipped: BTreeSet::new(),
            was_listed: false,
            sent: None,
        };
        scanner.resolve_owners();
        scanner.update_known();
        scanner
    }

    /// The names to watch before the first scan, so that no change is missed.
    pub fn initial_watch_set(&mut self) -> WatchSet {
        let mut watch_set = WatchSet::default();
        // The scan that follows reports errors.
        let _ = self.list(&mut watch_set);
        watch_set
    }

    /// Scans the path. `clock` is the monotonic time of `now`.
    pub fn scan(&mut self, changed_files: &ChangedFiles, now: Timestamp, clock: Instant) -> Scan {
        let mut scan =
            Scan { snapshot: None, watch_set: WatchSet::default(), unsaved: Vec::new(), next: None };
        let trouble = match self.list(&mut scan.watch_set) {
            Ok(listed) => {
                self.was_listed = true;
                scan.unsaved = self.read_all(listed, changed_files, now, clock);
                let gone = self.files.values().filter_map(|file| file.gone_since);
                scan.next = gone.min().map(|since| since + VANISHED_FILE_GRACE);
                if !scan.unsaved.is_empty() {
                    scan.unsaved.extend(self.resolve_owners());
                    self.update_known();
                }
                scan.watch_set.directory.is_none().then(|| self.absence()).flatten()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Problem {
                what: "the directory is gone".to_owned(),
                remedy: "restore it; to stop its pods, empty it".to_owned(),
                ..problem()
            }),
            Err(error) => Some(entry::unreadable(&error)),
        };
        let snapshot = self.snapshot(trouble);
        if self.sent.as_ref().is_none_or(|sent| !sent.is_same(&snapshot)) {
            let snapshot = Arc::new(snapshot);
            self.sent = Some(snapshot.clone());
            scan.snapshot = Some(snapshot);
        }
        scan
    }

    /// Saves the objects that these manifests own, so that the next kubelet knows the owners.
    pub fn save(&self, paths: &[PathBuf]) {
        for path in paths {
            let objects = self.files.get(path).map(|file| self.held(file).cloned().collect::<Vec<_>>());
            if let Err(error) = self.store.save(&path.to_string_lossy(), &objects.unwrap_or_default()) {
                let path = path.display();
                tracing::warn!(%path, %error, "cannot keep the last good version of a manifest on disk");
            }
        }
    }

    /// Lists the manifests, sorted by name.
    fn list(&mut self, watch_set: &mut WatchSet) -> io::Result<Vec<Listed>> {
        let resolved = file_watch::resolve(&self.path)?;
        watch_set.places = resolved.places;
        let Some(end) = resolved.end else { return self.nothing() };
        let entries = match fs::read_dir(&end) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Ok(vec![Listed { path: self.path.clone(), real: end }]);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.nothing(),
            Err(error) => return Err(error),
        };
        let mut manifests = Vec::new();
        let mut skipped = BTreeSet::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let path = self.path.join(&name);
            let mut real = end.join(&name);
            skipped.extend(skipped::of(&name, &path));
            if !is_manifest(&name) {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_symlink())
                && let Ok(resolved) = file_watch::resolve(&real)
            {
                watch_set.places.extend(resolved.places);
                real = resolved.end.unwrap_or(real);
            }
            manifests.push(Listed { path, real });
        }
        watch_set.directory = Some(WatchedDirectory { path: end, is_relevant: is_manifest });
        self.skipped = skipped;
        manifests.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(manifests)
    }

    /// The result for a path that does not exist. A missing file removes its pods. A missing directory may be an
    /// unmounted disk, so it is an error and its pods stay.
    fn nothing(&self) -> io::Result<Vec<Listed>> {
        let was_directory = self.files.keys().any(|path| *path != self.path);
        if was_directory { Err(io::ErrorKind::NotFound.into()) } else { Ok(Vec::new()) }
    }

    /// Reads changed manifests. Returns those whose objects changed.
    fn read_all(
        &mut self,
        listed: Vec<Listed>,
        changed_files: &ChangedFiles,
        now: Timestamp,
        clock: Instant,
    ) -> Vec<PathBuf> {
        let mut before = std::mem::take(&mut self.files);
        let mut renamed = renamed_files(&listed, &before);
        let mut changed = Vec::new();
        let mut gone = Vec::new();
        for listed in listed {
            let file = before.remove(&listed.path);
            // A file that was missing is read again, because other files may own its objects by now.
            let old = file.as_ref().filter(|file| file.gone_since.is_none()).and_then(|file| file.stamp);
            let Some(stamp) = to_be_read(&listed, old, changed_files) else {
                self.files
                    .extend(file.map(|file| (listed.path, File { stamp: old, gone_since: None, ..file })));
                continue;
            };
            let known = file.as_ref().map(|file| &file.manifest).or(renamed.get(&listed.path));
            let Some(manifest) = self.read(&listed.path, stamp, known, now) else {
                if is_removed(&listed.path) {
                    // Removed after it was listed, perhaps with its directory; an event triggers another scan.
                    self.files.extend(file.map(|file| (listed.path, file)));
                } else {
                    gone.extend(file.map(|file| (listed.path, file)));
                }
                continue;
            };
            renamed.remove(&listed.path);
            let mut file = file.unwrap_or_else(|| File::new(&listed.path));
            if manifest.1.objects != file.manifest.objects {
                changed.push(listed.path.clone());
            }
            (file.stamp, file.manifest) = manifest;
            file.gone_since = None;
            self.files.insert(listed.path, file);
        }
        gone.extend(before);
        changed.extend(self.keep_gone(gone, clock));
        changed
    }

    /// Keeps removed files until their grace period ends, except for objects that other files define. Returns the
    /// files with fewer objects.
    fn keep_gone(&mut self, gone: Vec<(PathBuf, File)>, clock: Instant) -> Vec<PathBuf> {
        let there = self.files.values().flat_map(|file| &file.manifest.objects);
        let there: BTreeSet<Arc<ObjectName>> = there.map(|named| named.name.clone()).collect();
        let mut changed = Vec::new();
        for (path, mut file) in gone {
            let since = *file.gone_since.get_or_insert(clock);
            let before = file.manifest.objects.len();
            file.manifest.objects.retain(|named| !there.contains(&named.name));
            let ends = clock.duration_since(since) >= VANISHED_FILE_GRACE;
            if ends || file.manifest.objects.len() < before {
                changed.push(path.clone());
            }
            if !ends && !file.manifest.objects.is_empty() {
                file.manifest.problems.clear();
                self.files.insert(path, file);
            }
        }
        changed
    }

    /// Reads a manifest, and returns it with the stamp of the version that was read. `None` if the file does not
    /// exist.
    fn read(
        &self,
        path: &Path,
        found: Result<(), Problem>,
        before: Option<&Manifest>,
        now: Timestamp,
    ) -> Option<(Option<Stamp>, Manifest)> {
        let nothing = Manifest::default();
        let before = before.unwrap_or(&nothing);
        let read = match found {
            Ok(()) => entry::read(path)?,
            Err(problem) => Err(problem),
        };
        Some(match read {
            Ok((stamp, bytes)) => (Some(stamp), before.read(&bytes, &self.place, &self.known, now)),
            Err(problem) => (None, before.unreadable(problem)),
        })
    }

    /// Updates the owners of objects. Returns the files that own more objects than before.
    fn resolve_owners(&mut self) -> Vec<PathBuf> {
        let files = self.files.values().map(|file| (&file.origin, &file.manifest.objects[..]));
        let now = owners::resolve(&self.owners, files);
        let before = std::mem::replace(&mut self.owners, now);
        let changed_owners = self.owners.iter().filter(|(name, holder)| before.get(*name) != Some(*holder));
        let changed_owners: BTreeSet<&Arc<str>> = changed_owners.map(|(_, holder)| holder).collect();
        let files = self.files.iter().filter(|(_, file)| changed_owners.contains(&file.origin));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// The objects that a file owns.
    fn held<'a>(&'a self, file: &'a File) -> impl Iterator<Item = &'a Named> {
        file.manifest.objects.iter().filter(|named| self.owners.get(&named.name) == Some(&file.origin))
    }

    fn update_known(&mut self) {
        let named = self.files.values().flat_map(|file| self.held(file));
        self.known = named.map(|named| (named.name.clone(), named.object.clone())).collect();
    }

    fn snapshot(&self, trouble: Option<Problem>) -> Snapshot {
        let mut objects = Vec::new();
        let mut problems = Vec::new();
        if let Some(problem) = trouble {
            let origin = Arc::from(self.path.to_string_lossy());
            problems.push(FoundProblem { origin, problem, last_good: !self.files.is_empty() });
        }
        for file in self.files.values() {
            file.manifest.add_to(&file.origin, &mut objects, &mut problems);
        }
        // Earlier objects win in the merge, so owned objects come first.
        objects.sort_by_key(|found| self.owners.get(&found.name) != Some(&found.origin));
        let completeness = if self.was_listed { Completeness::Complete } else { Completeness::Incomplete };
        let skipped = self.skipped.iter().map(ToString::to_string).collect();
        Snapshot {
            source: SourceKind::File,
            objects,
            waiting: BTreeSet::new(),
            problems,
            skipped,
            completeness,
        }
    }

    /// The problem of a missing path, or `None` if the path is an existing file.
    fn absence(&self) -> Option<Problem> {
        self.files.is_empty().then(|| Problem {
            what: "there is no such file or directory".to_owned(),
            remedy: "create it; pods in it will run".to_owned(),
            ..problem()
        })
    }
}

impl File {
    fn new(path: &Path) -> Self {
        let manifest = Manifest::default();
        Self { origin: Arc::from(path.to_string_lossy()), stamp: None, manifest, gone_since: None }
    }
}

/// Whether a manifest must be read, or the problem that prevents that. `None` if it is unchanged.
fn to_be_read(
    listed: &Listed,
    old: Option<Stamp>,
    changed_files: &ChangedFiles,
) -> Option<Result<(), Problem>> {
    match entry::stat(&listed.path) {
        Entry::Absent => Some(Ok(())),
        Entry::Refused(problem) => Some(Err(problem)),
        Entry::File(stamp) => {
            let is_unfinished = changed_files.being_written.contains(&listed.real)
                || stamp.size_bytes() == 0 && changed_files.created.contains(&listed.real);
            let is_same = old == Some(stamp) && !changed_files.written.contains(&listed.real);
            (!is_unfinished && !is_same).then_some(Ok(()))
        }
    }
}

/// Manifests of renamed files by their new path. The last good version therefore stays in use if the new file has
/// an error. A rename keeps inode, size and mtime.
fn renamed_files(listed: &[Listed], before: &BTreeMap<PathBuf, File>) -> BTreeMap<PathBuf, Manifest> {
    let new = listed.iter().filter(|listed| !before.contains_key(&listed.path));
    let new: Vec<(&PathBuf, Stamp)> = new
        .filter_map(|listed| match entry::stat(&listed.path) {
            Entry::File(stamp) => Some((&listed.path, stamp)),
            Entry::Absent | Entry::Refused(_) => None,
        })
        .collect();
    if new.is_empty() {
        return BTreeMap::new();
    }
    let there: BTreeSet<&PathBuf> = listed.iter().map(|listed| &listed.path).collect();
    let gone = before.iter().filter(|(path, _)| !there.contains(path));
    gone.filter_map(|(_, file)| {
        let stamp = file.stamp?;
        let (path, _) = new.iter().find(|(_, new)| new.is_same_content(&stamp))?;
        Some(((*path).clone(), file.manifest.clone()))
    })
    .collect()
}

/// Whether the name no longer exists, not even as a symlink.
fn is_removed(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether a file name is that of a manifest.
pub(super) fn is_manifest(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let ends = [&b".json"[..], b".yaml", b".yml"].iter().any(|end| name.ends_with(end));
    ends && !name.starts_with(b".")
}

#[cfg(test)]
mod tests {
    //! Tests of changes between two system calls.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn directory_removed_during_a_scan_keeps_its_pods() {
        let folder = tempfile::tempdir().unwrap();
        let (manifests, changed_files, now) =
            (folder.path().join("manifests"), ChangedFiles::default(), Timestamp::now());
        let clock = Instant::now();
        fs::create_dir(&manifests).unwrap();
        let pod =
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: i}]}}";
        fs::write(manifests.join("a.yaml"), pod).unwrap();
        let mut scanner = Scanner::new(&manifests, "node", &folder.path().join("root"));
        assert_eq!(scanner.scan(&changed_files, now, clock).snapshot.unwrap().objects.len(), 1);
        let listed = scanner.list(&mut WatchSet::default()).unwrap();
        fs::rename(&manifests, folder.path().join("away")).unwrap();
        assert!(scanner.read_all(listed, &changed_files, now, clock).is_empty());
        let sent = scanner.scan(&changed_files, now, clock).snapshot.unwrap();
        assert_eq!((sent.objects.len(), sent.problems.len()), (1, 1), "it is gone, and its pods stay");
        // A dangling symlink counts as a missing file.
        fs::rename(folder.path().join("away"), &manifests).unwrap();
        fs::rename(manifests.join("a.yaml"), folder.path().join("a.yaml")).unwrap();
        std::os::unix::fs::symlink("nowhere", manifests.join("a.yaml")).unwrap();
        let scan = scanner.scan(&changed_files, now, clock);
        assert_eq!(scan.snapshot.unwrap().objects.len(), 1, "the file may come back");
        let over = scan.next.unwrap();
        assert_eq!(over, clock + VANISHED_FILE_GRACE);
        let just_before = over - Duration::from_millis(1);
        assert!(scanner.scan(&changed_files, now, just_before).snapshot.is_none());
        assert!(scanner.scan(&changed_files, now, over).snapshot.unwrap().objects.is_empty());
    }
}
