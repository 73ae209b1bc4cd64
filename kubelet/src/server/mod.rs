//! The node's API: Kubernetes objects and the classic endpoints, on the local socket; `/healthz` alone over TCP.

mod health;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use apiserver::{Api, Version};
use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::status::Board;
use crate::status::resources::RESOURCES;
pub use health::Health;
pub use socket::{Error, RootDir};

/// The Kubernetes version whose API is held.
pub const VERSION: Version =
    Version { major: "1", minor: "36", git_version: concat!("v1.36.0+coracle-", env!("CARGO_PKG_VERSION")) };

/// What the API shows and reaches.
#[derive(Clone, Debug)]
pub struct Context {
    /// The objects.
    pub board: Arc<Board>,
    /// Whether all is well.
    pub health: Arc<Health>,
}

/// Every path of the node's API.
pub fn router(context: &Context) -> Router {
    let api = Api::new(context.board.store().clone(), RESOURCES, VERSION);
    api.router().merge(health::router(&context.health))
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
