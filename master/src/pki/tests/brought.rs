//! Tests of CAs that an administrator provides.

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, PKCS_ECDSA_P384_SHA384};

use super::super::der;
use super::*;

/// A root with another key type, whose name repeats an attribute.
fn bring_root(directory: &Path, authority: bool) {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let mut params = CertificateParams::default();
    if authority {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    let name = der::name("Example Root", &["example".to_owned(), "com".to_owned()]);
    let made = params.self_signed(&key).unwrap();
    let renamed = der::rename(made.der(), &name, &name, &key).unwrap();
    fs::write(directory.join("root.crt"), super::super::pem_of(&[renamed.into()])).unwrap();
    fs::write(directory.join("root.key"), key.serialize_pem()).unwrap();
}

#[test]
fn root_ca_of_the_administrator_is_used_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    bring_root(directory.path(), true);
    let before = contents(directory.path());
    let pki = Pki::open(directory.path(), now()).unwrap();
    let jane = pki.client("jane", &[], now()).unwrap();
    let seen = shake(server(&pki, &some_names()), client(&pki.root_pem(), Some(&jane)), "localhost");
    assert_eq!(seen.unwrap().user, "jane");
    assert!(before.iter().all(|file| contents(directory.path()).contains(file)));
}

#[test]
fn root_key_is_not_needed_while_an_intermediate_ca_exists() {
    let directory = whole();
    fs::remove_file(directory.path().join("root.key")).unwrap();
    let pki = Pki::open(directory.path(), now()).unwrap();
    shake(server(&pki, &some_names()), client(&pki.root_pem(), None), "localhost").unwrap();
    for file in ["intermediate.key", "intermediate.crt"] {
        fs::remove_file(directory.path().join(file)).unwrap();
    }
    let error = Pki::open(directory.path(), now()).unwrap_err().to_string();
    assert!(error.contains("root.key") && error.contains("intermediate"), "{error}");
}

#[test]
fn certificate_without_the_ca_flag_is_rejected_as_root() {
    let directory = tempfile::tempdir().unwrap();
    bring_root(directory.path(), false);
    let error = Pki::open(directory.path(), now()).unwrap_err().to_string();
    assert!(error.contains("root.crt") && error.contains("is not a CA"), "{error}");
}
