//! What counts, and what does not.
#![allow(clippy::unwrap_used, reason = "tests")]

use rustix::mount::MountFlags;

use super::of;

#[test]
fn links_and_mounts_do_not_count_twice() {
    let root = tempfile::tempdir().unwrap();
    let empty = of(root.path()).unwrap();
    std::fs::create_dir(root.path().join("d")).unwrap();
    std::fs::write(root.path().join("d/file"), vec![1; 1 << 20]).unwrap();
    let one = of(root.path()).unwrap();
    assert!(one >= empty + (1 << 20));
    std::fs::hard_link(root.path().join("d/file"), root.path().join("again")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("file"), vec![1; 1 << 20]).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), root.path().join("away")).unwrap();
    assert!(of(root.path()).unwrap() < one + 65536);
    let other = root.path().join("other");
    std::fs::create_dir(&other).unwrap();
    rustix::mount::mount("none", &other, "tmpfs", MountFlags::empty(), None).unwrap();
    std::fs::write(other.join("file"), vec![1; 1 << 20]).unwrap();
    let with_mount = of(root.path());
    super::super::mounting::detach(&other).unwrap();
    assert!(with_mount.unwrap() < one + 65536);
    assert_eq!(of(&root.path().join("gone")).unwrap(), 0);
}
