//! Certificate files that exist, appear, change and are invalid.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use apiserver::tls;
use axum::Router;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

use super::{Files, ServingCertificates};
use crate::local_ca::{self, LocalCa};

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

/// Whether a client that trusts the CA in a file accepts a server with this configuration.
async fn is_accepted(config: Arc<tls::Config>, authority: &Path) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (_swap, config) = watch::channel(config);
    let (_stop, stopped) = watch::channel(false);
    let server = tokio::spawn(async move { tls::serve(listener, Router::new(), config, stopped).await });
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let accepted = TlsConnector::from(Arc::new(client)).connect(name, stream).await.is_ok();
    server.abort();
    accepted
}

#[tokio::test]
async fn local_ca_signs_the_serving_certificate_once_it_exists() {
    let folder = tempfile::tempdir().unwrap();
    let local_ca = local_ca::Files::of(folder.path());
    let files = Files { local_ca: local_ca.clone(), ..files(folder.path()) };
    let mut serving = open(files.clone()).await.unwrap();
    LocalCa::open_or_create(&local_ca, jiff::civil::date(2026, 2, 28)).unwrap();
    let config = serving.changed().await.unwrap().unwrap();
    assert!(is_accepted(config, &local_ca.certificate).await);
    // A damaged key does not stop the server.
    let key = fs::read(&local_ca.key).unwrap();
    fs::write(&local_ca.key, "junk").unwrap();
    let config = serving.changed().await.unwrap().unwrap();
    assert!(!is_accepted(config, &local_ca.certificate).await, "the certificate is self-signed");
    fs::write(&local_ca.key, key).unwrap();
    let (_, config) = ServingCertificates::open(files, "n1", &[]).await.unwrap();
    assert!(is_accepted(config, &local_ca.certificate).await);
}

#[tokio::test]
async fn a_damaged_local_ca_affects_no_other_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = pair("localhost");
    let path = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (crt, pem) = (path("a.crt", &certificate), path("a.key", &key));
    let current = path("current.pem", &format!("{certificate}{key}"));
    let local_ca = local_ca::Files { certificate: path("ca.crt", "junk"), key: folder.path().to_owned() };
    for files in [
        Files { current, cluster_authorities: crt.clone(), ..Files::default() },
        Files {
            configured: Some((crt.clone(), pem)),
            client_authorities: Some(crt.clone()),
            ..Files::default()
        },
    ] {
        let files = Files { local_ca: local_ca.clone(), ..files };
        let (_, config) = ServingCertificates::open(files, "n1", &[]).await.unwrap();
        assert!(is_accepted(config, &crt).await);
    }
}
