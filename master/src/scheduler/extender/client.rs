//! HTTP client of a scheduler extender: one JSON POST per call.

use std::sync::Arc;
use std::time::Duration;

use apiserver::tls::Unverified;
use bytes::Bytes;
use client::root_cause;
use client::transport::{self, Transport};
use http::uri::Scheme;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::Serialize;
use serde_json::Value;
use tower::{BoxError, ServiceExt as _};

/// Maximum size of a response. It may contain whole Node objects of some tens of kilobytes each.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// TLS settings of an extender, as PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// CA bundle for the server certificate. If it is `None`, the certificate is not verified.
    pub authorities: Option<String>,
    /// Server name to verify, if it differs from the host of the URL.
    pub name: String,
    /// Client certificate and key.
    pub shown: Option<(String, String)>,
}

/// Calls one extender.
#[derive(Clone, Debug)]
pub struct ExtenderClient {
    url: String,
    transport: Transport,
    timeout: Duration,
}

impl ExtenderClient {
    /// Creates a client for a URL prefix (`http://HOST:PORT/PATH` or https). `timeout` applies to each call.
    ///
    /// # Errors
    /// If the URL or the TLS settings are invalid.
    pub fn new(url: &str, trust: &TlsConfig, timeout: Duration) -> Result<Self, BoxError> {
        let url = url.trim_end_matches('/');
        let uri: Uri = url.parse()?;
        let is_known =
            |scheme: &Scheme| uri.host().is_some() && [Scheme::HTTP, Scheme::HTTPS].contains(scheme);
        if !uri.scheme().is_some_and(is_known) {
            return Err("write it http://HOST:PORT/PATH or https".into());
        }
        // Connections are not kept, so a restarted extender needs no retry.
        let transport = transport::http(config(trust)?, 0)?;
        Ok(Self { url: url.to_owned(), transport, timeout })
    }

    /// The URL prefix.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Sends a POST request to the verb and returns the response body.
    ///
    /// # Errors
    /// If the call fails, times out or returns a status other than 200.
    pub async fn call(&self, verb: &str, question: &(impl Serialize + Sync)) -> Result<Value, String> {
        let shown = format!("{}/{verb}", self.url);
        let lost = |why: &dyn std::fmt::Display| format!("Post {shown:?}: {why}");
        let question = serde_json::to_string(question).map_err(|error| lost(&error))?;
        let outcome = tokio::time::timeout(self.timeout, self.post(&shown, question)).await;
        let late = format!("no answer within {:?}", self.timeout);
        let (status, answer) =
            outcome.map_err(|_| lost(&late))?.map_err(|error| lost(&root_cause(error.as_ref())))?;
        if status != StatusCode::OK {
            return Err(format!("failed {verb} with extender at URL {shown}, code {}", status.as_u16()));
        }
        serde_json::from_slice(&answer).map_err(|error| lost(&format!("the response is not JSON: {error}")))
    }

    async fn post(&self, url: &str, body: String) -> Result<(StatusCode, Bytes), BoxError> {
        let request =
            Request::post(url).header(header::CONTENT_TYPE, "application/json").body(Bytes::from(body))?;
        let response = self.transport.clone().oneshot(request).await?;
        let status = response.status();
        Ok((status, Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await?.to_bytes()))
    }
}

fn config(trust: &TlsConfig) -> Result<ClientConfig, BoxError> {
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
            let inner = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build()?;
            match trust.name.as_str() {
                "" => builder.with_webpki_verifier(inner),
                name => {
                    let name = ServerName::try_from(name.to_owned())?;
                    builder
                        .dangerous()
                        .with_custom_certificate_verifier(Arc::new(NamedVerifier { inner, name }))
                }
            }
        }
    };
    let Some((certificates, key)) = &trust.shown else { return Ok(builder.with_no_client_auth()) };
    let chain = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect::<Result<_, _>>()?;
    Ok(builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?)
}

/// Verifies a server certificate for a fixed name instead of the host of the URL.
#[derive(Debug)]
struct NamedVerifier {
    inner: Arc<WebPkiServerVerifier>,
    name: ServerName<'static>,
}

impl ServerCertVerifier for NamedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.inner.verify_server_cert(end_entity, intermediates, &self.name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
