//! The approval webhook: one HTTPS request with mutual TLS per decision.

use std::time::Duration;

use bytes::Bytes;
use client::Error;
use client::transport::{self, Transport};
use http::uri::Scheme;
use http::{Request, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use rustls::ALL_VERSIONS;
use serde_json::Value;
use tower::{BoxError, ServiceExt as _};

use crate::controllers::remote::Remote;
use crate::kubeconfig::Kubeconfig;

/// How long the webhook may take to respond, including the connection. Nodes wait longer for their certificate.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of a response. It is a decision and a sentence.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug)]
pub struct Webhook {
    config: Kubeconfig,
    transport: Transport,
}

impl Webhook {
    /// Creates a webhook from the server URL of a kubeconfig, including its path.
    ///
    /// # Errors
    /// If the server is not an https URL, or the CA, certificate or key is invalid.
    pub fn new(config: Kubeconfig) -> Result<Self, BoxError> {
        let remote = Remote::from(&config);
        let named = |error: BoxError| format!("its server \"{}\": {error}", config.server);
        remote.address().map_err(named)?;
        if config.server.parse::<Uri>()?.scheme() != Some(&Scheme::HTTPS) {
            return Err(named("write it https://HOST:PORT/PATH".into()).into());
        }
        let tls = remote.tls(ALL_VERSIONS, &[b"http/1.1"]);
        let tls = tls.map_err(|error| format!("its certificates or key: {error}"))?;
        // Requests are rare, so no connection stays open.
        let transport = transport::http(tls, 0)?;
        Ok(Self { config, transport })
    }

    /// Posts a review and returns the decision.
    ///
    /// # Errors
    /// If the webhook does not respond. The caller retries.
    pub async fn ask(&self, question: &Value) -> Result<Value, Error> {
        let lost = |source: BoxError| Error::Webhook { server: self.config.server.clone(), source };
        let join = tokio::time::timeout(RESPONSE_TIMEOUT, self.post(question.to_string())).await;
        let answer = join.map_err(|late| lost(late.into()))?.map_err(lost)?;
        serde_json::from_slice(&answer).map_err(|error| lost(format!("with JSON: {error}").into()))
    }

    async fn post(&self, body: String) -> Result<Bytes, BoxError> {
        let request = Request::post(&self.config.server)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .body(Bytes::from(body))?;
        let response = self.transport.clone().oneshot(request).await?;
        if !response.status().is_success() {
            return Err(format!("the webhook returned {}", response.status()).into());
        }
        Ok(Limited::new(response.into_body(), MAX_RESPONSE_BYTES).collect().await?.to_bytes())
    }
}
