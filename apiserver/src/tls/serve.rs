//! Serves TLS connections. Each handshake runs in the task of its connection, so that a slow one delays no other.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use http::StatusCode;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::conn::auto::upgrade::downcast;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

use super::client_trust::{ClientTrust, Revocation};
use super::config::Config;
use super::idle::IdleTracker;
use super::response_buffer::{BufferedBody, ResponseBuffer};
use super::write_timeout::WriteTimeout;
use crate::Identity;
use crate::drain_body;
use crate::guarded_body::GuardedBody;
use crate::serve::{DRAIN, HEADER_TIMEOUT, accept, wait_for_shutdown};

/// How long a handshake may take: a few round trips on a slow network.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of concurrent HTTP/2 streams per connection. Clients open further connections if they need more.
const MAX_STREAMS: u32 = 250;
/// HTTP/2 receive windows per stream and per connection. They bound the data that is buffered while a request is
/// queued, and suffice for 1 Gbit/s with a round trip of 2 ms.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// Send buffer per stream, and maximum size of HTTP/1.1 request heads. The socket buffer keeps fast links busy.
const SEND_BUFFER: usize = 64 << 10;
/// Idle time before the first TCP keepalive probe.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Interval of HTTP/2 pings.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Timeout of an HTTP/2 ping.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Minimum interval between log messages about rejected client certificates, because any client can cause them.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The reason why a connection ended early.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Ended {
    /// The client certificate was rejected.
    #[error("handshake: {0}")]
    Refused(String),
    /// Any other error.
    #[error("{0}")]
    Early(String),
}

impl Ended {
    /// Classifies a handshake error.
    pub(super) fn of_handshake(error: &io::Error) -> Self {
        match error.get_ref().and_then(|cause| cause.downcast_ref()) {
            Some(rustls::Error::InvalidCertificate(why)) => Self::Refused(format!("{why:?}")),
            _ => Self::Early(format!("handshake: {error}")),
        }
    }
}

/// When a rejected certificate was last logged.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Option<Instant>>);

impl Refusals {
    /// Whether a rejected certificate may be logged now. If so, the time is recorded.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.saturating_duration_since(last) >= REFUSAL_LOG_INTERVAL);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

/// Serves TLS connections until `shutdown` becomes true or its sender is dropped.
///
/// New connections use the latest configuration. Existing ones continue, unless their client certificate is no
/// longer trusted: such a connection ends after its requests in flight. When the sender of `configs` is dropped,
/// the last configuration stays in use.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    configs: watch::Receiver<Arc<Config>>,
    shutdown: watch::Receiver<bool>,
) {
    let stopped = shutdown.clone();
    let refusals = Arc::new(Refusals::default());
    accept(listener, shutdown, |stream, peer| {
        let served = connection(stream, peer.ip(), configs.clone(), router.clone(), stopped.clone());
        let refusals = refusals.clone();
        async move {
            match served.await {
                Err(Ended::Refused(why)) if refusals.is_due(Instant::now()) => tracing::warn!(
                    %peer,
                    why,
                    "client certificate rejected: it must be X.509 version 3, currently valid and signed by a client CA of this server"
                ),
                Err(error) => tracing::debug!(%peer, %error, "a connection ended early"),
                Ok(()) => {}
            }
        }
    })
    .await;
}

async fn connection(
    stream: TcpStream,
    peer: IpAddr,
    mut configs: watch::Receiver<Arc<Config>>,
    router: Router,
    mut shutdown: watch::Receiver<bool>,
) -> Result<(), Ended> {
    keep_alive(&stream);
    let acceptor = TlsAcceptor::from(configs.borrow_and_update().server().clone());
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => shaken,
        () = wait_for_shutdown(&mut shutdown) => return Ok(()),
    };
    let stream = shaken
        .map_err(|_| Ended::Early("the handshake took too long".to_owned()))?
        .map_err(|error| Ended::of_handshake(&error))?;
    // A dual-stack socket reports IPv4 clients as mapped IPv6 addresses.
    let identity = Identity { peer: Some(peer.to_canonical()), ..identity(&stream) };
    // ALPN decides the protocol, so no client preface is awaited.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let builder = builder(is_http2);
    let buffer = Arc::new(ResponseBuffer::default());
    let (requests, upgraded) = (Arc::new(IdleTracker::default()), Arc::new(AtomicBool::new(false)));
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let trust = ClientTrust::new(chain, configs);
    let revocation = Revocation::of(trust.clone());
    let stream = TokioIo::new(WriteTimeout::new(stream, upgraded.clone(), revocation));
    let (used, counted) = (requests.clone(), buffer.clone());
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (router, identity) = (router.clone(), identity.clone());
        let (activity, upgraded, buffer) = (used.begin(), upgraded.clone(), counted.clone());
        async move {
            buffer.wait_for_room().await;
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(identity);
            let response = if is_http2 {
                router.oneshot(request).await
            } else {
                drain_body::serve(router, request).await
            };
            let response = response.map_err(|never: Infallible| never)?;
            upgraded.fetch_or(response.status() == StatusCode::SWITCHING_PROTOCOLS, Ordering::Relaxed);
            let counted = |body| BufferedBody::new(Body::new(GuardedBody::new(body, activity)), buffer);
            Ok::<_, Infallible>(response.map(counted))
        }
    });
    let mut connection = pin!(builder.serve_connection_with_upgrades(stream, service));
    let mut revoked = pin!(trust.revoked());
    let is_revoked = tokio::select! {
        ended = &mut connection => return ended.map_err(|error| Ended::Early(error.to_string())),
            () = buffer.stalled() => return Err(Ended::Early("the client did not take a response".to_owned())),
        () = wait_for_shutdown(&mut shutdown) => false,
        () = requests.idle() => false,
        () = &mut revoked => true,
    };
    connection.as_mut().graceful_shutdown();
    if !is_revoked {
        // Requests received in the meantime are still served and may be watches.
        tokio::select! {
            ended = &mut connection => return ended.map_err(|error| Ended::Early(error.to_string())),
            () = buffer.stalled() => return Err(Ended::Early("the client did not take a response".to_owned())),
            () = revoked => {}
        }
    }
    // Watches and followed logs do not end by themselves.
    let ended = tokio::time::timeout(DRAIN, connection).await;
    let ended = ended.map_err(|_| Ended::Early("the client certificate is no longer trusted".to_owned()))?;
    ended.map_err(|error| Ended::Early(error.to_string()))
}

/// Disables Nagle's algorithm and enables TCP keepalive.
pub fn keep_alive(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE);
}

fn builder(is_http2: bool) -> Builder<TokioExecutor> {
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(SEND_BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_send_buf_size(SEND_BUFFER)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// The identity of the verified client certificate; anonymous without one.
fn identity(stream: &TlsStream<TcpStream>) -> Identity {
    let certificates = stream.get_ref().1.peer_certificates();
    certificates
        .and_then(<[_]>::first)
        .and_then(|certificate| Identity::of_certificate(certificate))
        .unwrap_or_else(Identity::anonymous)
}

/// An upgraded connection. The second handle of its socket detects that the client has disconnected while input is
/// not read.
#[derive(Debug)]
pub struct UpgradedStream {
    /// The TLS connection.
    pub stream: TlsStream<TcpStream>,
    /// Bytes that were received after the request.
    pub before: Bytes,
    /// Second handle of the socket. It must not be read or written.
    pub socket: TcpStream,
    /// Resolves when the client is no longer trusted.
    pub revocation: Revocation,
}

/// Downcasts an upgraded connection of [`serve()`].
///
/// # Errors
/// If it is another kind of connection, or the socket cannot be duplicated.
pub fn upgraded(upgraded: Upgraded) -> io::Result<UpgradedStream> {
    let other = |_| io::Error::other("not a connection of this server");
    let parts = downcast::<TokioIo<WriteTimeout<TlsStream<TcpStream>>>>(upgraded).map_err(other)?;
    let (stream, revocation) = parts.io.into_inner().into_parts();
    let socket = std::net::TcpStream::from(stream.get_ref().0.as_fd().try_clone_to_owned()?);
    Ok(UpgradedStream { stream, before: parts.read_buf, socket: TcpStream::from_std(socket)?, revocation })
}
