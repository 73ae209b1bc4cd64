//! Tests of issued certificates: servers that clients trust, and users with all groups.

use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::*;

#[test]
fn certificates_have_the_names_of_the_server_and_all_groups_of_a_client() {
    let directory = whole();
    let pki = Pki::open(directory.path(), now()).unwrap();
    let server = server(&pki, &some_names());
    let root = pki.root_pem();
    for name in
        ["localhost", "127.0.0.1", "::1", "host-1", "kubernetes.default.svc.cluster.local", "10.96.0.1"]
    {
        assert!(shake(server.clone(), client(&root, None), name).unwrap().is_anonymous(), "{name}");
    }
    for name in ["other", "127.0.0.2", "kubernetes.default.svc.cluster.com"] {
        assert!(shake(server.clone(), client(&root, None), name).unwrap_err().starts_with("client:"));
    }
    let groups = ["a", "b", "system:masters", "ü/é"].map(str::to_owned);
    let jane = pki.client("jane", &groups, now()).unwrap();
    let seen = shake(server.clone(), client(&root, Some(&jane)), "localhost").unwrap();
    assert_eq!((seen.user.as_str(), &seen.groups[..4]), ("jane", &groups[..]));
    // A client that sends only its own certificate is accepted too.
    let end = jane.certificates.find("-----END").unwrap() + "-----END CERTIFICATE-----\n".len();
    let alone = Credentials { certificates: jane.certificates[..end].to_owned(), ..jane };
    assert_eq!(shake(server, client(&root, Some(&alone)), "localhost").unwrap().user, "jane");
}

#[test]
fn certificates_of_another_cluster_are_rejected() {
    let (one, other) = (whole(), whole());
    let one = Pki::open(one.path(), now()).unwrap();
    let other = Pki::open(other.path(), now()).unwrap();
    let server = server(&one, &some_names());
    let stranger = other.client("jane", &["system:masters".to_owned()], now()).unwrap();
    let refused = shake(server.clone(), client(&one.root_pem(), Some(&stranger)), "localhost").unwrap_err();
    assert!(refused.starts_with("server:"), "{refused}");
    let refused = shake(server, client(&other.root_pem(), None), "localhost").unwrap_err();
    assert!(refused.starts_with("client:"), "{refused}");
    assert_ne!(one.root_hash(), other.root_hash());
}

#[test]
fn serving_and_expired_certificates_authenticate_no_client() {
    let directory = whole();
    let pki = Pki::open(directory.path(), now()).unwrap();
    let server = server(&pki, &some_names());
    let text = fs::read_to_string(directory.path().join("serving.pem")).unwrap();
    let own = Credentials { certificates: text.clone(), key: text };
    let expired = pki.client("old", &[], in_days(-400)).unwrap();
    let early = pki.client("early", &[], in_days(2)).unwrap();
    for wrong in [own, expired, early] {
        let seen = shake(server.clone(), client(&pki.root_pem(), Some(&wrong)), "localhost");
        assert!(seen.as_ref().is_err_and(|refused| refused.starts_with("server:")), "{seen:?}");
    }
}

#[test]
fn certificates_are_renewed_when_they_expire_or_the_names_change() {
    let directory = whole();
    let before = contents(directory.path());
    let pki = Pki::open(directory.path(), in_days(200)).unwrap();
    assert!(!pki.serving(&some_names(), in_days(200)).unwrap().is_new);
    assert_eq!(contents(directory.path()), before);
    let mut more = some_names();
    more.add("api.example.com");
    assert!(pki.serving(&more, now()).unwrap().is_new);
    assert!(!pki.serving(&more, now()).unwrap().is_new);
    assert!(pki.serving(&more, in_days(300)).unwrap().is_new, "less than a third of its life is left");
    assert_eq!(contents(directory.path())[..4], before[..4], "authorities stay");
}

#[test]
fn private_keys_are_readable_only_by_their_owner() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/pki");
    Pki::open(&path, now()).unwrap().serving(&some_names(), now()).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for file in FILES {
        let expected = if file.ends_with(".crt") { 0o644 } else { 0o600 };
        assert_eq!(mode(&path.join(file)), expected, "{file}");
    }
}

#[test]
fn reading_a_pki_creates_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let refused = Pki::read(directory.path(), now()).unwrap_err().to_string();
    assert!(refused.contains("root.crt") && refused.contains("master run"), "{refused}");
    assert_eq!(contents(directory.path()), []);
    let directory = whole();
    let pki = Pki::read(directory.path(), now()).unwrap();
    assert_eq!(pki.root_hash(), Pki::open(directory.path(), now()).unwrap().root_hash());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// DER changes the encoding of lengths around 127 and 255 bytes.
    #[test]
    fn certificate_round_trips_any_user_and_group_names(
        user in "\\PC{1,300}",
        groups in prop::collection::hash_set("\\PC{1,140}", 0..12),
    ) {
        let key = rcgen::KeyPair::generate().unwrap();
        let root = super::super::ca::Ca::root("r", key, now()).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let groups: Vec<String> = groups.into_iter().collect();
        let signed =
            root.sign(&user, &groups, &super::super::ca::Purpose::Client, &key, now()).unwrap();
        let read = Identity::of_certificate(&signed).map(|read| (read.user, read.groups));
        let expected = Identity::authenticated(user, groups);
        prop_assert_eq!(read, Some((expected.user, expected.groups)));
        let (rest, _) = X509Certificate::from_der(&signed).unwrap();
        prop_assert!(rest.is_empty());
        prop_assert!(apiserver::tls::is_signed_by(&signed, root.certificate()));
    }
}
