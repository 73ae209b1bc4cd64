//! Backup and restore of the object store.
//!
//! A running master sends backups through a socket in its data directory. For a restore, the master must be
//! stopped. A backup contains all objects and the revision, for either storage backend, but no certificates.
//! `restore` writes it into an embedded store.
//!
//! The same socket makes a running master reload the certificates in its data directory.

mod fetch;
mod restore;
mod socket;

#[cfg(test)]
mod tests;

use std::path::Path;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http::StatusCode;
use tokio::sync::{mpsc, oneshot};

use self::fetch::send_request;

pub use self::fetch::fetch;
pub use self::restore::restore;
pub use self::socket::{BackupSocket, router};

/// Name of the socket in the data directory. It exists while the master is running.
pub const SOCKET: &str = "master.sock";
/// Path of the backup endpoint.
const PATH: &str = "/backup";
/// Path of the endpoint that reloads certificates.
const RELOAD: &str = "/reload";
/// Response header with the revision of the backup.
const REVISION: &str = "x-revision";

/// Reload requests, each with a channel for the result.
pub type Reloads = mpsc::Receiver<oneshot::Sender<Result<(), String>>>;
/// Maximum number of queued requests. Further ones wait.
const ASKERS: usize = 4;

/// Creates the route `POST /reload`, and the receiver of its requests.
pub fn reloading() -> (Router, Reloads) {
    let (reloads, receiver) = mpsc::channel(ASKERS);
    let answer = async move || {
        let (respond, outcome) = oneshot::channel();
        let sent: Result<(), mpsc::error::SendError<_>> = reloads.send(respond).await;
        match (sent, outcome.await) {
            (Ok(()), Ok(Ok(()))) => StatusCode::OK.into_response(),
            (Ok(()), Ok(Err(why))) => refused(why),
            _ => refused("the master is stopping".to_owned()),
        }
    };
    (Router::new().route(RELOAD, post(answer)), receiver)
}

fn refused(why: String) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
}

/// Makes the master on `data_dir` reload its certificates. Returns false if none is running.
///
/// # Errors
/// If the master cannot reload them. It then keeps using the old ones.
pub async fn reload(data_dir: &Path) -> anyhow::Result<bool> {
    if tokio::net::UnixStream::connect(data_dir.join(SOCKET)).await.is_err() {
        return Ok(false);
    }
    send_request(data_dir, RELOAD).await.map(|_| true)
}
