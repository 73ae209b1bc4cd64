//! The kubelet's server: the Kubernetes API of this node and the kubelet endpoints. It listens on a local socket
//! for the owner of the node, over HTTPS for API servers, and over plain HTTP only for `/healthz`.

mod attach;
mod authz;
mod channels;
mod container;
mod exec;
mod forward;
mod legacy;
mod local_volumes;
mod logs;
mod metrics_api;
mod serving;
mod session;
mod socket;
mod spdy;
mod upgrade;
mod websocket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apiserver::websocket::with_websockets;
use apiserver::{Api, tls};
use axum::Router;
use axum::extract::State;
use axum::routing::{any, delete, get, post};
use http::StatusCode;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::health::Health;
use crate::local_ca::ViewerTokens;
use crate::metrics::Metrics;
use crate::runtime::Runtime;
use crate::stats::StatsProvider;
use crate::status::StatusManager;
use crate::volumes::Volumes;
pub use serving::{Error as ServingError, Files, ServingCertificates};
pub use socket::{Error, RootDir};

/// State that the handlers share.
#[derive(Clone)]
pub struct Context {
    /// Pods, events and the Node.
    pub status_manager: Arc<StatusManager>,
    /// The API of all objects.
    pub api: Arc<Api>,
    /// The container runtime, for logs and commands.
    pub runtime: Arc<dyn Runtime>,
    /// Health of the kubelet's loops.
    pub health: Arc<Health>,
    /// Metrics registry.
    pub metrics: Arc<Metrics>,
    /// Resource usage.
    pub stats: Arc<StatsProvider>,
    /// The effective configuration as a KubeletConfiguration.
    pub configuration: Arc<Value>,
    /// The volumes of this node, for the deletion of local ones.
    pub volumes: Arc<Volumes>,
    /// Idle timeout of sessions and forwarded connections.
    pub streaming_idle: Duration,
}

/// The router of all endpoints.
pub fn router(context: &Context) -> Router {
    let router = Router::new()
        .route("/api/v1/namespaces/{namespace}/pods/{name}/log", get(logs::subresource))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/exec", any(exec::exec))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/attach", any(exec::attach))
        .route("/api/v1/namespaces/{namespace}/pods/{name}/portforward", any(forward::forward))
        .route("/containerLogs/{namespace}/{pod}/{container}", get(logs::container_logs))
        .route("/exec/{namespace}/{pod}/{container}", any(exec::exec))
        .route("/attach/{namespace}/{pod}/{container}", any(exec::attach))
        .route("/portForward/{namespace}/{pod}", any(forward::forward))
        .route("/run/{namespace}/{pod}/{container}", post(exec::run))
        .route("/localVolumes/{volume}", delete(local_volumes::delete))
        .route("/pods", get(legacy::pods))
        .route("/runningpods", get(legacy::running_pods))
        .route("/runningpods/", get(legacy::running_pods))
        .route("/configz", get(legacy::configuration))
        .route("/metrics", get(legacy::metrics))
        .route("/metrics/resource", get(legacy::resource_metrics))
        .route("/stats/summary", get(legacy::summary))
        .with_state(context.clone())
        .merge(health_router(&context.health))
        .merge(metrics_api::router(context))
        .merge(apiserver::ui::router())
        .merge(context.api.router());
    with_websockets(router)
}

/// Serves the local socket until shutdown.
///
/// # Errors
/// If the socket cannot be created.
pub async fn serve_socket(
    root_dir: &RootDir,
    context: &Context,
    shutdown: watch::Receiver<bool>,
) -> Result<(), Error> {
    let listener = root_dir.listen()?;
    apiserver::serve(listener, router(context), shutdown).await;
    Ok(())
}

/// Serves all endpoints over HTTPS with authorization, until shutdown. Clients have a certificate or one of `tokens`.
pub async fn serve_https(
    listener: TcpListener,
    context: &Context,
    tokens: Arc<ViewerTokens>,
    config: watch::Receiver<Arc<tls::Config>>,
    shutdown: watch::Receiver<bool>,
) {
    tls::serve(listener, authz::with_authorization(router(context), tokens), config, shutdown).await;
}

/// Serves only `/healthz` until shutdown.
///
/// # Errors
/// If the address cannot be bound.
pub async fn serve_health(
    address: SocketAddr,
    health: &Arc<Health>,
    shutdown: watch::Receiver<bool>,
) -> io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    apiserver::serve(listener, health_router(health), shutdown).await;
    Ok(())
}

/// Serves `/healthz`, `/livez` and `/readyz`.
fn health_router(health: &Arc<Health>) -> Router {
    Router::new()
        .route("/healthz", get(answer_health))
        .route("/livez", get(answer_health))
        .route("/readyz", get(answer_health))
        .with_state(health.clone())
}

async fn answer_health(State(health): State<Arc<Health>>) -> (StatusCode, String) {
    let stuck = health.stuck();
    if stuck.is_empty() {
        return (StatusCode::OK, "ok".to_owned());
    }
    let lines: String = stuck.iter().map(|name| format!("[-]{name} failed: no progress in time\n")).collect();
    (StatusCode::INTERNAL_SERVER_ERROR, format!("{lines}healthz check failed\n"))
}

#[cfg(test)]
mod tests {
    //! Tests of the kubelet's server over its socket, with a fake engine.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    mod bed;
    mod exec;
    mod forward;
    mod read;
    mod socket;
    mod spdy;
    mod stuck;
}
