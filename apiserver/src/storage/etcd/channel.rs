//! gRPC channel to etcd. Calls share a connection to the member that answered last, and each stream has its own
//! connection.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prost::Message;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;
use super::failure::is_final;
use super::grpc::{FrameError, Frames, Status, frame};
use super::tls_alert::{RecordAlert, TlsAlert};
use crate::tasks;

/// Timeout of a connection: a few round trips within a data center, and time for a busy machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of a call. etcd itself gives up after seven seconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(8);
/// Interval of HTTP/2 pings while calls or streams are open. etcd permits one every five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Timeout of a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// HTTP/2 flow-control windows per stream and per connection.
const STREAM_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;

type Body = BoxBody<Bytes, Infallible>;

/// A connection to a member.
#[derive(Clone, Debug)]
struct Connection {
    requests: SendRequest<Body>,
    alert: TlsAlert,
}

/// The reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The request was not sent.
    Unsent(String),
    /// The request may have been executed.
    Unanswered(String),
    /// etcd returned an error status.
    Refused(Status),
    /// A certificate was rejected, by either side.
    Distrusted(String),
    /// The response exceeds the size limit.
    TooLarge,
}

/// The reason why a connection to a member failed.
#[derive(Debug, thiserror::Error)]
enum ConnectError {
    /// The certificate of the member is not trusted.
    #[error("{0}")]
    Distrusted(String),
    /// Any other failure. Another attempt may succeed.
    #[error("{0}")]
    Failed(String),
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match of_tls {
            Some(rustls::Error::InvalidCertificate(_)) => Self::Distrusted(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// A channel to the members of an etcd cluster.
#[derive(Debug)]
pub(super) struct Channel {
    endpoints: Vec<Endpoint>,
    tls: Option<Arc<ClientConfig>>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    /// The current member, or the next one to try.
    member: usize,
    /// Counts connections, so that a failed connection is dropped only once.
    generation: u64,
    connection: Option<Connection>,
}

impl Channel {
    pub(super) fn new(endpoints: Vec<Endpoint>, tls: Option<Arc<ClientConfig>>) -> Self {
        Self { endpoints, tls, current: Mutex::new(Current { member: 0, generation: 0, connection: None }) }
    }

    /// All endpoints, as messages show them.
    pub(super) fn name(&self) -> String {
        self.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    pub(super) fn members(&self) -> usize {
        self.endpoints.len()
    }

    /// Calls a method once, on one member.
    pub(super) async fn call<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<A, Failure> {
        let connected = timeout(CALL_TIMEOUT, self.connection()).await;
        let (connection, generation) =
            connected.unwrap_or_else(|_| Err(Failure::Unsent("the connection timed out".to_owned())))?;
        let body = Full::new(frame(request)).boxed();
        let answered = timeout(CALL_TIMEOUT, answer(connection, method, body)).await;
        let failed =
            match answered.unwrap_or_else(|_| Err(Failure::Unanswered("the call timed out".to_owned()))) {
                Ok(message) => return decode(message),
                Err(failed) => failed,
            };
        // Another member may succeed, unless the error is final.
        let elsewhere = match &failed {
            Failure::Unsent(_) | Failure::Unanswered(_) => true,
            Failure::Refused(status) => !is_final(status),
            Failure::Distrusted(_) | Failure::TooLarge => false,
        };
        if elsewhere {
            self.drop_connection(generation).await;
        }
        Err(failed)
    }

    /// Opens a response stream on its own connection, so that a slow reader does not block calls.
    pub(super) async fn stream<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<Answers<A>, Failure> {
        let from = self.current.lock().await.member;
        let (_, mut connection) = self.connect(from).await?;
        // etcd ends the stream when the request side is closed.
        let first = stream::iter([Ok(Frame::data(frame(request)))]).chain(stream::pending());
        let request = head(method)
            .header("hasleader", "true")
            .body(http_body_util::BodyExt::boxed(StreamBody::new(first)));
        let request = request.map_err(|error| Failure::Unsent(error.to_string()))?;
        let sent = timeout(CALL_TIMEOUT, connection.requests.send_request(request)).await;
        let response = sent
            .map_err(|_| Failure::Unanswered("the call timed out".to_owned()))?
            .map_err(|error| connection.error(&error, Failure::Unanswered))?;
        let body = response_body(response)?;
        let frames = Frames::default();
        Ok(Answers { body, frames, _connection: connection, _answers: std::marker::PhantomData })
    }

    /// Returns the shared connection, and establishes it if necessary.
    async fn connection(&self) -> Result<(Connection, u64), Failure> {
        let mut current = self.current.lock().await;
        let is_open = |connection: &&Connection| !connection.requests.is_closed();
        if let Some(connection) = current.connection.as_ref().filter(is_open) {
            return Ok((connection.clone(), current.generation));
        }
        current.connection = None;
        let (member, connection) = self.connect(current.member).await?;
        current.member = member;
        current.generation += 1;
        current.connection = Some(connection.clone());
        Ok((connection, current.generation))
    }

    /// Drops the connection and selects the next member, unless another call has already done so.
    async fn drop_connection(&self, generation: u64) {
        let mut current = self.current.lock().await;
        if current.generation == generation && current.connection.take().is_some() {
            current.member = (current.member + 1) % self.endpoints.len().max(1);
        }
    }

    /// Connects to the first reachable member, starting with `from`.
    async fn connect(&self, from: usize) -> Result<(usize, Connection), Failure> {
        let mut reasons = Vec::new();
        let mut is_distrust = true;
        for step in 0..self.endpoints.len() {
            let member = (from + step) % self.endpoints.len();
            let endpoint = &self.endpoints[member];
            let tried = timeout(CONNECT_TIMEOUT, self.connect_to(endpoint)).await;
            match tried.unwrap_or_else(|_| Err(ConnectError::Failed("the connection timed out".to_owned()))) {
                Ok(connection) => return Ok((member, connection)),
                Err(error) => {
                    is_distrust &= matches!(error, ConnectError::Distrusted(_));
                    reasons.push(format!("{endpoint}: {error}"));
                }
            }
        }
        let is_distrust = is_distrust && !reasons.is_empty();
        let reasons = reasons.join("; ");
        Err(if is_distrust { Failure::Distrusted(reasons) } else { Failure::Unsent(reasons) })
    }

    async fn connect_to(&self, endpoint: &Endpoint) -> Result<Connection, ConnectError> {
        let stream = TcpStream::connect(endpoint.address()).await?;
        // Disables Nagle's algorithm for small requests.
        let _ = stream.set_nodelay(true);
        match (&self.tls, endpoint.is_tls()) {
            (Some(config), true) => {
                let name = endpoint.server_name().map_err(ConnectError::Failed)?;
                handshake(TlsConnector::from(config.clone()).connect(name, stream).await?).await
            }
            (None, true) => Err(ConnectError::Failed("https needs certificates".to_owned())),
            (_, false) => handshake(stream).await,
        }
    }
}

/// The responses of a stream.
#[derive(Debug)]
pub(super) struct Answers<A> {
    body: Incoming,
    frames: Frames,
    /// Keeps the connection open.
    _connection: Connection,
    _answers: std::marker::PhantomData<fn() -> A>,
}

impl<A: Message + Default> Answers<A> {
    /// The next response. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<A, Failure> {
        loop {
            if let Some(message) = self.frames.next().map_err(frame_error)? {
                return decode(message);
            }
            let Some(frame) = self.body.frame().await else {
                return Err(Failure::Unanswered("the stream ended".to_owned()));
            };
            match frame.map_err(|error| Failure::Unanswered(text(&error)))?.into_data() {
                Ok(data) => self.frames.push(&data),
                Err(frame) => return Err(ended(&frame.into_trailers().unwrap_or_default())),
            }
        }
    }
}

async fn handshake<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: T,
) -> Result<Connection, ConnectError> {
    let alert = TlsAlert::default();
    let stream = RecordAlert { stream, alert: alert.clone() };
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let shaken = builder.handshake(TokioIo::new(stream)).await;
    let (requests, connection) = shaken.map_err(|error| ConnectError::Failed(text(&error)))?;
    // The task ends with the last sender and stream, which report its errors.
    tasks::supervise("etcd connection", async move { drop(connection.await) });
    Ok(Connection { requests, alert })
}

/// Sends one request and reads its response.
async fn answer(mut connection: Connection, method: &'static str, body: Body) -> Result<Bytes, Failure> {
    let ready = connection.requests.ready().await;
    ready.map_err(|error| connection.error(&error, Failure::Unsent))?;
    let request = head(method).body(body).map_err(|error| Failure::Unsent(error.to_string()))?;
    let response = connection.requests.try_send_request(request).await.map_err(|mut error| {
        let came_back = error.take_message().is_some();
        connection.error(error.error(), if came_back { Failure::Unsent } else { Failure::Unanswered })
    })?;
    let mut body = response_body(response)?;
    let mut frames = Frames::default();
    let mut message = None;
    while let Some(frame) = body.frame().await {
        match frame.map_err(|error| Failure::Unanswered(text(&error)))?.into_data() {
            Ok(data) => {
                frames.push(&data);
                if let Some(whole) = frames.next().map_err(frame_error)? {
                    message = Some(whole);
                }
            }
            Err(frame) => {
                let trailers = frame.into_trailers().unwrap_or_default();
                let status = Status::read(&trailers);
                return match (message, status) {
                    (Some(message), Some(Status { code: Status::OK, .. })) => Ok(message),
                    _ => Err(ended(&trailers)),
                };
            }
        }
    }
    Err(Failure::Unanswered("the response is incomplete".to_owned()))
}

fn head(method: &'static str) -> http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .uri(format!("http://etcd{method}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
}

/// Checks the head of a response and returns the body.
fn response_body(response: http::Response<Incoming>) -> Result<Incoming, Failure> {
    if response.status() != StatusCode::OK {
        return Err(Failure::Unanswered(format!("unexpected HTTP status {}", response.status())));
    }
    if let Some(status) = Status::read(response.headers()).filter(|status| status.code != Status::OK) {
        return Err(Failure::Refused(status));
    }
    Ok(response.into_body())
}

fn ended(trailers: &HeaderMap) -> Failure {
    match Status::read(trailers) {
        Some(status) if status.code != Status::OK => Failure::Refused(status),
        _ => Failure::Unanswered("the response ended early".to_owned()),
    }
}

fn decode<A: Message + Default>(message: Bytes) -> Result<A, Failure> {
    A::decode(message).map_err(|error| Failure::Unanswered(format!("invalid response: {error}")))
}

fn frame_error(frame_error: FrameError) -> Failure {
    match frame_error {
        FrameError::TooLarge(_) => Failure::TooLarge,
        FrameError::Compressed => Failure::Unanswered("unexpected compressed response".to_owned()),
    }
}

impl Connection {
    /// The failure for a connection error.
    fn error(&self, error: &hyper::Error, otherwise: impl FnOnce(String) -> Failure) -> Failure {
        let reason = text(error);
        if self.alert.is_received() { Failure::Distrusted(reason) } else { otherwise(reason) }
    }
}

/// The text of an error with its source, which hyper leaves out.
fn text(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
