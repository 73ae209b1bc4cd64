//! How long one waits for another to choose.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::io::ErrorKind;
use std::time::Duration;

use super::lock_within;

#[test]
fn a_lock_that_somebody_keeps_is_waited_for_no_longer_than_its_limit() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coracle/network.lock");
    let take = || lock_within(&path, Duration::from_millis(50));
    let held = take().unwrap();
    assert!(held.is_some());
    let error = take().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(error.to_string().contains(&format!("fuser {}", path.display())), "{error}");
    drop(held);
    assert!(take().unwrap().is_some());
}
