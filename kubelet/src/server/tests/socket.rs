//! Lock and socket of the root directory.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;

use crate::server::RootDir;

#[tokio::test]
async fn unix_socket_is_accessible_only_by_its_owner() {
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
async fn second_kubelet_is_rejected_until_the_first_exits() {
    let dir = tempfile::tempdir().unwrap();
    let first = RootDir::take(dir.path()).unwrap();
    let refusal = RootDir::take(dir.path()).unwrap_err().to_string();
    assert!(refusal.starts_with("another kubelet runs on "), "{refusal}");
    assert!(refusal.contains("--root-dir"), "{refusal}");
    drop(first);
    RootDir::take(dir.path()).unwrap();
}

#[tokio::test]
async fn stale_unix_socket_is_replaced() {
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
async fn root_dir_too_long_for_its_socket_is_rejected_before_creation() {
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
fn error_names_a_root_dir_that_cannot_be_created() {
    let refusal = RootDir::take("/proc/none/kubelet".as_ref()).unwrap_err().to_string();
    assert!(refusal.starts_with("cannot make /proc/none/kubelet: "), "{refusal}");
}
