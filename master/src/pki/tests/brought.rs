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
fn a_root_from_outside_is_used_as_it_is() {
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
fn the_roots_key_may_stay_elsewhere_once_there_is_an_intermediate() {
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
fn a_certificate_that_may_not_sign_is_no_root() {
    let directory = tempfile::tempdir().unwrap();
    bring_root(directory.path(), false);
    let error = Pki::open(directory.path(), now()).unwrap_err().to_string();
    assert!(error.contains("root.crt") && error.contains("is not a CA"), "{error}");
}
