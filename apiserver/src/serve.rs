//! Any router on any listener, until it is told to stop.

use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::serve::Listener;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::unread;

/// How long a client may take to send the head of a request.
pub(crate) const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections served at once; the next ones wait in the kernel's queue. Twice the watches a big cluster's master is asked for.
const CONNECTIONS: usize = 20_000;
/// How long answers under way get to end once the server stops, or does not believe their client any more; watches and followed logs never do by themselves.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);

/// Serves connections until `shutdown` becomes true or its sender is gone.
pub async fn serve<L: Listener>(listener: L, router: Router, shutdown: watch::Receiver<bool>) {
    let stopped = shutdown.clone();
    accept(listener, shutdown, |stream, _| connection(stream, router.clone(), stopped.clone())).await;
}

/// Gives every connection a task of its own until `shutdown` becomes true or its sender is gone, then waits a while for them.
pub(crate) async fn accept<L: Listener, F: Future<Output = ()> + Send + 'static>(
    mut listener: L,
    mut shutdown: watch::Receiver<bool>,
    connection: impl Fn(L::Io, L::Addr) -> F,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            (stream, peer) = listener.accept(), if connections.len() < CONNECTIONS => {
                connections.spawn(connection(stream, peer));
            }
            Some(_) = connections.join_next() => {}
            () = told_to_stop(&mut shutdown) => break,
        }
    }
    drop(listener);
    // What is left after the drain ends with the set.
    let _ = tokio::time::timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
}

async fn connection(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    router: Router,
    mut shutdown: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        unread::answered(router.clone(), request.map(Body::new))
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = pin!(connection);
    let mut ended = tokio::select! {
        ended = &mut connection => Some(ended),
        () = told_to_stop(&mut shutdown) => None,
    };
    if ended.is_none() {
        connection.as_mut().graceful_shutdown();
        ended = Some(connection.await);
    }
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Waits until `shutdown` becomes true or its sender is gone.
pub(crate) async fn told_to_stop(shutdown: &mut watch::Receiver<bool>) {
    let _ = shutdown.wait_for(|stop| *stop).await;
}
