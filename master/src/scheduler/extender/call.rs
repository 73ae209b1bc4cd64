//! One question to an extender: a connection, a POST of JSON, an answer in time.

use std::sync::Arc;
use std::time::Duration;

use apiserver::tls::Unverified;
use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::BoxError;

/// The longest answer that is read: nodes come back whole, and some tens of kilobytes each.
const MOST_BYTES: usize = 256 * 1024 * 1024;

/// Whom to believe over TLS, and what to show; all PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// The authorities of his certificate; whoever answers is believed where there are none.
    pub authorities: Option<String>,
    /// What his certificate must say, where that is not the host of his URL.
    pub name: String,
    /// What is shown to him: a certificate and its key.
    pub shown: Option<(String, String)>,
}

/// The way to an extender.
#[derive(Clone, Debug)]
pub struct Caller {
    url: String,
    host: String,
    port: u16,
    authority: String,
    path: String,
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    timeout: Duration,
}

impl Caller {
    /// The way to that URL (`http://HOST:PORT/PATH` or https), each question answered within that time.
    ///
    /// # Errors
    /// What of it cannot be used.
    pub fn new(url: &str, trust: &Trust, timeout: Duration) -> Result<Self, BoxError> {
        let url = url.trim_end_matches('/');
        let uri: Uri = url.parse()?;
        let authority = uri.authority().ok_or("write it http://HOST:PORT/PATH or https")?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err("write it http://HOST:PORT/PATH or https".into()),
        };
        let tls = if is_tls {
            let name = if trust.name.is_empty() { host.clone() } else { trust.name.clone() };
            Some((Arc::new(config(trust)?), ServerName::try_from(name)?))
        } else {
            None
        };
        Ok(Self {
            url: url.to_owned(),
            host,
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            authority: authority.to_string(),
            path: uri.path().trim_end_matches('/').to_owned(),
            tls,
            timeout,
        })
    }

    /// The URL below which he is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// His answer to a question.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub async fn ask(&self, verb: &str, question: &(impl Serialize + Sync)) -> Result<Value, String> {
        let shown = format!("{}/{verb}", self.url);
        let lost = |why: &dyn std::fmt::Display| format!("Post {shown:?}: {why}");
        let question = serde_json::to_string(question).map_err(|error| lost(&error))?;
        let asked = tokio::time::timeout(self.timeout, self.post(verb, question)).await;
        let late = format!("no answer within {:?}", self.timeout);
        let (status, answer) = asked.map_err(|_| lost(&late))?.map_err(|error| lost(&error))?;
        if status != StatusCode::OK {
            return Err(format!("failed {verb} with extender at URL {shown}, code {}", status.as_u16()));
        }
        serde_json::from_slice(&answer).map_err(|error| lost(&format!("the answer is no JSON: {error}")))
    }

    async fn post(&self, verb: &str, body: String) -> Result<(StatusCode, Bytes), BoxError> {
        let socket = TcpStream::connect((self.host.as_str(), self.port)).await?;
        socket.set_nodelay(true)?;
        match &self.tls {
            None => self.post_on(socket, verb, body).await,
            Some((config, name)) => {
                let stream = TlsConnector::from(config.clone()).connect(name.clone(), socket).await?;
                self.post_on(stream, verb, body).await
            }
        }
    }

    async fn post_on(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        verb: &str,
        body: String,
    ) -> Result<(StatusCode, Bytes), BoxError> {
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::post(format!("{}/{verb}", self.path))
            .header(header::HOST, &self.authority)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        Ok((status, Limited::new(response.into_body(), MOST_BYTES).collect().await?.to_bytes()))
    }
}

fn config(trust: &Trust) -> Result<ClientConfig, BoxError> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match &trust.authorities {
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        Some(authorities) => {
            let mut roots = RootCertStore::empty();
            for root in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
                roots.add(root?)?;
            }
            builder.with_root_certificates(roots)
        }
    };
    let Some((certificates, key)) = &trust.shown else { return Ok(builder.with_no_client_auth()) };
    let chain = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect::<Result<_, _>>()?;
    Ok(builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?)
}
