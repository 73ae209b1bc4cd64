//! Ways out of a volume, all of them closed.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::super::mounting;
use super::{SubPath, open_below, open_below_by_name};

/// How long a race is run that nobody wins.
const LONGEST_RACE: Duration = Duration::from_secs(30);

struct Place {
    root: tempfile::TempDir,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = mounting::detach(&self.place());
    }
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("volume")).unwrap();
        std::fs::write(root.path().join("outside"), "outside").unwrap();
        // Ways out lead here, never to the machine the tests run on.
        std::fs::create_dir(root.path().join("away")).unwrap();
        std::fs::write(root.path().join("away/secret"), "outside").unwrap();
        Self { root }
    }

    fn volume(&self) -> PathBuf {
        self.root.path().join("volume")
    }

    fn away(&self) -> PathBuf {
        self.root.path().join("away")
    }

    fn place(&self) -> PathBuf {
        self.root.path().join("pod/part/0")
    }

    fn bind(&self, part: &str, ours: bool) -> Result<PathBuf, String> {
        SubPath { root: self.volume(), part: part.to_owned(), place: self.place(), ours }.bind()
    }
}

#[test]
fn ways_out_are_closed() {
    let place = Place::new();
    let volume = place.volume();
    std::fs::create_dir(volume.join("dir")).unwrap();
    std::fs::write(volume.join("file"), "inside").unwrap();
    let away = place.away().display().to_string();
    let proc = format!("/proc/self/root{away}");
    for (link, to) in [
        ("absolute", away.as_str()),
        ("up", "../outside"),
        ("dir/far-up", "../../outside"),
        ("proc", proc.as_str()),
        ("loop", "loop"),
        ("nowhere", "gone"),
        ("in", "dir"),
        ("dir/back", "../file"),
    ] {
        symlink(to, volume.join(link)).unwrap();
    }
    for (part, words) in [
        ("absolute", "leads out of the volume"),
        ("absolute/secret", "leads out of the volume"),
        ("absolute/new/directory", "leads out of the volume"),
        ("up", "leads out of the volume"),
        ("dir/far-up", "leads out of the volume"),
        ("proc/secret", "leads out of the volume"),
        ("loop", "goes round in circles"),
        ("nowhere", "leads nowhere"),
        ("nowhere/new", "leads nowhere"),
        ("file/x", "is a file"),
        ("../outside", "must not contain"),
        ("/away", "must be relative"),
    ] {
        let error = place.bind(part, false).unwrap_err();
        assert!(error.contains(words), "{part}: {error}");
    }
    assert!(!place.place().exists());
    for (part, expected) in
        [("in", None), ("in/back", Some("inside")), ("dir/back", Some("inside")), ("./file", Some("inside"))]
    {
        let bound = place.bind(part, false).unwrap();
        assert_eq!(std::fs::read_to_string(bound).ok().as_deref(), expected, "{part}");
    }
}

#[test]
fn older_kernels_get_the_same_answers() {
    let place = Place::new();
    let volume = place.volume();
    std::fs::create_dir(volume.join("dir")).unwrap();
    std::fs::write(volume.join("file"), "inside").unwrap();
    symlink(place.away(), volume.join("absolute")).unwrap();
    symlink("../../outside", volume.join("dir/up")).unwrap();
    symlink("../file", volume.join("dir/back")).unwrap();
    let root = rustix::fs::open(&volume, OFlags::PATH, Mode::empty()).unwrap();
    for part in [".", "dir", "file", "dir/back", "absolute", "absolute/secret", "dir/up", "gone", "file/x"] {
        let open =
            |result: Result<std::os::fd::OwnedFd, _>| result.map(|fd| rustix::fs::fstat(fd).unwrap().st_ino);
        let new = open(open_below(root.as_fd(), Path::new(part)));
        assert_eq!(open(open_below_by_name(root.as_fd(), Path::new(part))), new, "{part}");
    }
}

#[test]
fn missing_parts_are_made_where_that_makes_sense() {
    let place = Place::new();
    place.bind("new/directory", false).unwrap();
    assert!(place.volume().join("new/directory").is_dir());
    let error = place.bind("gone", true).unwrap_err();
    assert!(error.contains("is not in the volume: it has new"), "{error}");
    std::fs::remove_dir_all(place.volume().join("new")).unwrap();
    place.bind("gone", true).unwrap();
}

#[test]
fn a_place_holds_the_newest_kind() {
    let place = Place::new();
    std::fs::write(place.volume().join("x"), "1").unwrap();
    assert_eq!(std::fs::read_to_string(place.bind("x", false).unwrap()).unwrap(), "1");
    std::fs::remove_file(place.volume().join("x")).unwrap();
    std::fs::create_dir_all(place.volume().join("x/y")).unwrap();
    assert!(place.bind("x", false).unwrap().join("y").is_dir());
    std::fs::remove_dir_all(place.volume().join("x")).unwrap();
    std::fs::write(place.volume().join("x"), "2").unwrap();
    assert_eq!(std::fs::read_to_string(place.bind("x", false).unwrap()).unwrap(), "2");
}

/// A container swaps a directory for a symlink again and again while the kubelet binds it.
#[test]
fn a_race_is_not_won() {
    let place = Place::new();
    let volume = place.volume();
    std::fs::create_dir(volume.join("a")).unwrap();
    std::fs::create_dir(volume.join("real")).unwrap();
    symlink(place.away(), volume.join("evil")).unwrap();
    let done = AtomicBool::new(false);
    let swap = |x: &str, y: &str| {
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, volume.join(x), rustix::fs::CWD, volume.join(y), flags)
            .unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                swap("a", "evil");
            }
        });
        let (mut bound, mut tries, begun) = (0, 0, Instant::now());
        // Where whoever swaps does not get to run for a while, it goes on for longer.
        while tries < 2000 || bound == 0 && begun.elapsed() < LONGEST_RACE {
            tries += 1;
            if let Ok(path) = place.bind("a/made", false) {
                assert!(!path.join("secret").exists());
                bound += 1;
            }
            assert!(!place.away().join("made").exists());
        }
        done.store(true, Ordering::Relaxed);
        assert!(bound > 0, "the race must have been lost and won");
    });
}
