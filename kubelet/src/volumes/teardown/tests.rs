//! Removal of directories, and protection of mounts.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::path::PathBuf;

use rustix::mount::{MountFlags, UnmountFlags};

use super::{mount_points, remove, remove_tree};

#[test]
fn mount_table_parser_decodes_escapes() {
    let table =
        b"22 1 0:20 / / rw - ext4 /dev/x rw\n23 22 0:21 /a /with\\040blank\\134x rw shared:1 - tmpfs t rw\n";
    let points: Vec<PathBuf> = mount_points(table).collect();
    assert_eq!(points, [PathBuf::from("/"), PathBuf::from("/with blank\\x")]);
}

#[test]
fn teardown_deletes_deep_and_wide_trees() {
    let root = tempfile::tempdir().unwrap();
    let top = root.path().join("pod");
    std::fs::create_dir(&top).unwrap();
    let mut deep = rustix::fs::open(&top, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    // Deeper than the limits of open files and path length.
    for _ in 0..3000 {
        rustix::fs::mkdirat(&deep, "directory", 0o000.into()).unwrap();
        deep = rustix::fs::openat(&deep, "directory", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
            .unwrap();
    }
    for n in 0..2000 {
        std::fs::write(top.join(n.to_string()), "").unwrap();
    }
    std::fs::create_dir(top.join(".removed-0")).unwrap();
    remove(&top).unwrap();
    assert!(!top.exists());
    remove(&top).unwrap();
}

#[test]
fn teardown_does_not_delete_mounted_content() {
    let root = tempfile::tempdir().unwrap();
    let (top, precious) = (root.path().join("pod"), root.path().join("precious"));
    std::fs::create_dir_all(top.join("a/b")).unwrap();
    std::fs::create_dir(&precious).unwrap();
    std::fs::write(precious.join("file"), "").unwrap();
    rustix::mount::mount_bind(&precious, top.join("a/b")).unwrap();
    // Even with an incomplete mount table, the kernel refuses.
    let refused = remove_tree(&top).unwrap_err();
    assert!(refused.to_string().contains("busy"), "{refused}");
    assert!(precious.join("file").exists());
    remove(&top).unwrap();
    assert!(precious.join("file").exists());
    assert!(!top.exists());
}

#[test]
fn teardown_unmounts_stacked_mounts_and_unusual_names() {
    let root = tempfile::tempdir().unwrap();
    let top = root.path().join("pod");
    let odd = top.join("a b\\c\td");
    std::fs::create_dir_all(&odd).unwrap();
    for _ in 0..2 {
        rustix::mount::mount("none", &odd, "tmpfs", MountFlags::empty(), None).unwrap();
        std::fs::create_dir(odd.join("inner")).unwrap();
        rustix::mount::mount("none", odd.join("inner"), "tmpfs", MountFlags::empty(), None).unwrap();
    }
    remove(&top).unwrap();
    assert!(!top.exists());
    assert!(rustix::mount::unmount(&odd, UnmountFlags::empty()).is_err());
}

/// With shared mount propagation, a hostPath shows mounts that the host adds later.
#[test]
fn teardown_keeps_mounts_of_the_host() {
    let root = tempfile::tempdir().unwrap();
    let (top, host) = (root.path().join("pod"), root.path().join("host"));
    std::fs::create_dir_all(top.join("part")).unwrap();
    std::fs::create_dir(&host).unwrap();
    rustix::mount::mount("none", &host, "tmpfs", MountFlags::empty(), None).unwrap();
    rustix::mount::mount_change(&host, rustix::mount::MountPropagationFlags::SHARED).unwrap();
    std::fs::create_dir_all(host.join("sub/disk")).unwrap();
    rustix::mount::mount_bind(host.join("sub"), top.join("part")).unwrap();
    rustix::mount::mount("none", host.join("sub/disk"), "tmpfs", MountFlags::empty(), None).unwrap();
    std::fs::write(host.join("sub/disk/precious"), "").unwrap();
    assert!(
        top.join("part/disk/precious").exists(),
        "the mount must have come along for this test to mean anything"
    );
    remove(&top).unwrap();
    assert!(!top.exists());
    assert!(host.join("sub/disk/precious").exists());
    remove(&host).unwrap();
}

#[test]
fn teardown_rejects_a_symlink_instead_of_a_pod_directory() {
    let root = tempfile::tempdir().unwrap();
    let (top, outside) = (root.path().join("pod"), root.path().join("outside"));
    std::fs::create_dir_all(outside.join("mounted")).unwrap();
    rustix::mount::mount("none", outside.join("mounted"), "tmpfs", MountFlags::empty(), None).unwrap();
    std::fs::write(outside.join("mounted/precious"), "").unwrap();
    std::os::unix::fs::symlink(&outside, &top).unwrap();
    let refused = remove(&top);
    let kept = outside.join("mounted/precious").exists();
    remove(&outside).unwrap();
    assert!(refused.is_err() && kept);
}
