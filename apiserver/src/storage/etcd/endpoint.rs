//! Where an etcd is and how it is to be trusted, from texts and files' bytes to something that can be connected to.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// The port of an etcd when a URL names none.
const PORT: u16 = 2379;

/// One member of an etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
    tls: bool,
}

/// Certificates in PEM, as they lie in files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// The authority that etcd's certificate must be of.
    pub authority: Option<Vec<u8>>,
    /// What is shown to etcd: a certificate chain and its key.
    pub own: Option<(Vec<u8>, Vec<u8>)>,
}

impl Certificates {
    /// Whether connections can be made with them; an authority is needed.
    ///
    /// # Errors
    /// What is wrong with which of them.
    pub fn check(&self) -> Result<(), String> {
        configure(self).map(drop)
    }
}

impl Endpoint {
    /// Reads `https://10.0.0.1:2379`; `http://` goes without TLS.
    ///
    /// # Errors
    /// What is wrong with the text, to be put behind it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wanted = || "is no URL of an etcd, write one like https://10.0.0.1:2379".to_owned();
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
            // A port that is no number is not there for the one who asks, and yet it stands in the text.
            None if authority.as_str().len() == authority.host().len() => PORT,
            None => return Err(wanted()),
        };
        Ok(Self { host: authority.host().to_owned(), port, tls })
    }

    /// Whether it is spoken to over TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// Host and port to connect to; the brackets around an IPv6 address belong to URLs alone.
    pub(super) fn address(&self) -> (&str, u16) {
        (self.host.trim_start_matches('[').trim_end_matches(']'), self.port)
    }

    /// The name its certificate must bear.
    pub(super) fn server_name(&self) -> Result<ServerName<'static>, String> {
        let (host, _) = self.address();
        ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is no name for a certificate"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// How connections are made secret.
///
/// # Errors
/// What is wrong with which of the certificates.
pub(super) fn configure(certificates: &Certificates) -> Result<Arc<ClientConfig>, String> {
    let authority = certificates.authority.as_deref().ok_or(
        "https needs the authority of etcd's certificate: name its file, or write http:// to go without TLS",
    )?;
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(authority) {
        let root = root.map_err(|error| format!("the authority's file does not read: {error}"))?;
        roots.add(root).map_err(|error| format!("the authority is none: {error}"))?;
    }
    if roots.is_empty() {
        return Err("the authority's file holds no certificate".to_owned());
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = match &certificates.own {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
            let chain = chain.map_err(|error| format!("the own certificate does not read: {error}"))?;
            let key = PrivateKeyDer::from_pem_slice(key);
            let key = key.map_err(|error| format!("the own key does not read: {error}"))?;
            let with = builder.with_client_auth_cert(chain, key);
            with.map_err(|error| format!("the own certificate and key cannot be used: {error}"))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
