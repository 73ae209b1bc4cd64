//! etcd endpoints and TLS configuration.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// Default port of etcd.
const PORT: u16 = 2379;

/// Endpoint of an etcd member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    tls: bool,
}

/// TLS certificates in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The CA of etcd's server certificates.
    pub authority: Option<Vec<u8>>,
    /// Client certificate chain and key.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    /// Checks that the certificates are usable. A CA is required.
    ///
    /// # Errors
    /// If a certificate is invalid. The error names it and the reason.
    pub fn check(&self) -> Result<(), String> {
        configure(self).map(drop)
    }
}

impl Endpoint {
    /// Parses a URL such as `https://10.0.0.1:2379`. `http://` disables TLS.
    ///
    /// # Errors
    /// If the URL is invalid. The error starts with a verb, so that the caller can prepend the URL.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wanted = || "is not an etcd URL, use one like https://10.0.0.1:2379".to_owned();
        let uri: http::Uri = text.parse().map_err(|_| wanted())?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wanted()),
        };
        let authority = uri.authority().ok_or_else(wanted)?;
        if authority.host().is_empty() || authority.as_str().contains('@') || !matches!(uri.path(), "" | "/")
        {
            return Err(wanted());
        }
        let port = match authority.port_u16() {
            Some(0) => return Err(wanted()),
            Some(port) => port,
            // An invalid port is reported as absent although it is in the text.
            None if authority.as_str().len() == authority.host().len() => PORT,
            None => return Err(wanted()),
        };
        Ok(Self { host: authority.host().to_owned(), port, tls })
    }

    /// Whether TLS is used.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The host and port of the connection. An IPv6 address has no brackets.
    pub(super) fn address(&self) -> (&str, u16) {
        (self.host.trim_start_matches('[').trim_end_matches(']'), self.port)
    }

    /// The name that the server certificate must contain.
    pub(super) fn server_name(&self) -> Result<ServerName<'static>, String> {
        let (host, _) = self.address();
        ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is not a valid server name"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// Builds the TLS client configuration.
///
/// # Errors
/// If a certificate is invalid. The error names it and the reason.
pub(super) fn configure(certificates: &Certificates) -> Result<Arc<ClientConfig>, String> {
    let authority = certificates.authority.as_deref().ok_or(
        "https requires the CA of etcd's certificate: specify the CA file, or use http:// to disable TLS",
    )?;
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(authority) {
        let root = root.map_err(|error| format!("cannot parse the CA file: {error}"))?;
        roots.add(root).map_err(|error| format!("invalid CA certificate: {error}"))?;
    }
    if roots.is_empty() {
        return Err("the CA file contains no certificate".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match &certificates.own {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
            let chain = chain.map_err(|error| format!("cannot parse the client certificate: {error}"))?;
            let key = PrivateKeyDer::from_pem_slice(key);
            let key = key.map_err(|error| format!("cannot parse the client key: {error}"))?;
            let with = builder.with_client_auth_cert(chain, key);
            with.map_err(|error| format!("the client certificate and key cannot be used: {error}"))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
