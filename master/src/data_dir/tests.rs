//! Tests of the data directory.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use jiff::{Timestamp, ToSpan as _};

use super::*;

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn second_master_cannot_open_a_locked_directory() {
    let folder = tempfile::tempdir().unwrap();
    let directory = DataDir::at(&folder.path().join("deep/master"));
    let lock = directory.take().unwrap();
    assert!(directory.take().unwrap_err().to_string().contains("another master is running on"));
    drop(lock);
    directory.take().unwrap();
}

#[test]
fn master_id_is_stable_while_its_file_is_readable() {
    let folder = tempfile::tempdir().unwrap();
    let directory = DataDir::at(folder.path());
    let path = folder.path().join(ID);
    let first = directory.id();
    assert_eq!(directory.id(), first);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, files::SECRET);
    let other = tempfile::tempdir().unwrap();
    assert_ne!(DataDir::at(other.path()).id(), first);
    for damaged in ["", &first[..9], "master\n"] {
        fs::write(&path, damaged).unwrap();
        let made = directory.id();
        assert_ne!(made, first);
        assert_eq!(directory.id(), made, "{damaged:?}");
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_ne!(directory.id(), directory.id(), "it runs, and is another one next time");
}

#[test]
fn admin_kubeconfig_is_replaced_only_if_it_is_no_longer_valid() {
    let folder = tempfile::tempdir().unwrap();
    let directory = DataDir::at(folder.path());
    let now = Timestamp::now();
    let pki = directory.open_pki(now).unwrap();
    let admin = folder.path().join(ADMIN);
    let admit = |server: &str, days: i64| {
        directory.admit(&pki, address(server), now + (days * 24).hours()).unwrap();
        fs::read_to_string(&admin).unwrap()
    };
    let first = admit("127.0.0.1:1", 0);
    // Changes by a user are kept.
    fs::write(&admin, format!("# mine\n{first}")).unwrap();
    assert_eq!(admit("127.0.0.1:1", 200), format!("# mine\n{first}"));
    let bootstrap = fs::read_to_string(folder.path().join(BOOTSTRAP)).unwrap();
    assert!(bootstrap.contains(BESIDE_MASTER) && !bootstrap.contains(ADMIN_USER), "{bootstrap}");
    let renewed = admit("127.0.0.1:1", 300);
    assert_ne!(fs::read_to_string(folder.path().join(BOOTSTRAP)).unwrap(), bootstrap);
    assert_ne!(renewed, first, "less than a third of its life was left");
    assert!(admit("[::1]:1", 300).contains("https://[::1]:1"));
    // This file is not edited by users, so a damaged one does not prevent the start.
    for damaged in ["", &bootstrap[..bootstrap.len() / 2]] {
        fs::write(folder.path().join(BOOTSTRAP), damaged).unwrap();
        assert_eq!(directory.admit(&pki, address("[::1]:1"), now).unwrap(), [BOOTSTRAP]);
        assert!(fs::read_to_string(folder.path().join(BOOTSTRAP)).unwrap().contains(BESIDE_MASTER));
    }
    let rejecting = directory.clone().letting_in(false);
    for _ in 0..2 {
        assert!(rejecting.admit(&pki, address("[::1]:1"), now).unwrap().is_empty());
        assert!(!folder.path().join(BOOTSTRAP).exists());
    }
    fs::write(&admin, &first[..first.len() / 2]).unwrap();
    let refused = directory.admit(&pki, address("127.0.0.1:1"), now).unwrap_err().to_string();
    assert!(refused.contains(ADMIN) && refused.contains("nothing was changed"), "{refused}");
}

#[test]
fn join_strings_pin_the_root_and_need_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let directory = DataDir::at(folder.path());
    let now = Timestamp::now();
    let pki = directory.open_pki(now).unwrap();
    for content in [None, Some(""), Some("here\n"), Some("10.0.0.1\n")] {
        if let Some(content) = content {
            fs::write(folder.path().join(ADDRESS), content).unwrap();
        }
        let refused = directory.join_string(now).unwrap_err().to_string();
        assert!(refused.contains(ADDRESS) && refused.contains("master run"), "{content:?}: {refused}");
    }
    directory.advertise(address("[fd00::1]:6443")).unwrap();
    let expected = format!("https://[fd00::1]:6443#sha256:{}", pki.root_hash());
    assert_eq!(directory.join_string(now).unwrap(), expected);
    assert!(directory.kubeconfig("", &[], now).is_err());
}
