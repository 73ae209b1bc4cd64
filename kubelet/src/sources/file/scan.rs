//! One look at a path: which manifests are there, which of them have changed, and what they all hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::problem::Problem;

use super::entry::{self, Entry, Stamp};
use super::holders::{self, Holders};
use super::links::{self, Place};
use crate::desired::{Completeness, FoundProblem, Snapshot, SourceKind};
use crate::observed::Timestamp;
use crate::sources::identity::problem;
use crate::sources::last_good::LastGood;
use crate::sources::manifest::{self, Known, Manifest, Named};

/// The path of a source and what was found there so far.
pub(super) struct Scanner {
    path: PathBuf,
    place: manifest::Place,
    store: LastGood,
    files: BTreeMap<PathBuf, File>,
    /// Which of them each object is of, where several have one of its name.
    holders: Holders,
    /// Their objects by name.
    known: Known,
    ignored: BTreeSet<OsString>,
    was_listed: bool,
    told: Option<Arc<Snapshot>>,
}

/// A manifest that is there: its path under the source's own, and where that really leads.
struct Listed {
    path: PathBuf,
    real: PathBuf,
}

/// One manifest.
struct File {
    origin: Arc<str>,
    /// Of the version that was read; `None` when it has to be read again.
    stamp: Option<Stamp>,
    manifest: Manifest,
}

/// What is known of files from events, beyond what a look can tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    /// Someone writes to them: half a manifest may be a valid one, so they are not read before they are closed.
    pub being_written: BTreeSet<PathBuf>,
    /// Just made: if empty they are about to be written to.
    pub created: BTreeSet<PathBuf>,
    /// Written, whatever their stamp says: two writes may fall into one tick of the file system's clock.
    pub written: BTreeSet<PathBuf>,
}

/// What to watch.
#[derive(Debug, Default)]
pub(super) struct Sights {
    /// The directory of manifests: any name in it.
    pub directory: Option<PathBuf>,
    /// Other names.
    pub places: BTreeSet<Place>,
}

/// What a look found.
pub(super) struct Scan {
    /// The snapshot, when it differs from the last one.
    pub snapshot: Option<Arc<Snapshot>>,
    /// What can change it.
    pub sights: Sights,
    /// Manifests whose last good version has changed, to be [`Scanner::save`]d.
    pub unsaved: Vec<PathBuf>,
}

impl Scanner {
    /// Begins with what the manifests held when they were last good.
    pub fn new(path: &Path, node: &str, root_dir: &Path) -> Self {
        let place = manifest::Place { node: node.to_owned(), source: SourceKind::File };
        let store = LastGood::new(root_dir, SourceKind::File);
        let files = store.load().into_iter().map(|(origin, objects)| {
            let manifest = Manifest { objects, problems: Vec::new() };
            (PathBuf::from(&origin), File { origin: Arc::from(origin), stamp: None, manifest })
        });
        let mut scanner = Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            place,
            files: files.collect(),
            holders: Holders::new(),
            known: Known::new(),
            store,
            ignored: BTreeSet::new(),
            was_listed: false,
            told: None,
        };
        scanner.settle();
        scanner.know();
        scanner
    }

    /// What to watch before the first look, so that nothing happens unnoticed between the two.
    pub fn survey(&mut self) -> Sights {
        let mut sights = Sights::default();
        // The look that follows tells what went wrong.
        let _ = self.list(&mut sights);
        sights
    }

    /// Looks once.
    pub fn scan(&mut self, hints: &Hints, now: Timestamp) -> Scan {
        let mut scan = Scan { snapshot: None, sights: Sights::default(), unsaved: Vec::new() };
        let trouble = match self.list(&mut scan.sights) {
            Ok(listed) => {
                self.was_listed = true;
                scan.unsaved = self.read_all(listed, hints, now);
                if !scan.unsaved.is_empty() {
                    scan.unsaved.extend(self.settle());
                    self.know();
                }
                scan.sights.directory.is_none().then(|| self.absence()).flatten()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(Problem {
                what: "the directory is gone".to_owned(),
                remedy: "put it back; to end its pods, empty it".to_owned(),
                ..problem()
            }),
            Err(error) => Some(entry::unreadable(&error)),
        };
        let snapshot = self.snapshot(trouble);
        if self.told.as_ref().is_none_or(|told| !told.is_same(&snapshot)) {
            let snapshot = Arc::new(snapshot);
            self.told = Some(snapshot.clone());
            scan.snapshot = Some(snapshot);
        }
        scan
    }

    /// Writes down the last good versions of these manifests: the objects they hold, so that the next kubelet knows which
    /// of several files that was.
    pub fn save(&self, paths: &[PathBuf]) {
        for path in paths {
            let objects = self.files.get(path).map(|file| self.held(file).cloned().collect::<Vec<_>>());
            if let Err(error) = self.store.save(&path.to_string_lossy(), &objects.unwrap_or_default()) {
                let path = path.display();
                tracing::warn!(%path, %error, "cannot keep the last good version of a manifest on disk");
            }
        }
    }

    /// The manifests there are, by name.
    fn list(&mut self, sights: &mut Sights) -> io::Result<Vec<Listed>> {
        let way = links::follow(&self.path)?;
        sights.places = way.places;
        let Some(end) = way.end else { return self.nothing() };
        let entries = match fs::read_dir(&end) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Ok(vec![Listed { path: self.path.clone(), real: end }]);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.nothing(),
            Err(error) => return Err(error),
        };
        let mut manifests = Vec::new();
        let mut others = BTreeSet::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if !is_manifest(&name) {
                others.insert(name);
                continue;
            }
            let path = self.path.join(&name);
            let mut real = end.join(name);
            if entry.file_type().is_ok_and(|kind| kind.is_symlink())
                && let Ok(way) = links::follow(&real)
            {
                sights.places.extend(way.places);
                real = way.end.unwrap_or(real);
            }
            manifests.push(Listed { path, real });
        }
        sights.directory = Some(end);
        self.tell_ignored(others);
        manifests.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(manifests)
    }

    /// Nothing is there. A file that is gone takes its pods along; a directory that is gone may be a disk that is not
    /// mounted, and nothing is ended on doubt.
    fn nothing(&self) -> io::Result<Vec<Listed>> {
        let was_directory = self.files.keys().any(|path| *path != self.path);
        if was_directory { Err(io::ErrorKind::NotFound.into()) } else { Ok(Vec::new()) }
    }

    /// Names in the log, once, what is not read.
    fn tell_ignored(&mut self, others: BTreeSet<OsString>) {
        // `..data` and its like are how Kubernetes mounts a ConfigMap.
        let news = |name: &&OsString| !name.as_bytes().starts_with(b"..") && !self.ignored.contains(*name);
        for name in others.iter().filter(news) {
            let path = self.path.join(name);
            tracing::info!(path = %path.display(), "not read: manifests end in .json, .yaml or .yml and are not hidden");
        }
        self.ignored = others;
    }

    /// Reads what has changed; the manifests whose objects did.
    fn read_all(&mut self, listed: Vec<Listed>, hints: &Hints, now: Timestamp) -> Vec<PathBuf> {
        let mut before = std::mem::take(&mut self.files);
        let mut changed = Vec::new();
        for listed in listed {
            let file = before.remove(&listed.path);
            let old = file.as_ref().and_then(|file| file.stamp);
            let Some(stamp) = to_be_read(&listed, old, hints) else {
                self.files.extend(file.map(|file| (listed.path, file)));
                continue;
            };
            let Some(manifest) = self.read(&listed.path, stamp, file.as_ref(), now) else {
                if went(&listed.path) {
                    // After it was listed, perhaps together with its directory: whoever watches brings the look that knows.
                    self.files.extend(file.map(|file| (listed.path, file)));
                } else {
                    changed.extend(file.map(|_| listed.path));
                }
                continue;
            };
            let mut file = file.unwrap_or_else(|| File::new(&listed.path));
            if manifest.1.objects != file.manifest.objects {
                changed.push(listed.path.clone());
            }
            (file.stamp, file.manifest) = manifest;
            self.files.insert(listed.path, file);
        }
        changed.extend(before.into_keys());
        changed
    }

    /// The manifest as it is now and the stamp of what was read; `None` when it is gone.
    fn read(
        &self,
        path: &Path,
        found: Result<(), Problem>,
        before: Option<&File>,
        now: Timestamp,
    ) -> Option<(Option<Stamp>, Manifest)> {
        let nothing = Manifest::default();
        let before = before.map_or(&nothing, |file| &file.manifest);
        let read = match found {
            Ok(()) => entry::read(path)?,
            Err(problem) => Err(problem),
        };
        Some(match read {
            Ok((stamp, bytes)) => (Some(stamp), before.read(&bytes, &self.place, &self.known, now)),
            Err(problem) => (None, before.unreadable(problem)),
        })
    }

    /// Finds out anew who holds what; the manifests that hold more than before.
    fn settle(&mut self) -> Vec<PathBuf> {
        let files = self.files.values().map(|file| (&file.origin, &file.manifest.objects[..]));
        let now = holders::settle(&self.holders, files);
        let before = std::mem::replace(&mut self.holders, now);
        let news = self.holders.iter().filter(|(name, holder)| before.get(*name) != Some(*holder));
        let news: BTreeSet<&Arc<str>> = news.map(|(_, holder)| holder).collect();
        let files = self.files.iter().filter(|(_, file)| news.contains(&file.origin));
        files.map(|(path, _)| path.clone()).collect()
    }

    /// The objects of a file that no other file holds.
    fn held<'a>(&'a self, file: &'a File) -> impl Iterator<Item = &'a Named> {
        file.manifest.objects.iter().filter(|named| self.holders.get(&named.name) == Some(&file.origin))
    }

    fn know(&mut self) {
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
        // What stands first wins: what is held stands before what another file would like to hold.
        objects.sort_by_key(|found| self.holders.get(&found.name) != Some(&found.origin));
        let completeness = if self.was_listed { Completeness::Complete } else { Completeness::Incomplete };
        Snapshot { source: SourceKind::File, objects, waiting: BTreeSet::new(), problems, completeness }
    }

    /// What is wrong when there is no directory: nothing, if it is a file that is there.
    fn absence(&self) -> Option<Problem> {
        self.files.is_empty().then(|| Problem {
            what: "there is no such file or directory".to_owned(),
            remedy: "make it; what is put there will run".to_owned(),
            ..problem()
        })
    }
}

impl File {
    fn new(path: &Path) -> Self {
        Self { origin: Arc::from(path.to_string_lossy()), stamp: None, manifest: Manifest::default() }
    }
}

/// Whether a manifest has to be read, and what is known to be wrong already; `None` when it stays as it is.
fn to_be_read(listed: &Listed, old: Option<Stamp>, hints: &Hints) -> Option<Result<(), Problem>> {
    match entry::look(&listed.path) {
        Entry::Absent => Some(Ok(())),
        Entry::Refused(problem) => Some(Err(problem)),
        Entry::File(stamp) => {
            let is_unfinished = hints.being_written.contains(&listed.real)
                || stamp.is_empty() && hints.created.contains(&listed.real);
            let is_same = old == Some(stamp) && !hints.written.contains(&listed.real);
            (!is_unfinished && !is_same).then_some(Ok(()))
        }
    }
}

/// Whether not even a link of that name is there any more.
fn went(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// True for the name of a file that is read.
pub(super) fn is_manifest(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let ends = [&b".json"[..], b".yaml", b".yml"].iter().any(|end| name.ends_with(end));
    ends && !name.starts_with(b".")
}

#[cfg(test)]
mod tests {
    //! What goes between two system calls.
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_directory_that_goes_while_it_is_read_takes_no_pods_along() {
        let folder = tempfile::tempdir().unwrap();
        let (manifests, hints, now) = (folder.path().join("manifests"), Hints::default(), Timestamp::now());
        fs::create_dir(&manifests).unwrap();
        let pod =
            "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: i}]}}";
        fs::write(manifests.join("a.yaml"), pod).unwrap();
        let mut scanner = Scanner::new(&manifests, "node", &folder.path().join("root"));
        assert_eq!(scanner.scan(&hints, now).snapshot.unwrap().objects.len(), 1);
        let listed = scanner.list(&mut Sights::default()).unwrap();
        fs::rename(&manifests, folder.path().join("away")).unwrap();
        assert!(scanner.read_all(listed, &hints, now).is_empty());
        let told = scanner.scan(&hints, now).snapshot.unwrap();
        assert_eq!((told.objects.len(), told.problems.len()), (1, 1), "it is gone, and its pods stay");
        // A link that leads nowhere is as good as none.
        fs::rename(folder.path().join("away"), &manifests).unwrap();
        fs::rename(manifests.join("a.yaml"), folder.path().join("a.yaml")).unwrap();
        std::os::unix::fs::symlink("nowhere", manifests.join("a.yaml")).unwrap();
        assert!(scanner.scan(&hints, now).snapshot.unwrap().objects.is_empty());
    }
}
