//! Listens at one port of the Ingress controller, and serves the connections of clients.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::guarded_body::GuardedBody;
use apiserver::tls::{IdleTracker, keep_alive};
use axum::body::Body;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::headers::Client;
use super::proxy::{Connection, Proxy};

/// Maximum number of connections of all clients, also after an upgrade. Others wait in the listen backlog.
pub const MAX_CONNECTIONS: usize = 10_000;
/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the headers of a request may take, and how long an HTTP/1.1 connection may be idle before them.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of the headers of a request, in bytes. Common servers accept 8 KiB to 64 KiB.
const MAX_HEADER_BYTES: usize = 64 << 10;
/// The same number for HTTP/2, whose setting has 32 bits.
const MAX_HEADER_LIST: u32 = 64 << 10;
/// Maximum number of concurrent HTTP/2 streams per connection.
const MAX_STREAMS: u32 = 128;
/// Timeout of requests in progress after the kubelet has begun to stop.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay after an error of `accept`, such as too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// What all connections share.
#[derive(Clone, Debug)]
pub struct Server {
    /// Answers requests.
    pub proxy: Arc<Proxy>,
    /// The TLS configuration; `None` on the HTTP port.
    pub tls: Option<Arc<ServerConfig>>,
    /// A permit per connection.
    pub permits: Arc<Semaphore>,
    /// Whether the kubelet stops.
    pub stopped: watch::Receiver<bool>,
}

/// Binds a port. A port of all addresses accepts IPv4 and IPv6, or IPv4 only if the kernel has no IPv6.
///
/// # Errors
/// If the port is in use or the address does not exist.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(error) if address.is_ipv6() && address.ip().is_unspecified() => {
            if error.kind() == io::ErrorKind::AddrInUse {
                return Err(error);
            }
            TcpListener::bind((std::net::Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

impl Server {
    /// Serves connections until the kubelet stops, then waits up to [`DRAIN_TIMEOUT`] for them.
    pub async fn run(self, listener: TcpListener) {
        let port = listener.local_addr().map_or(0, |address| address.port());
        let mut connections = JoinSet::new();
        loop {
            let accept = async {
                let permit = self.permits.clone().acquire_owned().await;
                (permit, listener.accept().await)
            };
            let mut stopped = self.stopped.clone();
            tokio::select! {
                (permit, accepted) = accept => match (permit, accepted) {
                    (Ok(permit), Ok((stream, peer))) => {
                        let client = Client { peer: peer.ip().to_canonical(), is_tls: self.tls.is_some(), port };
                        let connection = Connection { client, permit: Arc::new(permit) };
                        connections.spawn(self.clone().connection(stream, connection));
                    }
                    (_, Err(error)) => {
                        tracing::debug!(port, %error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_RETRY).await;
                    }
                    (Err(_), Ok(_)) => {}
                },
                Some(_) = connections.join_next() => {}
                () = stop(&mut stopped) => break,
            }
        }
        drop(listener);
        let all = async { while connections.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_TIMEOUT, all).await.is_err() {
            tracing::info!(
                port,
                "requests through the Ingress controller did not end in time and are cancelled"
            );
        }
    }

    async fn connection(mut self, stream: TcpStream, connection: Connection) {
        keep_alive(&stream);
        let peer = connection.client.peer;
        let ended = match self.tls.take() {
            None => self.serve(stream, connection, false).await,
            Some(config) => {
                let accepted = TlsAcceptor::from(config).accept(stream);
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, accepted).await {
                    Ok(Ok(stream)) => {
                        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                        self.serve(stream, connection, is_http2).await
                    }
                    Ok(Err(error)) => Err(error.into()),
                    Err(error) => Err(error.into()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection to the Ingress controller ended early");
        }
    }

    async fn serve(
        mut self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        connection: Connection,
        is_http2: bool,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (requests, proxy) = (Arc::new(IdleTracker::default()), self.proxy.clone());
        let begun = requests.clone();
        let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
            let (in_flight, proxy, connection) = (begun.begin(), proxy.clone(), connection.clone());
            async move {
                let response = proxy.answer(request, &connection).await;
                Ok::<_, Infallible>(response.map(|body| Body::new(GuardedBody::new(body, in_flight))))
            }
        });
        let builder = builder(is_http2);
        let mut serving = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        tokio::select! {
            ended = &mut serving => return ended,
            () = requests.idle(), if is_http2 => {}
            () = stop(&mut self.stopped) => {}
        }
        serving.as_mut().graceful_shutdown();
        serving.await
    }
}

/// Waits until the kubelet stops. It keeps no reference to the value, which other threads could not take over.
pub async fn stop(stopped: &mut watch::Receiver<bool>) {
    drop(stopped.wait_for(|stopped| *stopped).await);
}

fn builder(is_http2: bool) -> Builder<TokioExecutor> {
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST)
        .keep_alive_interval(HEADER_TIMEOUT)
        .keep_alive_timeout(HANDSHAKE_TIMEOUT);
    builder
}
