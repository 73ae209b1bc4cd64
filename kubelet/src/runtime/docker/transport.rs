//! Connections to the engine: over its Unix socket or TCP, opened when needed and used again.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Mutex;

use bytes::Bytes;
use futures_util::Stream;
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

/// Connections kept for later requests. A kubelet at work has a handful of requests under way at once; each
/// kept connection costs both sides a few KiB.
const KEPT_CONNECTIONS: usize = 8;

type Chunks = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send>>;

/// The body of a request, in the shape that bollard uses.
pub(super) type Body = Either<Full<Bytes>, StreamBody<Chunks>>;

/// Where the engine listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// A socket in the file system.
    Unix(PathBuf),
    /// `host:port`, plain HTTP.
    Tcp(String),
}

/// An endpoint that cannot be understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("the Docker endpoint \"{0}\" is not one: write unix:///path/to/docker.sock or tcp://host:port")]
pub struct InvalidEndpoint(String);

impl InvalidEndpoint {
    pub(super) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Endpoint {
    /// Reads `unix://PATH`, `tcp://HOST:PORT`, `http://HOST:PORT` or a bare absolute path.
    pub(super) fn parse(text: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = || InvalidEndpoint::of(text);
        if let Some(path) = text.strip_prefix("unix://").or_else(|| text.starts_with('/').then_some(text)) {
            return if path.starts_with('/') { Ok(Self::Unix(path.into())) } else { Err(invalid()) };
        }
        let address =
            text.strip_prefix("tcp://").or_else(|| text.strip_prefix("http://")).ok_or_else(invalid)?;
        let address = address.trim_end_matches('/');
        match address.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Self::Tcp(address.to_owned()))
            }
            _ => Err(invalid()),
        }
    }

    fn host(&self) -> HeaderValue {
        match self {
            Self::Unix(_) => None,
            Self::Tcp(address) => HeaderValue::from_str(address).ok(),
        }
        .unwrap_or(HeaderValue::from_static("localhost"))
    }
}

/// Sends requests to one endpoint.
///
/// bollard's own Unix transport wants the socket to exist when the client is made, opens a connection for every
/// request and offers neither the upgraded stream nor the moment at which a response begins; this one does.
pub(super) struct Transport {
    endpoint: Endpoint,
    host: HeaderValue,
    /// Connections that are idle or still busy with the body of a response.
    kept: Mutex<Vec<SendRequest<Body>>>,
}

impl Transport {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { host: endpoint.host(), endpoint, kept: Mutex::default() }
    }

    /// Sends a request and returns when the response's head is there; the body follows at its own pace.
    pub(super) async fn send(
        &self,
        request: Request<Body>,
    ) -> Result<Response<Incoming>, bollard::errors::Error> {
        let mut request = self.relative(request)?;
        if let Some(mut kept) = self.take_idle() {
            match kept.try_send_request(request).await {
                Ok(response) => {
                    self.keep(kept);
                    return Ok(response);
                }
                // The engine had closed the connection meanwhile: nothing was sent, a new one will do.
                Err(mut refused) => match refused.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(refused.into_error().into()),
                },
            }
        }
        let mut fresh = self.open().await?;
        let response = fresh.send_request(request).await?;
        self.keep(fresh);
        Ok(response)
    }

    /// The process that listens, as this machine numbers it; `None` when it is on another.
    pub(super) async fn engine_pid(&self) -> Option<i32> {
        let Endpoint::Unix(path) = &self.endpoint else { return None };
        UnixStream::connect(path).await.ok()?.peer_cred().ok()?.pid().filter(|pid| *pid > 0)
    }

    /// The request as it stands on the wire: path and query alone, and a `Host`.
    fn relative(&self, mut request: Request<Body>) -> Result<Request<Body>, bollard::errors::Error> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse::<Uri>()?;
        request.headers_mut().insert(HOST, self.host.clone());
        Ok(request)
    }

    async fn open(&self) -> Result<SendRequest<Body>, bollard::errors::Error> {
        match &self.endpoint {
            Endpoint::Unix(path) => handshake(UnixStream::connect(path).await?).await,
            Endpoint::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                handshake(stream).await
            }
        }
    }

    fn take_idle(&self) -> Option<SendRequest<Body>> {
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        kept.retain(|connection| !connection.is_closed());
        let ready = kept.iter().position(SendRequest::is_ready)?;
        Some(kept.swap_remove(ready))
    }

    fn keep(&self, connection: SendRequest<Body>) {
        let mut kept = self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if kept.len() < KEPT_CONNECTIONS {
            kept.push(connection);
        }
    }
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Body>, bollard::errors::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with the connection; what goes wrong on it is told to whoever waits for the response.
    tokio::spawn(async move {
        let _ = connection.with_upgrades().await;
    });
    Ok(sender)
}

#[cfg(test)]
mod tests;
