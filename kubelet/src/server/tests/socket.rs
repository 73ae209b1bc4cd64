//! Lock and socket of the root directory.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use crate::server::RootDir;

#[tokio::test]
async fn the_socket_is_its_owners() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("new");
    let root_dir = RootDir::take(&root).unwrap();
    let _listener = root_dir.listen().unwrap();
    assert_eq!(root.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(root.join("kubelet.sock").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let names: Vec<_> = root.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[tokio::test]
async fn a_second_kubelet_is_refused_until_the_first_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let first = RootDir::take(dir.path()).unwrap();
    let refusal = RootDir::take(dir.path()).unwrap_err().to_string();
    assert!(refusal.starts_with("another kubelet runs on "), "{refusal}");
    assert!(refusal.contains("--root-dir"), "{refusal}");
    drop(first);
    RootDir::take(dir.path()).unwrap();
}

#[tokio::test]
async fn a_socket_that_was_left_behind_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubelet.sock");
    drop(UnixListener::bind(&path).unwrap());
    let left = path.metadata().unwrap().ino();
    let root_dir = RootDir::take(dir.path()).unwrap();
    let _listener = root_dir.listen().unwrap();
    assert_ne!(path.metadata().unwrap().ino(), left);
    tokio::net::UnixStream::connect(&path).await.unwrap();
}

#[tokio::test]
async fn a_directory_in_which_no_socket_can_be_is_refused_before_it_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let of_length = |length: usize| dir.path().join("r".repeat(length - dir.path().as_os_str().len() - 1));
    // With `/kubelet.sock` the path has 107 bytes.
    let root_dir = RootDir::take(&of_length(94)).unwrap();
    drop(root_dir.listen().unwrap());
    let refusal = RootDir::take(&of_length(95)).unwrap_err().to_string();
    assert!(refusal.contains("/kubelet.sock has 108 bytes") && refusal.contains("--root-dir"), "{refusal}");
    assert!(!of_length(95).exists());
}

#[test]
fn a_directory_that_cannot_be_is_named() {
    let refusal = RootDir::take("/proc/none/kubelet".as_ref()).unwrap_err().to_string();
    assert!(refusal.starts_with("cannot make /proc/none/kubelet: "), "{refusal}");
}
