//! Asks somebody outside the cluster over TLS: one question, one connection, each of them known to the other by a kubeconfig.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ALL_VERSIONS;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower::BoxError;

use crate::controllers::client::{Error, Remote};
use crate::kubeconfig::Kubeconfig;

/// How long an answer may take, the connection included; a node waits for longer than that anyway.
const ANSWER: Duration = Duration::from_secs(30);
/// The longest answer that is read: it is a word and a sentence.
const LONGEST_BYTES: usize = 64 * 1024;

/// Who is asked.
#[derive(Clone, Debug)]
pub struct Webhook {
    config: Kubeconfig,
}

impl Webhook {
    /// Whom a kubeconfig names: its server, with a path, is where questions are posted.
    ///
    /// # Errors
    /// When its server is no https URL, or authority, certificate or key cannot be used.
    pub fn new(config: Kubeconfig) -> Result<Self, BoxError> {
        let remote = Remote::from(&config);
        let named = |error: BoxError| format!("its server \"{}\": {error}", config.server);
        remote.address().map_err(named)?;
        if config.server.parse::<Uri>()?.scheme() != Some(&Scheme::HTTPS) {
            return Err(named("write it https://HOST:PORT/PATH".into()).into());
        }
        remote.tls(ALL_VERSIONS, b"http/1.1").map_err(|error| format!("its certificates or key: {error}"))?;
        Ok(Self { config })
    }

    /// The answer to a question.
    ///
    /// # Errors
    /// When there is none: ask again.
    pub async fn ask(&self, question: &Value) -> Result<Value, Error> {
        let lost = |source: BoxError| Error::Webhook { server: self.config.server.clone(), source };
        let asked = tokio::time::timeout(ANSWER, self.post(question.to_string())).await;
        let answer = asked.map_err(|late| lost(late.into()))?.map_err(lost)?;
        serde_json::from_slice(&answer).map_err(|error| lost(format!("with JSON: {error}").into()))
    }

    async fn post(&self, body: String) -> Result<Bytes, BoxError> {
        let remote = Remote::from(&self.config);
        let (address, uri) = (remote.address()?, self.config.server.parse::<Uri>()?);
        let tls = TlsConnector::from(Arc::new(remote.tls(ALL_VERSIONS, b"http/1.1")?));
        let socket = TcpStream::connect((address.host.as_str(), address.port)).await?;
        let stream = tls.connect(address.name.clone(), socket).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::post(path)
            .header(header::HOST, address.authority.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let response = sender.send_request(request).await?;
        if !response.status().is_success() {
            return Err(format!("it says {}", response.status()).into());
        }
        Ok(Limited::new(response.into_body(), LONGEST_BYTES).collect().await?.to_bytes())
    }
}
