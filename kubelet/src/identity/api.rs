//! The API client of this node. It adds the node's credentials and TLS trust to the shared client, and adds a
//! remedy to errors.

use std::time::Duration;

use client::{Client, Content, Event, Kind, Limits, STRATEGIC_MERGE_PATCH, Scope, Typed, transport};
use http::Method;
use jiff::Timestamp;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use super::access::{ClusterAccess, Credentials};
use super::certificate;
use super::error::ApiError;
use super::tls::{self, Trust};

/// Limits of responses. 16 MiB are enough for a hundred Nodes or pods of 100 KiB each.
const LIMITS: Limits =
    Limits { response_timeout: Duration::from_secs(15), max_response_bytes: 16 << 20, page_size: 100 };
/// Largest response of a server that is not trusted, in bytes. The cluster info has a few KiB.
const MAX_UNTRUSTED_BYTES: usize = 1 << 20;
/// Duration of a watch on a CSR. Afterwards the CSR is read again.
const CSR_WATCH_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of idle connections to a server without HTTP/2.
const IDLE_CONNECTIONS: usize = 4;

/// A client of the API servers of one cluster.
#[derive(Debug)]
pub struct Api {
    client: Client,
    credentials: Credentials,
}

impl Api {
    /// Creates a client for `known`.
    ///
    /// # Errors
    /// If the CA certificates or the credentials are invalid.
    pub fn new(known: &ClusterAccess) -> Result<Self, ApiError> {
        let authorities = certificate::certificates(&known.authority)
            .map_err(|why| ApiError::invalid("the certificate-authority of the kubeconfig", why))?;
        Self::with_trust(&known.servers, &Trust::Authorities(authorities), known.credentials.clone())
    }

    /// Creates a client of these servers with this trust.
    ///
    /// # Errors
    /// The same as [`Self::new`].
    pub fn with_trust(servers: &[String], trust: &Trust, credentials: Credentials) -> Result<Self, ApiError> {
        let shown = match &credentials {
            Credentials::Certificate(own) => Some(own.certified.clone()),
            Credentials::Anonymous | Credentials::Token(_) => None,
        };
        let config = tls::config(trust, shown)
            .map_err(|error| ApiError::invalid("TLS", format!("cannot be configured: {error}")))?;
        let limits = match trust {
            Trust::Any => Limits { max_response_bytes: MAX_UNTRUSTED_BYTES, ..LIMITS },
            Trust::Authorities(_) | Trust::Masters(_) => LIMITS,
        };
        let transport = transport::http(config, IDLE_CONNECTIONS)
            .map_err(|error| ApiError::invalid("TLS", format!("cannot be configured: {error}")))?;
        let mut client = Client::remote(transport, servers)
            .with_limits(limits)
            .with_agent(concat!("kubelet/", env!("CARGO_PKG_VERSION")));
        if let Credentials::Token(token) = &credentials {
            client = client.with_token(token);
        }
        Ok(Self { client, credentials })
    }

    /// The shared client, whose errors [`Self::error`] explains.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns an error of the shared client with its cause and remedy.
    pub fn error(&self, error: &client::Error) -> ApiError {
        ApiError::from_client(error, &self.credentials, Timestamp::now())
    }

    /// The URL of the server that answered last.
    pub fn server(&self) -> &str {
        self.client.server()
    }

    /// Reads an object.
    ///
    /// # Errors
    /// If no server answers, or the request is rejected.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.request(Method::GET, path, None).await
    }

    /// Creates an object and returns it.
    ///
    /// # Errors
    /// The same as [`Self::get`].
    pub async fn post(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        self.request(Method::POST, path, Some(Content::json(object))).await
    }

    /// Sends a strategic merge patch.
    ///
    /// # Errors
    /// The same as [`Self::get`].
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        self.request(Method::PATCH, path, Some(Content::of(STRATEGIC_MERGE_PATCH, patch))).await
    }

    /// Deletes an object with these `DeleteOptions`.
    ///
    /// # Errors
    /// The same as [`Self::get`].
    pub async fn delete(&self, path: &str, options: &Value) -> Result<(), ApiError> {
        let deleted = self.request::<IgnoredAny>(Method::DELETE, path, Some(Content::json(options)));
        deleted.await.map(drop)
    }

    /// Waits until a CSR changes after a version. Returns false if it did not change in time.
    ///
    /// # Errors
    /// If the watch is rejected, or no server answers.
    pub async fn wait_for_csr_change(&self, name: &str, version: &str) -> Result<bool, ApiError> {
        let (kind, scope) = (&Kind::CERTIFICATE_SIGNING_REQUEST, Scope::object("", name));
        let seed = Typed::<IgnoredAny>::default();
        let watch = self.client.watch(kind, &scope, version, CSR_WATCH_TIMEOUT, seed).await;
        let mut watch = watch.map_err(|error| self.error(&error))?;
        loop {
            match watch.next(CSR_WATCH_TIMEOUT + LIMITS.response_timeout).await {
                Some(Ok(Event::Bookmark(_))) => {}
                Some(Ok(Event::Applied(_) | Event::Deleted(_))) => return Ok(true),
                None => return Ok(false),
                Some(Err(error)) if error.is_expired() => return Ok(false),
                Some(Err(error)) => return Err(self.error(&error)),
            }
        }
    }

    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        content: Option<Content>,
    ) -> Result<T, ApiError> {
        self.client.request(method, path, content).await.map_err(|error| self.error(&error))
    }
}
