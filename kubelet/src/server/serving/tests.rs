//! Files that are there, that come, that change and that are damaged.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;

use super::{Files, Serving};

/// A certificate of that name and its key, PEM.
fn pair(name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn files(folder: &Path) -> Files {
    Files { current: folder.join("current.pem"), ..Files::default() }
}

async fn open(files: Files) -> Result<Serving, String> {
    let opened = Serving::open(files, "n1", &["10.0.0.1".parse().unwrap()]).await;
    opened.map(|(serving, _)| serving).map_err(|error| error.to_string())
}

#[tokio::test]
async fn what_changes_is_taken_up_and_what_is_damaged_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let mut serving = open(files.clone()).await.unwrap();
    assert!(serving.changed().await.unwrap().is_none(), "nothing is there");
    let (certificate, key) = pair("first");
    let write = |text: &str| fs::write(&files.current, text).unwrap();
    write(&format!("{certificate}{key}"));
    assert!(serving.changed().await.unwrap().is_some());
    assert!(serving.changed().await.unwrap().is_none(), "it is the same");
    write(&certificate);
    let said = serving.changed().await.unwrap_err().to_string();
    assert!(said.contains("current.pem holds no key"), "{said}");
    let (_, foreign) = pair("second");
    write(&format!("{certificate}{foreign}"));
    let said = serving.changed().await.unwrap_err().to_string();
    assert!(said.contains("cannot be used together"), "{said}");
    write(&format!("{certificate}{key}"));
    assert!(serving.changed().await.unwrap().is_none(), "what was read before is back");
}

#[tokio::test]
async fn a_file_that_somebody_named_must_be_there() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = pair("n1");
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (crt, pem, junk) = (path("a.crt", &certificate), path("a.key", &key), path("junk", "no"));
    let absent = folder.path().join("absent");
    for (given, authorities, expected) in [
        (Some((&crt, &pem)), Some(&crt), None),
        (Some((&absent, &pem)), None, Some("absent: No such file")),
        (Some((&crt, &absent)), None, Some("absent: No such file")),
        (Some((&junk, &pem)), None, Some("junk holds no certificate")),
        (Some((&crt, &junk)), None, Some("junk holds no key")),
        (None, Some(&absent), Some("absent: No such file")),
        (None, Some(&junk), Some("junk holds no certificate")),
    ] {
        let files = Files {
            given: given.map(|(certificate, key)| (certificate.clone(), key.clone())),
            client_authorities: authorities.cloned(),
            ..files(folder.path())
        };
        let said = open(files).await.err();
        assert_eq!(said.is_some(), expected.is_some(), "{said:?}");
        assert!(said.unwrap_or_default().contains(expected.unwrap_or_default()), "{expected:?}");
    }
    let current = path("current.pem", "no");
    open(Files { current, ..Files::default() }).await.expect("what nobody named is made up for");
}
