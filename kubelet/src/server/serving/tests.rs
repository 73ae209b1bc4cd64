//! Certificate files that exist, appear, change and are invalid.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;

use super::{Files, ServingCertificates};

/// A certificate with that name and its key, as PEM.
fn pair(name: &str) -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn files(folder: &Path) -> Files {
    Files { current: folder.join("current.pem"), ..Files::default() }
}

#[tokio::test]
async fn replaced_certificate_file_is_loaded_at_once() {
    let folder = tempfile::tempdir().unwrap();
    // As in a mounted Secret: the file is a symlink through `..data`, which is swapped.
    let publish = |version: &str, (certificate, key): (String, String)| {
        let data = folder.path().join(version);
        fs::create_dir(&data).unwrap();
        fs::write(data.join("current.pem"), format!("{certificate}{key}")).unwrap();
        std::os::unix::fs::symlink(version, folder.path().join("..tmp")).unwrap();
        fs::rename(folder.path().join("..tmp"), folder.path().join("..data")).unwrap();
    };
    let link = folder.path().join("current.pem");
    std::os::unix::fs::symlink("..data/current.pem", link).unwrap();
    let (serving, config) = ServingCertificates::open(files(folder.path()), "n1", &[]).await.unwrap();
    let (swap, mut config) = tokio::sync::watch::channel(config);
    let task = tokio::spawn(serving.follow(swap));
    for version in ["..1", "..2"] {
        publish(version, pair(version));
        let in_time = tokio::time::timeout(super::RELOAD_INTERVAL / 2, config.changed());
        in_time.await.expect("an event, not the interval").unwrap();
    }
    drop(config);
    tokio::time::timeout(super::RELOAD_INTERVAL / 2, task).await.unwrap().unwrap();
}

async fn open(files: Files) -> Result<ServingCertificates, String> {
    let opened = ServingCertificates::open(files, "n1", &["10.0.0.1".parse().unwrap()]).await;
    opened.map(|(serving, _)| serving).map_err(|error| error.to_string())
}

#[tokio::test]
async fn server_loads_changed_certificates_and_ignores_damaged_ones() {
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
    let message = serving.changed().await.unwrap_err().to_string();
    assert!(message.contains("current.pem contains no readable private key"), "{message}");
    let (_, foreign) = pair("second");
    write(&format!("{certificate}{foreign}"));
    let message = serving.changed().await.unwrap_err().to_string();
    assert!(message.contains("cannot be used together"), "{message}");
    write(&format!("{certificate}{key}"));
    assert!(serving.changed().await.unwrap().is_none(), "what was read before is back");
}

#[tokio::test]
async fn a_configured_certificate_file_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = pair("n1");
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (crt, pem, junk) = (path("a.crt", &certificate), path("a.key", &key), path("junk", "no"));
    let absent = folder.path().join("absent");
    for (configured, authorities, expected) in [
        (Some((&crt, &pem)), Some(&crt), None),
        (Some((&absent, &pem)), None, Some("absent: No such file")),
        (Some((&crt, &absent)), None, Some("absent: No such file")),
        (Some((&junk, &pem)), None, Some("junk contains no certificate")),
        (Some((&crt, &junk)), None, Some("junk contains no readable private key")),
        (None, Some(&absent), Some("absent: No such file")),
        (None, Some(&junk), Some("junk contains no certificate")),
    ] {
        let files = Files {
            configured: configured.map(|(certificate, key)| (certificate.clone(), key.clone())),
            client_authorities: authorities.cloned(),
            ..files(folder.path())
        };
        let message = open(files).await.err();
        assert_eq!(message.is_some(), expected.is_some(), "{message:?}");
        assert!(message.unwrap_or_default().contains(expected.unwrap_or_default()), "{expected:?}");
    }
    let current = path("current.pem", "no");
    open(Files { current, ..Files::default() }).await.expect("default files are created");
}
