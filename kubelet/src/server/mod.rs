//! The node's API: Kubernetes objects and the classic endpoints, on the local socket for its owner and over HTTPS for masters;
//! `/healthz` alone over plain HTTP.

mod channels;
mod classic;
mod container;
mod exec;
mod forward;
mod guard;
mod health;
mod logs;
mod serving;
mod session;
mod socket;
mod spdy;
mod stats;
mod upgrade;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::{Api, Catalog, Version, tls};
use axum::Router;
use axum::routing::{any, get, post};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::health::Health;
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use crate::stats::Meter;
use crate::status::Board;
use crate::status::resources;
pub use serving::{Error as ServingError, Files, Serving};
pub use socket::{Error, RootDir};

/// The Kubernetes version whose API is held.
pub const VERSION: Version =
    Version { major: "1", minor: "36", git_version: concat!("v1.36.0+coracle-", env!("CARGO_PKG_VERSION")) };

/// What the API shows and reaches.
#[derive(Clone)]
pub struct Context {
    /// The objects.
    pub board: Arc<Board>,
    /// Logs and commands.
    pub runtime: Arc<dyn Runtime>,
    /// Whether all is well.
    pub health: Arc<Health>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What is used.
    pub stats: Arc<Meter>,
    /// The settings in force, as a KubeletConfiguration.
    pub configuration: Arc<Value>,
    /// How long a session, or a forwarded connection, goes on in which nothing moves.
    pub streaming_idle: Duration,
}

/// Every path of the node's API.
pub fn router(context: &Context) -> Router {
    let api = Api::new(context.board.store().clone(), Catalog::new(resources::all()), VERSION);
    Router::new()
        .route("/api/v1/namespaces/{namespace}/pods/{name}/log", get(logs::subresource))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/exec", any(exec::exec))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/attach", any(exec::attach))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/portforward", any(forward::forward))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(logs::classic))
        .route("/exec/{namespace}/{pod}/{container}", any(exec::exec))
        .route("/attach/{namespace}/{pod}/{container}", any(exec::attach))
        .route("/portForward/{namespace}/{pod}", any(forward::forward))
        .route("/run/{namespace}/{pod}/{container}", post(exec::run))
        .route("/pods", get(classic::pods))
        .route("/runningpods", get(classic::running_pods))
        .route("/runningpods/", get(classic::running_pods))
        .route("/configz", get(classic::configuration))
        .route("/metrics", get(classic::metrics))
        .route("/metrics/resource", get(stats::resource))
        .route("/stats/summary", get(stats::summary))
        .with_state(context.clone())
        .merge(health::router(&context.health))
        .merge(api.router())
}

/// Serves the local socket until told to stop.
///
/// # Errors
/// When the socket cannot be made.
pub async fn serve_socket(
    root_dir: &RootDir,
    context: &Context,
    shutdown: watch::Receiver<bool>,
) -> Result<(), Error> {
    let listener = root_dir.listen()?;
    apiserver::serve(listener, router(context), shutdown).await;
    Ok(())
}

/// Serves everything over HTTPS to those who may, until told to stop.
pub async fn serve_https(
    listener: TcpListener,
    context: &Context,
    config: watch::Receiver<Arc<tls::Config>>,
    shutdown: watch::Receiver<bool>,
) {
    tls::serve(listener, guard::guarded(router(context)), config, shutdown).await;
}

/// Serves `/healthz` and nothing else until told to stop.
///
/// # Errors
/// When the address cannot be had.
pub async fn serve_health(
    address: SocketAddr,
    health: &Arc<Health>,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    apiserver::serve(listener, health::router(health), shutdown).await;
    Ok(())
}

#[cfg(test)]
mod tests;
