//! Tests of CA rotation: two trusted roots, interruptions, and a new intermediate CA.

use super::super::rotate::{self, RETIRING, begin, renew_intermediate, retire};
use super::*;

/// The files of a directory, without subdirectories.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn knows(server: &Arc<ServerConfig>, root: &str, who: Option<&Credentials>) -> Result<String, String> {
    shake(server.clone(), client(root, who), "localhost").map(|seen| seen.user)
}

#[test]
fn both_root_cas_are_trusted_until_the_old_one_is_retired() {
    let directory = whole();
    let path = directory.path();
    let old = Pki::open(path, now()).unwrap();
    let (old_root, old_jane) = (old.root_pem(), old.client("jane", &[], now()).unwrap());
    let before = server(&old, &some_names());
    begin(path, now()).unwrap();
    let both = Pki::open(path, now()).unwrap();
    let (new_root, new_jane) = (both.root_pem(), both.client("jane", &[], now()).unwrap());
    assert_ne!(old.root_hash(), both.root_hash());
    assert_eq!(both.trust_bundle_pem(), format!("{new_root}{old_root}"));
    let during = server(&both, &some_names());
    for root in [&old_root, &new_root, &both.trust_bundle_pem()] {
        for who in [&old_jane, &new_jane] {
            assert_eq!(knows(&during, root, Some(who)).unwrap(), "jane");
        }
    }
    // A master that has not reloaded still knows certificates issued meanwhile.
    assert_eq!(knows(&before, &old_root, Some(&new_jane)).unwrap(), "jane");
    assert!(begin(path, now()).unwrap_err().to_string().contains("--retire"));

    assert!(retire(path).unwrap() && !retire(path).unwrap());
    let new = Pki::open(path, now()).unwrap();
    assert_eq!((new.root_pem(), new.trust_bundle_pem()), (new_root.clone(), new_root.clone()));
    let after = server(&new, &some_names());
    assert_eq!(knows(&after, &new_root, Some(&new_jane)).unwrap(), "jane");
    assert!(knows(&after, &old_root, None).unwrap_err().starts_with("client:"));
    assert!(knows(&after, &new_root, Some(&old_jane)).unwrap_err().starts_with("server:"));
    // A second rotation.
    begin(path, now()).unwrap();
    assert_ne!(Pki::open(path, now()).unwrap().root_hash(), both.root_hash());
}

#[test]
fn a_kill_between_any_two_steps_is_completed() {
    let (directory, rotated) = (whole(), tempfile::tempdir().unwrap());
    copy(directory.path(), rotated.path());
    begin(rotated.path(), now()).unwrap();
    let expected = Pki::open(rotated.path(), now()).unwrap().root_hash();
    let moved = [RETIRING, "root.key", "root.crt", "intermediate.key", "intermediate.crt"];
    for done in 0..=moved.len() {
        let cut = tempfile::tempdir().unwrap();
        copy(directory.path(), cut.path());
        fs::create_dir(cut.path().join("next")).unwrap();
        for (at, name) in moved.iter().enumerate() {
            let to = if at < done { cut.path().join(name) } else { cut.path().join("next").join(name) };
            fs::copy(rotated.path().join(name), to).unwrap();
        }
        let found = if done % 2 == 0 { Pki::open(cut.path(), now()) } else { Pki::read(cut.path(), now()) };
        assert_eq!(found.unwrap().root_hash(), expected, "after {done} moves");
        assert!(!cut.path().join("next").exists());
    }
    // Before the staging is complete, nothing has changed.
    let early = tempfile::tempdir().unwrap();
    copy(directory.path(), early.path());
    fs::create_dir(early.path().join("next.tmp")).unwrap();
    fs::write(early.path().join("next.tmp/root.key"), "half").unwrap();
    assert_ne!(Pki::open(early.path(), now()).unwrap().root_hash(), expected);
    begin(early.path(), now()).unwrap();
}

#[test]
fn a_renewed_intermediate_ca_keeps_certificates_valid() {
    let directory = whole();
    let path = directory.path();
    let old = Pki::open(path, now()).unwrap();
    let jane = old.client("jane", &[], now()).unwrap();
    let shown = old.serving(&some_names(), now()).unwrap().chain;
    let before = rotate::intermediates_below_root(path);
    assert_eq!(before.len(), 1);
    renew_intermediate(path, now()).unwrap();
    // Both intermediate CAs are listed.
    let both = rotate::intermediates_below_root(path);
    assert!(both.len() == 2 && both[0] != before[0] && both[1] == before[0]);
    let new = Pki::open(path, now()).unwrap();
    assert_eq!((old.root_pem(), old.root_hash()), (new.trust_bundle_pem(), new.root_hash()));
    assert_eq!(knows(&server(&new, &some_names()), &old.root_pem(), Some(&jane)).unwrap(), "jane");
    assert_ne!(new.serving(&some_names(), now()).unwrap().chain[1], shown[1]);
}

#[test]
fn a_pki_that_cannot_be_rotated_is_an_error_and_stays_unchanged() {
    let directory = whole();
    let path = directory.path();
    fs::rename(path.join("root.key"), path.join("elsewhere")).unwrap();
    let before = contents(path);
    for refused in [begin(path, now()), renew_intermediate(path, now())] {
        assert!(refused.unwrap_err().to_string().contains("put the key of root.crt there"));
    }
    assert_eq!(contents(path), before);
    assert!(begin(tempfile::tempdir().unwrap().path(), now()).is_err());
    // A foreign certificate in place of the old root is not trusted.
    let other = whole();
    fs::copy(other.path().join("root.crt"), path.join(RETIRING)).unwrap();
    assert!(
        Pki::open(path, now()).unwrap_err().to_string().contains("contains no old root that signed root.crt")
    );
    fs::remove_file(path.join(RETIRING)).unwrap();
    rotate::complete(path).unwrap();
}

#[test]
fn intermediate_of_an_old_root_is_not_below_the_new_root() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    Pki::open(path, now()).unwrap();
    renew_intermediate(path, now()).unwrap();
    let old = rotate::intermediates_below_root(path);
    begin(path, now()).unwrap();
    let new = rotate::intermediates_below_root(path);
    assert!(new.len() == 1 && old.len() == 2 && !old.contains(&new[0]));
    renew_intermediate(path, now()).unwrap();
    let both = rotate::intermediates_below_root(path);
    assert!(both.len() == 2 && both[1] == new[0]);
}
