//! What a TLS server shows and whom it believes, made a rustls configuration.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};

/// Certificates and key of a server.
#[derive(Debug)]
pub struct Keys {
    /// The server's certificate first, then those that lead to a root its clients know.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key of the first.
    pub key: PrivateKeyDer<'static>,
    /// Who may sign client certificates; where there is nobody, no client can say who it is.
    pub client_authorities: Vec<CertificateDer<'static>>,
}

/// How a server shakes hands.
#[derive(Debug)]
pub struct Config {
    server: Arc<ServerConfig>,
    /// Who says whether a client's certificate is believed; `None` where none is.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

impl Config {
    /// The same for rustls.
    pub fn server(&self) -> &Arc<ServerConfig> {
        &self.server
    }

    /// Whether an authority stands for a client that has shown these certificates, its own first, at that time.
    pub(super) fn believes(&self, chain: &[CertificateDer<'static>], at: UnixTime) -> bool {
        let Some((own, rest)) = chain.split_first() else { return true };
        self.clients.as_ref().is_some_and(|clients| clients.verify_client_cert(own, rest, at).is_ok())
    }
}

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server's own do not fit together.
    #[error("the serving certificate and its key cannot be used together: {0}")]
    Serving(rustls::Error),
    /// The authorities for clients.
    #[error("a certificate authority for clients cannot be used: {0}")]
    Clients(String),
}

/// TLS 1.2 and newer, HTTP/2 before HTTP/1.1; a client certificate is verified when there is one and never asked of anybody.
///
/// # Errors
/// When key and certificate do not belong together or an authority is none.
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
