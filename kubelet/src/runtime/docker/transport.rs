//! HTTP connections to the engine over a Unix socket or TCP. Connections are used for several requests.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Mutex;

use apiserver::tasks;
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

/// Maximum number of idle connections that stay open. The kubelet has only a handful of requests in parallel, and
/// each connection costs both sides a few KiB.
const KEPT_CONNECTIONS: usize = 8;

type Chunks = Pin<Box<dyn Stream<Item = Result<Frame<Bytes>, std::io::Error>> + Send>>;

/// Request body, in the type that bollard uses.
pub(super) type Body = Either<Full<Bytes>, StreamBody<Chunks>>;

/// Address of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    /// Path of a Unix socket.
    Unix(PathBuf),
    /// The address `host:port`, for plain HTTP.
    Tcp(String),
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid Docker endpoint \"{0}\": write unix:///path/to/docker.sock or tcp://host:port")]
pub struct InvalidEndpoint(String);

impl InvalidEndpoint {
    pub(super) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Endpoint {
    /// Parses `unix://PATH`, `tcp://HOST:PORT`, `http://HOST:PORT` or an absolute path.
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
/// bollard's own Unix transport requires the socket to exist when the client is created, and opens a connection per request. It
/// offers neither the upgraded stream nor the time at which a response starts.
pub(super) struct Transport {
    endpoint: Endpoint,
    host: HeaderValue,
    /// Connections that are idle or still deliver a response body.
    kept: Mutex<Vec<SendRequest<Body>>>,
}

impl Transport {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self { host: endpoint.host(), endpoint, kept: Mutex::default() }
    }

    /// Sends a request. Returns when the head of the response has arrived.
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
                // The engine had closed the connection and nothing was sent, so a new connection is opened.
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

    /// Pid of the process that listens on the socket, or `None` if the engine is remote.
    pub(super) async fn engine_pid(&self) -> Option<i32> {
        let Endpoint::Unix(path) = &self.endpoint else { return None };
        UnixStream::connect(path).await.ok()?.peer_cred().ok()?.pid().filter(|pid| *pid > 0)
    }

    /// Returns the request with a relative URI and a `Host` header.
    fn relative(&self, mut request: Request<Body>) -> Result<Request<Body>, bollard::errors::Error> {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        *request.uri_mut() = path.parse::<Uri>()?;
        request.headers_mut().insert(HOST, self.host.clone());
        Ok(request)
    }

    async fn open(&self) -> Result<SendRequest<Body>, bollard::errors::Error> {
        match &self.endpoint {
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(|error| explained(error, path))?;
                handshake(stream).await
            }
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

/// Adds a remedy to a permission error: the socket belongs to root and to a group.
fn explained(error: io::Error, socket: &Path) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let socket = socket.display();
    let remedy = format!(
        "{error}: run the kubelet as root, or add its user to the group that owns {socket}, usually docker: \
         usermod -aG docker USER, then log in again"
    );
    io::Error::new(io::ErrorKind::PermissionDenied, remedy)
}

async fn handshake<S>(stream: S) -> Result<SendRequest<Body>, bollard::errors::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with the connection; its errors are returned to the caller that waits for the response.
    tasks::supervise("connection to the engine", async { drop(connection.with_upgrades().await) });
    Ok(sender)
}

#[cfg(test)]
mod tests {
    //! Tests of parsing of endpoints.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn engine_endpoints_are_parsed() {
        let unix = |path: &str| Ok(Endpoint::Unix(path.into()));
        let tcp = |address: &str| Ok(Endpoint::Tcp(address.to_owned()));
        assert_eq!(Endpoint::parse("unix:///var/run/docker.sock"), unix("/var/run/docker.sock"));
        assert_eq!(Endpoint::parse("/run/docker.sock"), unix("/run/docker.sock"));
        assert_eq!(Endpoint::parse("tcp://10.0.0.1:2375"), tcp("10.0.0.1:2375"));
        assert_eq!(Endpoint::parse("http://[::1]:2375/"), tcp("[::1]:2375"));
    }

    #[test]
    fn invalid_endpoint_error_shows_a_valid_endpoint() {
        for wrong in
            ["", "docker", "unix://relative.sock", "tcp://host", "tcp://:1", "tcp://host:http", "ssh://host"]
        {
            let error = Endpoint::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(&format!("\"{wrong}\"")) && error.contains("unix:///"), "{error}");
        }
    }

    #[test]
    fn permission_error_names_the_group_of_the_socket() {
        let denied = io::Error::from_raw_os_error(13);
        let text = explained(denied, Path::new("/run/docker.sock")).to_string();
        assert!(text.contains("Permission denied") && text.contains("/run/docker.sock"), "{text}");
        assert!(text.contains("usermod -aG docker"), "{text}");
        let gone = explained(io::ErrorKind::NotFound.into(), Path::new("/run/docker.sock")).to_string();
        assert!(!gone.contains("usermod"), "{gone}");
    }
}
