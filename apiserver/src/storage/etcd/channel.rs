//! Connections to an etcd: calls share one to the member that answered last, and each stream has one of its own.

use std::convert::Infallible;
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
use super::grpc::{Frames, Misread, Status, frame};

/// How long a connection may take: a few round trips within a data centre, and a busy machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a call may take; etcd itself gives up after seven seconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(8);
/// A member with a call or a stream under way is asked so often whether it is still there; etcd allows every five seconds.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// How long its answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// What etcd may send of one answer before it is read, and of all on a connection.
const STREAM_WINDOW_BYTES: u32 = 2 * 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 8 * 1024 * 1024;

/// What rustls says of a certificate that it does not trust, and of a peer that does not trust its own. By their texts,
/// for what carries the errors here keeps no more of them.
const DISTRUST: &str = "invalid peer certificate";
const ALERT: &str = "received fatal alert";

type Body = BoxBody<Bytes, Infallible>;
type Sender = SendRequest<Body>;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It never reached an etcd.
    Unsent(String),
    /// It may have reached one, and nobody said what came of it.
    Unanswered(String),
    /// This is what etcd said.
    Refused(Status),
    /// One of the two does not trust the other's certificate.
    Distrusted(String),
    /// The answer is too large to be held.
    TooLarge,
}

/// The way to an etcd of several members.
#[derive(Debug)]
pub(super) struct Channel {
    endpoints: Vec<Endpoint>,
    tls: Option<Arc<ClientConfig>>,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    /// Which member is spoken to, or tried next.
    member: usize,
    /// Counts the connections, so that one that failed is given up once.
    generation: u64,
    sender: Option<Sender>,
}

impl Channel {
    pub(super) fn new(endpoints: Vec<Endpoint>, tls: Option<Arc<ClientConfig>>) -> Self {
        Self { endpoints, tls, current: Mutex::new(Current { member: 0, generation: 0, sender: None }) }
    }

    /// All members, for messages.
    pub(super) fn name(&self) -> String {
        self.endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    pub(super) fn members(&self) -> usize {
        self.endpoints.len()
    }

    /// Calls a method once, at one member.
    pub(super) async fn call<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<A, Failure> {
        let connected = timeout(CALL_TIMEOUT, self.sender()).await;
        let (sender, generation) =
            connected.unwrap_or_else(|_| Err(Failure::Unsent("no connection in time".to_owned())))?;
        let body = Full::new(frame(request)).boxed();
        let answered = timeout(CALL_TIMEOUT, answer(sender, method, body)).await;
        let failed =
            match answered.unwrap_or_else(|_| Err(Failure::Unanswered("no answer in time".to_owned()))) {
                Ok(message) => return decode(message),
                Err(failed) => failed,
            };
        // Another member may know better, unless this one knows quite well what it refused.
        let elsewhere = match &failed {
            Failure::Unsent(_) | Failure::Unanswered(_) => true,
            Failure::Refused(status) => !is_final(status),
            Failure::Distrusted(_) | Failure::TooLarge => false,
        };
        if elsewhere {
            self.give_up(generation).await;
        }
        Err(failed)
    }

    /// Begins a stream of answers to one request, on a connection of its own: nobody who reads it slowly holds up calls.
    pub(super) async fn stream<A: Message + Default>(
        &self,
        method: &'static str,
        request: &impl Message,
    ) -> Result<Answers<A>, Failure> {
        let from = self.current.lock().await.member;
        let (_, mut sender) = self.connect(from).await?;
        // etcd takes an end of what is asked for the end of the stream.
        let first = stream::iter([Ok(Frame::data(frame(request)))]).chain(stream::pending());
        let request = head(method)
            .header("hasleader", "true")
            .body(http_body_util::BodyExt::boxed(StreamBody::new(first)));
        let request = request.map_err(|error| Failure::Unsent(error.to_string()))?;
        let sent = timeout(CALL_TIMEOUT, sender.send_request(request)).await;
        let response = sent
            .map_err(|_| Failure::Unanswered("no answer in time".to_owned()))?
            .map_err(|error| broken(&error, Failure::Unanswered))?;
        let body = begun(response)?;
        Ok(Answers { body, frames: Frames::default(), _sender: sender, _answers: std::marker::PhantomData })
    }

    /// The connection that calls share, made anew where there is none.
    async fn sender(&self) -> Result<(Sender, u64), Failure> {
        let mut current = self.current.lock().await;
        if let Some(sender) = current.sender.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok((sender.clone(), current.generation));
        }
        current.sender = None;
        let (member, sender) = self.connect(current.member).await?;
        current.member = member;
        current.generation += 1;
        current.sender = Some(sender.clone());
        Ok((sender, current.generation))
    }

    /// Turns to the next member, unless somebody else has done so already.
    async fn give_up(&self, generation: u64) {
        let mut current = self.current.lock().await;
        if current.generation == generation && current.sender.take().is_some() {
            current.member = (current.member + 1) % self.endpoints.len().max(1);
        }
    }

    /// Connects to the first member that can be reached, beginning with that one.
    async fn connect(&self, from: usize) -> Result<(usize, Sender), Failure> {
        let mut reasons = Vec::new();
        for step in 0..self.endpoints.len() {
            let member = (from + step) % self.endpoints.len();
            let endpoint = &self.endpoints[member];
            let tried = timeout(CONNECT_TIMEOUT, self.connect_to(endpoint)).await;
            match tried.unwrap_or_else(|_| Err("it took too long".to_owned())) {
                Ok(sender) => return Ok((member, sender)),
                Err(reason) => reasons.push(format!("{endpoint}: {reason}")),
            }
        }
        let is_distrust = !reasons.is_empty() && reasons.iter().all(|reason| reason.contains(DISTRUST));
        let reasons = reasons.join("; ");
        Err(if is_distrust { Failure::Distrusted(reasons) } else { Failure::Unsent(reasons) })
    }

    async fn connect_to(&self, endpoint: &Endpoint) -> Result<Sender, String> {
        let stream = TcpStream::connect(endpoint.address()).await.map_err(|error| error.to_string())?;
        // Small requests are not to wait for more of them.
        let _ = stream.set_nodelay(true);
        match (&self.tls, endpoint.is_tls()) {
            (Some(config), true) => {
                let name = endpoint.server_name()?;
                let shaken = TlsConnector::from(config.clone()).connect(name, stream).await;
                handshake(shaken.map_err(|error| error.to_string())?).await
            }
            (None, true) => Err("https needs certificates".to_owned()),
            (_, false) => handshake(stream).await,
        }
    }
}

/// The answers of a stream, as they come.
#[derive(Debug)]
pub(super) struct Answers<A> {
    body: Incoming,
    frames: Frames,
    /// The connection ends with it.
    _sender: Sender,
    _answers: std::marker::PhantomData<fn() -> A>,
}

impl<A: Message + Default> Answers<A> {
    /// The next answer. Safe to drop and call again.
    pub(super) async fn next(&mut self) -> Result<A, Failure> {
        loop {
            if let Some(message) = self.frames.next().map_err(misread)? {
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

async fn handshake<T: AsyncRead + AsyncWrite + Unpin + Send + 'static>(stream: T) -> Result<Sender, String> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    // It ends when the last sender and the last answer are gone; whoever waits for an answer hears why it failed.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// One answer to one request.
async fn answer(mut sender: Sender, method: &'static str, body: Body) -> Result<Bytes, Failure> {
    sender.ready().await.map_err(|error| broken(&error, Failure::Unsent))?;
    let request = head(method).body(body).map_err(|error| Failure::Unsent(error.to_string()))?;
    let response = sender.try_send_request(request).await.map_err(|mut error| {
        let came_back = error.take_message().is_some();
        broken(error.error(), if came_back { Failure::Unsent } else { Failure::Unanswered })
    })?;
    let mut body = begun(response)?;
    let mut frames = Frames::default();
    let mut message = None;
    while let Some(frame) = body.frame().await {
        match frame.map_err(|error| Failure::Unanswered(text(&error)))?.into_data() {
            Ok(data) => {
                frames.push(&data);
                if let Some(whole) = frames.next().map_err(misread)? {
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
    Err(Failure::Unanswered("the answer was cut off".to_owned()))
}

fn head(method: &'static str) -> http::request::Builder {
    Request::builder()
        .method(Method::POST)
        .uri(format!("http://etcd{method}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
}

/// The body of an answer that has begun as one of gRPC does.
fn begun(response: http::Response<Incoming>) -> Result<Incoming, Failure> {
    if response.status() != StatusCode::OK {
        return Err(Failure::Unanswered(format!("HTTP {}, which no etcd says", response.status())));
    }
    if let Some(status) = Status::read(response.headers()).filter(|status| status.code != Status::OK) {
        return Err(Failure::Refused(status));
    }
    Ok(response.into_body())
}

fn ended(trailers: &HeaderMap) -> Failure {
    match Status::read(trailers) {
        Some(status) if status.code != Status::OK => Failure::Refused(status),
        _ => Failure::Unanswered("the answer ended early".to_owned()),
    }
}

fn decode<A: Message + Default>(message: Bytes) -> Result<A, Failure> {
    A::decode(message).map_err(|error| Failure::Unanswered(format!("an answer that does not read: {error}")))
}

fn misread(misread: Misread) -> Failure {
    match misread {
        Misread::TooLarge(_) => Failure::TooLarge,
        Misread::Compressed => Failure::Unanswered("a compressed answer, which nobody asked for".to_owned()),
    }
}

/// A broken connection; etcd's own doubts about a certificate come after the handshake, as an alert.
fn broken(error: &hyper::Error, otherwise: impl FnOnce(String) -> Failure) -> Failure {
    let reason = text(error);
    if reason.contains(ALERT) { Failure::Distrusted(reason) } else { otherwise(reason) }
}

/// What hyper said, with its cause, for it keeps that to itself.
fn text(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
