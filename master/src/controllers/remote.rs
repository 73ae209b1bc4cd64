//! The address and TLS configuration of a remote server, from a kubeconfig.

use std::sync::Arc;

use client::{Client, transport};
use http::Uri;
use http::uri::Authority;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ALL_VERSIONS, ClientConfig, RootCertStore, SupportedProtocolVersion};
use tower::BoxError;

use crate::kubeconfig::Kubeconfig;

/// Maximum number of idle connections to a server without HTTP/2.
const IDLE_CONNECTIONS: usize = 4;

/// The address of a server, and PEM credentials for mutual TLS.
#[derive(Clone, Debug)]
pub struct Remote<'a> {
    /// The URL of the server, `https://HOST:PORT`.
    pub server: &'a str,
    /// The CA bundle that verifies the server's certificate.
    pub authority: &'a str,
    /// The client certificate chain.
    pub certificates: &'a str,
    /// The client's private key.
    pub key: &'a str,
}

impl<'a> From<&'a Kubeconfig> for Remote<'a> {
    fn from(config: &'a Kubeconfig) -> Self {
        let (certificates, key) = (&config.credentials.certificates, &config.credentials.key);
        Self { server: &config.server, authority: &config.authority, certificates, key }
    }
}

/// The address in a server URL.
#[derive(Clone, Debug)]
pub struct Address {
    /// A DNS name or an IP address, without brackets.
    pub host: String,
    /// The port. It is 443 if the URL has none.
    pub port: u16,
    /// Host and port as in the URL.
    pub authority: Authority,
    /// The name that the server's certificate must contain.
    pub name: ServerName<'static>,
}

impl Remote<'_> {
    /// Parses the server URL.
    ///
    /// # Errors
    /// If the text is not a URL, or has no host.
    pub fn address(&self) -> Result<Address, BoxError> {
        let uri: Uri = self.server.parse()?;
        let authority = uri.authority().cloned().ok_or("the server's URL names no host")?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host.clone())?;
        Ok(Address { port: authority.port_u16().unwrap_or(443), authority, name, host })
    }

    /// Returns the TLS client configuration for the given TLS versions and ALPN protocols (`h2`, `http/1.1`).
    ///
    /// # Errors
    /// If the CA bundle, certificate or key is invalid, or certificate and key do not match.
    pub fn tls(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocols: &[&[u8]],
    ) -> Result<ClientConfig, BoxError> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(self.authority.as_bytes()) {
            roots.add(root?)?;
        }
        let chain = CertificateDer::pem_slice_iter(self.certificates.as_bytes()).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(config)
    }
}

/// Creates a client of the server. It always authenticates with the same client certificate.
///
/// # Errors
/// If the URL, a certificate or the key is invalid.
pub fn connect(remote: &Remote<'_>) -> Result<Client, BoxError> {
    remote.address()?;
    let tls = remote.tls(ALL_VERSIONS, &[b"h2", b"http/1.1"])?;
    let transport = transport::http(tls, IDLE_CONNECTIONS)?;
    Ok(Client::remote(transport, &[remote.server.to_owned()]).with_agent("controllers"))
}
