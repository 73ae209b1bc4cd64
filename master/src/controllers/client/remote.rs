//! A connection to an API server elsewhere: one, over TLS and HTTP/2, made anew when it breaks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Response, Uri};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ALL_VERSIONS, ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;
use tower::BoxError;
use tower::util::BoxCloneSyncService;

use super::Service;
use crate::kubeconfig::Kubeconfig;

/// How long it may take to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// How often a quiet connection is asked whether it still is one; watches are quiet for hours.
const ASK: Duration = Duration::from_secs(30);
/// HTTP/2, as TLS calls it.
const H2: &[u8] = b"h2";

/// Where a server is, and how to know each other; all PEM.
#[derive(Clone, Debug)]
pub struct Remote<'a> {
    /// `https://HOST:PORT`.
    pub server: &'a str,
    /// The authority of its certificate.
    pub authority: &'a str,
    /// The client's certificate with those between it and its authority.
    pub certificates: &'a str,
    /// The client's key.
    pub key: &'a str,
}

impl<'a> From<&'a Kubeconfig> for Remote<'a> {
    fn from(config: &'a Kubeconfig) -> Self {
        let (certificates, key) = (&config.credentials.certificates, &config.credentials.key);
        Self { server: &config.server, authority: &config.authority, certificates, key }
    }
}

/// Where a server's URL leads.
#[derive(Clone, Debug)]
pub struct Address {
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Both, as they stand in the URL.
    pub authority: Authority,
    /// What its certificate must say.
    pub name: ServerName<'static>,
}

impl Remote<'_> {
    /// Where its URL leads.
    ///
    /// # Errors
    /// When it is none, or names no host.
    pub fn address(&self) -> Result<Address, BoxError> {
        let uri: Uri = self.server.parse()?;
        let authority = uri.authority().cloned().ok_or("the server's URL names no host")?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host.clone())?;
        Ok(Address { port: authority.port_u16().unwrap_or(443), authority, name, host })
    }

    /// How to shake hands in these versions of TLS and speak that protocol (`h2`, `http/1.1`).
    ///
    /// # Errors
    /// When authority, certificate or key cannot be read, or do not belong together.
    pub fn tls(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        protocol: &[u8],
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
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(config)
    }
}

struct Connection {
    address: Address,
    tls: TlsConnector,
    sender: Mutex<Option<SendRequest<Body>>>,
}

/// A service that sends requests there.
///
/// # Errors
/// What of it cannot be used.
pub fn service(remote: &Remote<'_>) -> Result<Service, BoxError> {
    let connection = Arc::new(Connection {
        address: remote.address()?,
        tls: TlsConnector::from(Arc::new(remote.tls(ALL_VERSIONS, H2)?)),
        sender: Mutex::new(None),
    });
    Ok(BoxCloneSyncService::new(tower::service_fn(move |request| {
        let connection = connection.clone();
        async move { connection.send(request).await }
    })))
}

impl Connection {
    async fn send(&self, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let mut sender = self.sender().await?;
        let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        *request.uri_mut() = Uri::builder()
            .scheme(Scheme::HTTPS)
            .authority(self.address.authority.clone())
            .path_and_query(path)
            .build()?;
        Ok(sender.send_request(request).await?.map(Body::new))
    }

    /// The connection, made if there is none that holds.
    async fn sender(&self) -> Result<SendRequest<Body>, BoxError> {
        let mut known = self.sender.lock().await;
        if let Some(sender) = known.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(sender.clone());
        }
        let sender = tokio::time::timeout(CONNECT, self.connect()).await??;
        Ok(known.insert(sender).clone())
    }

    async fn connect(&self) -> Result<SendRequest<Body>, BoxError> {
        let socket = TcpStream::connect((self.address.host.as_str(), self.address.port)).await?;
        let stream = self.tls.connect(self.address.name.clone(), socket).await?;
        if stream.get_ref().1.alpn_protocol() != Some(H2) {
            return Err(io::Error::other("the server does not speak HTTP/2").into());
        }
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(ASK)
            .keep_alive_while_idle(true)
            .handshake(TokioIo::new(stream))
            .await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the connection to the API server broke");
            }
        });
        Ok(sender)
    }
}
