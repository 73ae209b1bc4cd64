//! Who may be which node.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;

use super::Claim;

const ENGINE: &str = "tcp://10.0.0.1:2375";

fn take(directory: &Path, node: &str, endpoint: &str) -> Result<Claim, String> {
    Claim::take_in(directory, node, endpoint, Path::new("/state")).unwrap().map_err(|taken| taken.to_string())
}

#[test]
fn a_name_is_one_kubelets_until_that_one_ends() {
    let folder = tempfile::tempdir().unwrap();
    let first = take(folder.path(), "n", ENGINE).unwrap();
    let refused = take(folder.path(), "n", ENGINE).unwrap_err();
    let holder =
        format!("the node n on {ENGINE}: process {} with --root-dir /state; stop it", std::process::id());
    assert!(refused.contains(&holder), "{refused}");
    drop(first);
    drop(take(folder.path(), "n", ENGINE).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left lying about");
}

#[test]
fn other_names_and_other_engines_are_free() {
    let folder = tempfile::tempdir().unwrap();
    let _first = take(folder.path(), "n", ENGINE).unwrap();
    let _other_name = take(folder.path(), "m", ENGINE).unwrap();
    let _other_engine = take(folder.path(), "n", "tcp://10.0.0.2:2375").unwrap();
}

#[test]
fn a_socket_is_the_same_by_whatever_way() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("run")).unwrap();
    std::os::unix::fs::symlink("run", folder.path().join("var-run")).unwrap();
    let endpoint = |way: &str| format!("unix://{}/{way}/docker.sock", folder.path().display());
    let _first = take(folder.path(), "n", &endpoint("run")).unwrap();
    take(folder.path(), "n", &endpoint("var-run")).unwrap_err();
}

#[test]
fn what_a_killed_kubelet_left_behind_is_no_hindrance() {
    let folder = tempfile::tempdir().unwrap();
    let claim = take(folder.path(), "n", ENGINE).unwrap();
    let lock = claim.path.clone();
    drop(claim);
    fs::write(&lock, "4194304\n/long/gone/and/longer/than/what/comes/now\n").unwrap();
    let _next = take(folder.path(), "n", ENGINE).unwrap();
    assert_eq!(fs::read_to_string(lock).unwrap(), format!("{}\n/state\n", std::process::id()));
}
