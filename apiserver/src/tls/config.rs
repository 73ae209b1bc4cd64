//! Converts a server certificate and a client CA bundle to a rustls configuration.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Certificates and key of a server.
#[derive(Debug)]
pub struct Keys {
    /// The chain, server certificate first.
    pub chain: Vec<CertificateDer<'static>>,
    /// Private key.
    pub key: PrivateKeyDer<'static>,
    /// Client CA bundle. If empty, client certificates are not requested.
    pub client_authorities: Vec<CertificateDer<'static>>,
}

/// TLS configuration of a server.
#[derive(Debug)]
pub struct Config {
    server: Arc<ServerConfig>,
    /// Verifier of client certificates, or `None` without a client CA bundle.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

impl Config {
    /// The rustls configuration.
    pub fn server(&self) -> &Arc<ServerConfig> {
        &self.server
    }

    /// Whether the client CA bundle trusts this chain (client certificate first) at a time.
    pub(super) fn trusts(&self, chain: &[CertificateDer<'static>], at: UnixTime) -> bool {
        let Some((own, rest)) = chain.split_first() else { return true };
        self.clients.as_ref().is_some_and(|clients| clients.verify_client_cert(own, rest, at).is_ok())
    }
}

/// The reason why certificates are unusable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Server certificate and key do not match.
    #[error("the serving certificate and its key cannot be used together: {0}")]
    Serving(rustls::Error),
    /// A client CA is invalid.
    #[error("a certificate authority for clients cannot be used: {0}")]
    Clients(String),
}

/// Builds the configuration. It has TLS 1.2 and newer, prefers HTTP/2, and makes client certificates optional.
///
/// # Errors
/// If key and certificate do not match, or a CA is invalid.
pub fn config(keys: Keys) -> Result<Arc<Config>, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for authority in keys.client_authorities {
        roots.add(authority).map_err(|error| Error::Clients(error.to_string()))?;
    }
    let clients = if roots.is_empty() {
        None
    } else {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let verifier = verifier.allow_unauthenticated().build();
        Some(verifier.map_err(|error| Error::Clients(error.to_string()))?)
    };
    let verifier = clients.clone().unwrap_or_else(WebPkiClientVerifier::no_client_auth);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(Error::Serving)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(keys.chain, keys.key)
        .map_err(Error::Serving)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(Config { server: Arc::new(config), clients }))
}
