//! Discovery files, valid and damaged.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use jiff::ToSpan as _;
use proptest::prelude::*;

use super::*;
use crate::pki::{Names, Pki};

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// The CAs of a cluster, and its discovery file.
fn made() -> (tempfile::TempDir, Pki, String) {
    let directory = tempfile::tempdir().unwrap();
    let pki = Pki::open(directory.path(), now()).unwrap();
    let mut names = Names::default();
    names.add("join.example.com");
    let info = ClusterInfo {
        servers: vec!["https://10.0.0.1:6443".to_owned()],
        authority: pki.root_pem(),
        retiring: String::new(),
    };
    let text = DiscoveryFile::text(&info, &pki.discovery_credentials(&names, now()).unwrap());
    (directory, pki, text)
}

#[test]
fn discovery_file_round_trips() {
    let (_directory, pki, text) = made();
    let read = DiscoveryFile::read(&text, now()).unwrap();
    assert_eq!((read.info.authority, read.hash), (pki.root_pem(), pki.root_hash()));
    assert_eq!(read.serving.chain.len(), 2);
    assert_eq!(read.until, now() + (365 * 24).hours());
}

#[test]
fn discovery_file_rejects_mismatched_key_and_certificate() {
    let ((_one, _, good), (_other, _, foreign)) = (made(), made());
    let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    for (field, from, expected) in [
        (KEY, Some(&foreign), "do not match"),
        (CERTIFICATE, Some(&foreign), "do not match"),
        ("certificateAuthority", Some(&foreign), "does not lead to certificateAuthority"),
        (KEY, None, "contains no key"),
        (CERTIFICATE, None, "contains no certificate"),
        ("servers", None, "names no servers"),
    ] {
        let mut document = read(&good);
        document[field] = from.map_or(Value::Null, |from| read(from)[field].clone());
        let fault = DiscoveryFile::read(&document.to_string(), now()).unwrap_err();
        assert!(fault.contains(expected), "{field}: {fault}");
    }
    let late = DiscoveryFile::read(&good, now() + (366 * 24).hours()).unwrap_err();
    assert!(late.contains("has expired"), "{late}");
}

proptest! {
    #[test]
    fn reader_never_panics(text in any::<String>()) {
        prop_assert!(DiscoveryFile::read(&text, now()).is_err());
    }
}
