//! Tests of CAs that are created, provided, interrupted and damaged, with rustls as verifier.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod broken;
mod brought;
mod names;
mod requests;
mod rotated;
mod signed;

use std::fs;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use apiserver::Identity;
use apiserver::tls::Keys;
use jiff::{Timestamp, ToSpan as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use super::{Credentials, Names, Pki};

/// All files, in the order of their creation.
const FILES: [&str; 5] = ["root.key", "root.crt", "intermediate.key", "intermediate.crt", "serving.pem"];

fn now() -> Timestamp {
    Timestamp::now()
}

fn in_days(days: i64) -> Timestamp {
    now() + (days * 24).hours()
}

fn some_names() -> Names {
    Names::of_master("Host-1", "cluster.local", &[IpAddr::from([10, 96, 0, 1])])
}

/// A directory with all files.
fn whole() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    Pki::open(directory.path(), now()).unwrap().serving(&some_names(), now()).unwrap();
    directory
}

/// The contents of the directory, by file name.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
        })
        .collect();
    all.sort();
    all
}

fn server(pki: &Pki, names: &Names) -> Arc<ServerConfig> {
    let serving = pki.serving(names, now()).unwrap();
    let client_cas = pki.client_cas();
    let config = apiserver::tls::config(Keys {
        chain: serving.chain,
        key: serving.key,
        client_authorities: client_cas,
    });
    config.unwrap().server().clone()
}

fn client(root_pem: &str, credentials: Option<&Credentials>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(root_pem.as_bytes()) {
        roots.add(root.unwrap()).unwrap();
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    match credentials {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::pem_slice_iter(own.certificates.as_bytes());
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain.map(Result::unwrap).collect(), key).unwrap()
        }
    }
}

/// Runs a TLS handshake in memory and returns the client's identity.
fn shake(server: Arc<ServerConfig>, client: ClientConfig, name: &str) -> Result<Identity, String> {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(server).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut wire = Vec::new();
        client.write_tls(&mut wire).unwrap();
        server.read_tls(&mut wire.as_slice()).unwrap();
        server.process_new_packets().map_err(|error| format!("server: {error}"))?;
        let mut wire = Vec::new();
        server.write_tls(&mut wire).unwrap();
        client.read_tls(&mut wire.as_slice()).unwrap();
        client.process_new_packets().map_err(|error| format!("client: {error}"))?;
    }
    let first = server.peer_certificates().map(|chain| chain[0].clone());
    Ok(first.and_then(|first| Identity::of_certificate(&first)).unwrap_or_else(Identity::anonymous))
}
