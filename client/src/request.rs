//! The API client: how it chooses a server, sends a request, limits time and size, and reads errors.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, DeserializeSeed};
use serde_json::Value;
use tower::{BoxError, Service, ServiceExt as _};

use crate::error::{Error, Status};
use crate::transport::{self, Body, Transport};
use crate::{JSON, Limits, Typed};

/// A server that the client can use.
#[derive(Clone, Debug)]
struct Server {
    /// The server's URL, or a description of the service in this process.
    name: Arc<str>,
    /// The prefix of all paths; empty for a service in this process.
    url: Arc<str>,
}

/// An API client that acts as one user.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Transport,
    servers: Arc<[Server]>,
    /// Index of the server that answered last.
    preferred: Arc<AtomicUsize>,
    headers: HeaderMap,
    /// Extensions of each request. They tell a service in this process which user sends it.
    extensions: Extensions,
    pub(crate) limits: Limits,
}

/// The response of a server to a request.
pub(crate) struct Answer {
    pub server: Arc<str>,
    pub response: Response<Body>,
}

/// The body of a request, with its media type.
#[derive(Clone, Debug)]
pub struct Content {
    media_type: &'static str,
    body: Bytes,
}

impl Content {
    /// Creates a body from a JSON object.
    pub fn json(object: &Value) -> Self {
        Self::of(JSON, object)
    }

    /// Creates a JSON body with a more specific media type, such as that of a patch.
    pub fn of(media_type: &'static str, object: &Value) -> Self {
        Self { media_type, body: object.to_string().into() }
    }
}

impl Client {
    /// Creates a client of a service in this process, usually the router of the server.
    pub fn in_process<S, B>(service: S) -> Self
    where
        S: Service<Request<Full<Bytes>>, Response = Response<B>, Error = Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let server = Server { name: "the API server".into(), url: "".into() };
        Self::new(transport::in_process(service), [server].into())
    }

    /// Creates a client of the servers at these URLs. It uses the server that answered last, and the others if that
    /// fails.
    pub fn remote(transport: Transport, servers: &[String]) -> Self {
        let server = |url: &String| {
            let url: Arc<str> = url.trim_end_matches('/').into();
            Server { name: url.clone(), url }
        };
        Self::new(transport, servers.iter().map(server).collect())
    }

    fn new(transport: Transport, servers: Arc<[Server]>) -> Self {
        Self {
            transport,
            servers,
            preferred: Arc::default(),
            headers: HeaderMap::new(),
            extensions: Extensions::new(),
            limits: Limits::default(),
        }
    }

    /// Returns the client with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Returns the client with another `User-Agent`.
    #[must_use]
    pub fn with_agent(mut self, agent: &str) -> Self {
        if let Ok(agent) = HeaderValue::from_str(agent) {
            self.headers.insert(USER_AGENT, agent);
        }
        self
    }

    /// Returns the client with a bearer token. A token with characters that no header may contain is not sent.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        if let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {token}")) {
            value.set_sensitive(true);
            self.headers.insert(AUTHORIZATION, value);
        }
        self
    }

    /// Returns the client with an extension of each request. Only a service in this process receives it.
    #[must_use]
    pub fn with_extension<T: Clone + Send + Sync + 'static>(mut self, extension: T) -> Self {
        self.extensions.insert(extension);
        self
    }

    /// The URL of the server that answered last.
    pub fn server(&self) -> &str {
        self.servers.get(self.preferred.load(Ordering::Relaxed)).map_or("no server", |server| &server.name)
    }

    /// Sends a request and decodes the response.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server rejects it, [`Error::Lost`] if no server responds.
    pub async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        content: Option<Content>,
    ) -> Result<T, Error> {
        self.request_with(method, path, JSON, content, Typed::default()).await
    }

    pub(crate) async fn request_with<T, S>(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        content: Option<Content>,
        seed: S,
    ) -> Result<T, Error>
    where
        S: for<'de> DeserializeSeed<'de, Value = T>,
    {
        let answer = self.send(method, path, accept, content).await?;
        let server = answer.server.clone();
        let body = self.whole(answer).await?;
        let mut document = serde_json::Deserializer::from_slice(&body);
        let decoded = seed.deserialize(&mut document).and_then(|decoded| {
            document.end()?;
            Ok(decoded)
        });
        decoded.map_err(|source| Error::Unreadable { server, source })
    }

    /// Sends a request, and checks the status of the response.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
        content: Option<Content>,
    ) -> Result<Answer, Error> {
        let preferred = self.preferred.load(Ordering::Relaxed);
        let mut failed = None;
        for turn in 0..self.servers.len() {
            let index = (preferred + turn) % self.servers.len();
            let Some(server) = self.servers.get(index) else { continue };
            match self.send_to(server, &method, path, accept, content.as_ref()).await {
                Ok(answer) => {
                    self.preferred.store(index, Ordering::Relaxed);
                    return self.check_status(answer).await;
                }
                // A server that is not trusted is more useful to report than one that is unreachable.
                Err(error) if failed.is_none() || error.certificate_error().is_some() => failed = Some(error),
                Err(_) => {}
            }
        }
        Err(failed.unwrap_or_else(|| Error::lost(&self.server().into(), "the client has no servers".into())))
    }

    async fn send_to(
        &self,
        server: &Server,
        method: &Method,
        path: &str,
        accept: &'static str,
        content: Option<&Content>,
    ) -> Result<Answer, Error> {
        let uri =
            transport::url(&server.url, path).map_err(|error| Error::lost(&server.name, error.into()))?;
        let request = self.http_request(method, uri, accept, content);
        let limit = self.limits.response_timeout;
        match tokio::time::timeout(limit, self.transport.clone().oneshot(request)).await {
            Ok(Ok(response)) => Ok(Answer { server: server.name.clone(), response }),
            Ok(Err(error)) => Err(Error::lost(&server.name, error)),
            Err(_) => Err(Error::late(&server.name, limit)),
        }
    }

    fn http_request(
        &self,
        method: &Method,
        uri: Uri,
        accept: &'static str,
        content: Option<&Content>,
    ) -> Request<Bytes> {
        let mut request = Request::new(Bytes::new());
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        if let Some(content) = content {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content.media_type));
            *request.body_mut() = content.body.clone();
        }
        request
    }

    async fn check_status(&self, answer: Answer) -> Result<Answer, Error> {
        let code = answer.response.status();
        if code.is_success() {
            return Ok(answer);
        }
        let retry_after = answer.response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|text| text.to_str().ok()?.parse().ok());
        let server = answer.server.clone();
        let status: Status = serde_json::from_slice(&self.whole(answer).await?).unwrap_or_default();
        Err(status.into_error(&server, Some(code.as_u16()), retry_after.map(Duration::from_secs)))
    }

    async fn whole(&self, answer: Answer) -> Result<Bytes, Error> {
        let (limit, bytes) = (self.limits.response_timeout, self.limits.max_response_bytes);
        let Answer { server, response } = answer;
        let body = Limited::new(response.into_body(), bytes).collect();
        match tokio::time::timeout(limit, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Error::TooLarge { server, bytes }),
            Ok(Err(error)) => Err(Error::lost(&server, error)),
            Err(_) => Err(Error::late(&server, limit)),
        }
    }
}
