//! Attempts to leave a volume through a subPath.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use super::super::mounting;
use super::{SubPath, open_below, open_below_by_name};

/// Longest duration of the race test.
const LONGEST_RACE: Duration = Duration::from_secs(30);

struct Place {
    root: tempfile::TempDir,
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = mounting::detach(&self.target_path());
    }
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("volume")).unwrap();
        std::fs::write(root.path().join("outside"), "outside").unwrap();
        // Target of the escape attempts, so that they never affect the host.
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

    fn target_path(&self) -> PathBuf {
        self.root.path().join("pod/part/0")
    }

    fn bind(&self, part: &str, kubelet_managed: bool) -> Result<PathBuf, String> {
        SubPath {
            root: self.volume(),
            part: part.to_owned(),
            target_path: self.target_path(),
            kubelet_managed,
        }
        .bind()
    }
}

#[test]
fn sub_path_cannot_leave_the_volume() {
    let target_path = Place::new();
    let volume = target_path.volume();
    std::fs::create_dir(volume.join("dir")).unwrap();
    std::fs::write(volume.join("file"), "inside").unwrap();
    let away = target_path.away().display().to_string();
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
        ("loop", "contains a symlink cycle"),
        ("nowhere", "leads nowhere"),
        ("nowhere/new", "leads nowhere"),
        ("file/x", "is a file"),
        ("../outside", "must not contain"),
        ("/away", "must be relative"),
    ] {
        let error = target_path.bind(part, false).unwrap_err();
        assert!(error.contains(words), "{part}: {error}");
    }
    assert!(!target_path.target_path().exists());
    for (part, expected) in
        [("in", None), ("in/back", Some("inside")), ("dir/back", Some("inside")), ("./file", Some("inside"))]
    {
        let bound = target_path.bind(part, false).unwrap();
        assert_eq!(std::fs::read_to_string(bound).ok().as_deref(), expected, "{part}");
    }
}

#[test]
fn sub_path_works_the_same_on_older_kernels() {
    let target_path = Place::new();
    let volume = target_path.volume();
    std::fs::create_dir(volume.join("dir")).unwrap();
    std::fs::write(volume.join("file"), "inside").unwrap();
    symlink(target_path.away(), volume.join("absolute")).unwrap();
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
fn missing_sub_path_is_created_in_a_writable_volume() {
    let target_path = Place::new();
    target_path.bind("new/directory", false).unwrap();
    assert!(target_path.volume().join("new/directory").is_dir());
    let error = target_path.bind("gone", true).unwrap_err();
    assert!(error.contains("is not in the volume: it has new"), "{error}");
    std::fs::remove_dir_all(target_path.volume().join("new")).unwrap();
    target_path.bind("gone", true).unwrap();
}

#[test]
fn sub_path_target_follows_the_type_of_its_source() {
    let target_path = Place::new();
    std::fs::write(target_path.volume().join("x"), "1").unwrap();
    assert_eq!(std::fs::read_to_string(target_path.bind("x", false).unwrap()).unwrap(), "1");
    std::fs::remove_file(target_path.volume().join("x")).unwrap();
    std::fs::create_dir_all(target_path.volume().join("x/y")).unwrap();
    assert!(target_path.bind("x", false).unwrap().join("y").is_dir());
    std::fs::remove_dir_all(target_path.volume().join("x")).unwrap();
    std::fs::write(target_path.volume().join("x"), "2").unwrap();
    assert_eq!(std::fs::read_to_string(target_path.bind("x", false).unwrap()).unwrap(), "2");
}

/// A container repeatedly swaps a directory for a symlink while the kubelet binds it.
#[test]
fn sub_path_resists_a_symlink_race() {
    let target_path = Place::new();
    let volume = target_path.volume();
    std::fs::create_dir(volume.join("a")).unwrap();
    std::fs::create_dir(volume.join("real")).unwrap();
    symlink(target_path.away(), volume.join("evil")).unwrap();
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
        // Runs longer if the swapping thread is not scheduled for a while.
        while tries < 2000 || bound == 0 && begun.elapsed() < LONGEST_RACE {
            tries += 1;
            if let Ok(path) = target_path.bind("a/made", false) {
                assert!(!path.join("secret").exists());
                bound += 1;
            }
            assert!(!target_path.away().join("made").exists());
        }
        done.store(true, Ordering::Relaxed);
        assert!(bound > 0, "the race must have been lost and won");
    });
}
