//! Serves a router on any listener until shutdown.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::serve::Listener;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::drain_body;

/// How long the headers of a request may take.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of connections. Further ones wait in the listen backlog. A large cluster uses about half of them
/// for watches.
const MAX_CONNECTIONS: usize = 20_000;
/// How long requests in flight may take to finish on shutdown, or when the client certificate is no longer trusted.
/// Watches and followed logs do not end by themselves.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);

/// Serves connections until `shutdown` becomes true or its sender is dropped.
pub async fn serve<L: Listener>(listener: L, router: Router, shutdown: watch::Receiver<bool>) {
    let stopped = shutdown.clone();
    accept(listener, shutdown, |stream, _| connection(stream, router.clone(), stopped.clone())).await;
}

/// Runs each connection in its own task until shutdown, then waits up to [`DRAIN`] for them.
pub(crate) async fn accept<L: Listener, F: Future<Output = ()> + Send + 'static>(
    mut listener: L,
    mut shutdown: watch::Receiver<bool>,
    connection: impl Fn(L::Io, L::Addr) -> F,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            (stream, peer) = listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                connections.spawn(connection(stream, peer));
            }
            Some(_) = connections.join_next() => {}
            () = wait_for_shutdown(&mut shutdown) => break,
        }
    }
    drop(listener);
    // Dropping the set aborts the remaining connections.
    let _ = tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
}

async fn connection(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    router: Router,
    mut shutdown: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        drain_body::serve(router.clone(), request.map(Body::new))
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut ended = tokio::select! {
        ended = &mut connection => Some(ended),
        () = wait_for_shutdown(&mut shutdown) => None,
    };
    if ended.is_none() {
        connection.as_mut().graceful_shutdown();
        ended = Some(connection.await);
    }
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Waits until `shutdown` becomes true or its sender is dropped.
pub(crate) async fn wait_for_shutdown(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}
