//! Tells a running master that files of its directory are others now.

use std::path::Path;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use http::StatusCode;
use tokio::sync::{mpsc, oneshot};

use super::fetch::ask;
use super::{RELOAD, SOCKET};

/// Who asks to look, each with where to say how it went.
pub type Reloads = mpsc::Receiver<oneshot::Sender<Result<(), String>>>;
/// Askers at once; the next waits.
const ASKERS: usize = 4;

/// What is served on the socket, `POST /reload`, and who is told of it.
pub fn reloading() -> (Router, Reloads) {
    let (tell, told) = mpsc::channel(ASKERS);
    let answer = async move || {
        let (say, said) = oneshot::channel();
        let asked: Result<(), mpsc::error::SendError<_>> = tell.send(say).await;
        match (asked, said.await) {
            (Ok(()), Ok(Ok(()))) => StatusCode::OK.into_response(),
            (Ok(()), Ok(Err(why))) => refused(why),
            _ => refused("the master is stopping".to_owned()),
        }
    };
    (Router::new().route(RELOAD, post(answer)), told)
}

fn refused(why: String) -> Response {
    (StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
}

/// Has the master of a directory take up its files; false where none runs.
///
/// # Errors
/// When it cannot, and goes on with those of before.
pub async fn reload(data_dir: &Path) -> anyhow::Result<bool> {
    if tokio::net::UnixStream::connect(data_dir.join(SOCKET)).await.is_err() {
        return Ok(false);
    }
    ask(data_dir, RELOAD).await.map(|_| true)
}
