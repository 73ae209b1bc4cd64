//! TLS connections: every handshake in the task of its own connection, so that a slow one holds up nobody.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::StatusCode;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt as _;

use super::believed::{Believed, Cut};
use super::brisk::Brisk;
use super::busy::Busy;
use super::config::Config;
use crate::Identity;
use crate::held::Held;
use crate::serve::{DRAIN, HEADER_TIMEOUT, accept, told_to_stop};
use crate::unread;

/// How long a handshake may take: a few round trips over the worst of networks.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests and watches at once on one HTTP/2 connection; a client that wants more opens a second one.
const STREAMS: u32 = 250;
/// What a client may send ahead, of one request and of all on an HTTP/2 connection: it is held while requests wait to be let in. Large
/// enough for a link of 1 Gbit/s and a round trip of 2 ms.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 256 << 10;
/// A connection that was silent for so long is tried by the kernel, which gives up some minutes later.
const QUIET: Duration = Duration::from_secs(60);
/// A silent HTTP/2 client is asked so often whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long its answer may take.
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Serves TLS connections until `shutdown` becomes true or its sender is gone.
///
/// Every connection begins with the latest configuration: a new one swaps certificates without a dropped connection, but for
/// those of clients for which none of its authorities stands any more: they end once what is under way is answered.
/// The sender of `config` may go, the last configuration stays in force.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    configs: watch::Receiver<Arc<Config>>,
    shutdown: watch::Receiver<bool>,
) {
    let stopped = shutdown.clone();
    accept(listener, shutdown, |stream, peer| {
        let served = connection(stream, peer.ip(), configs.clone(), router.clone(), stopped.clone());
        async move {
            if let Err(error) = served.await {
                tracing::debug!(%peer, error, "a connection ended early");
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
) -> Result<(), String> {
    keep_alive(&stream);
    let acceptor = TlsAcceptor::from(configs.borrow_and_update().server().clone());
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)) => shaken,
        () = told_to_stop(&mut shutdown) => return Ok(()),
    };
    let stream = shaken
        .map_err(|_| "the handshake took too long".to_owned())?
        .map_err(|error| format!("handshake: {error}"))?;
    // One socket for both families writes the addresses of one in those of the other.
    let identity = Identity { peer: Some(peer.to_canonical()), ..identity(&stream) };
    // What was agreed on in the handshake decides; nobody is waited for to see how he begins.
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let builder = builder(is_http2);
    let (busy, upgraded) = (Arc::new(Busy::default()), Arc::new(AtomicBool::new(false)));
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let believed = Believed::new(chain, configs);
    let cut = Cut::of(believed.clone());
    let stream = TokioIo::new(Brisk::new(stream, upgraded.clone(), cut));
    let used = busy.clone();
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let (router, identity) = (router.clone(), identity.clone());
        let (asked, upgraded) = (used.asked(), upgraded.clone());
        async move {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(identity);
            let response = if is_http2 {
                router.oneshot(request).await
            } else {
                unread::answered(router, request).await
            };
            let response = response.map_err(|never: Infallible| never)?;
            upgraded.fetch_or(response.status() == StatusCode::SWITCHING_PROTOCOLS, Ordering::Relaxed);
            Ok::<_, Infallible>(response.map(|body| Held::new(body, asked)))
        }
    });
    let mut connection = pin!(builder.serve_connection_with_upgrades(stream, service));
    let mut lost = pin!(believed.lost());
    let is_lost = tokio::select! {
        ended = &mut connection => return ended.map_err(|error| error.to_string()),
        () = told_to_stop(&mut shutdown) => false,
        () = busy.idle() => false,
        () = &mut lost => true,
    };
    connection.as_mut().graceful_shutdown();
    if !is_lost {
        // What came in that moment is answered, and may be a watch.
        tokio::select! {
            ended = &mut connection => return ended.map_err(|error| error.to_string()),
            () = lost => {}
        }
    }
    // Watches and followed logs do not end by themselves.
    let ended = tokio::time::timeout(DRAIN, connection).await;
    ended.map_err(|_| "its client is not believed any more".to_owned())?.map_err(|error| error.to_string())
}

/// Sees to it that small pieces do not wait for more of them, and that a machine that is gone without a word is found out
/// even where nothing is sent to it.
pub fn keep_alive(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_keepalive(stream, true);
    let _ = sockopt::set_tcp_keepidle(stream, QUIET);
}

fn builder(is_http2: bool) -> Builder<TokioExecutor> {
    let builder = Builder::new(TokioExecutor::new());
    let mut builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// Whoever the certificate names that the handshake has verified; anonymous without one.
fn identity(stream: &TlsStream<TcpStream>) -> Identity {
    let certificates = stream.get_ref().1.peer_certificates();
    certificates
        .and_then(<[_]>::first)
        .and_then(|certificate| Identity::of_certificate(certificate))
        .unwrap_or_else(Identity::anonymous)
}
