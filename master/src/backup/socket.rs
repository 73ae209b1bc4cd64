//! The Unix socket of a running master with the backup endpoint. Only its owner can access it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apiserver::Status;
use apiserver::storage::{Error, Store};
use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use bytes::Bytes;
use futures_util::stream;
use http::{StatusCode, header};
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixListener;
use tokio::sync::Semaphore;

use super::{PATH, REVISION, SOCKET};

/// Size of a chunk of the response.
const CHUNK_BYTES: usize = 256 * 1024;
/// Temporary name of the socket. It must not be longer than the final one, because socket paths have a length limit.
const NEWBORN: &str = ".sock.new";
/// Temporary file of a backup in progress. The next backup replaces a file that is left.
const COPY: &str = "backup.copy";

/// The socket. It is removed on drop.
#[derive(Debug)]
pub struct BackupSocket {
    path: PathBuf,
}

impl BackupSocket {
    /// Listens in a directory, and replaces a stale socket.
    ///
    /// # Errors
    /// If the socket cannot be created, for example because its path is too long.
    pub fn open(directory: &Path) -> io::Result<(Self, UnixListener)> {
        let path = directory.join(SOCKET);
        command::check_socket_path(&path, "--data-dir").map_err(io::Error::other)?;
        // The directory is accessible to its owner only, and so is the socket before it is renamed.
        let newborn = directory.join(NEWBORN);
        match fs::remove_file(&newborn) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&newborn)?;
        fs::set_permissions(&newborn, Permissions::from_mode(0o600))?;
        fs::rename(&newborn, &path)?;
        Ok((Self { path }, listener))
    }
}

impl Drop for BackupSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The route `POST /backup`.
pub fn router(store: Arc<dyn Store>, directory: &Path) -> Router {
    // The disk may have room for one copy only.
    let (turn, copy) = (Arc::new(Semaphore::new(1)), directory.join(COPY));
    let answer = move || {
        let (store, turn, copy) = (store.clone(), turn.clone(), copy.clone());
        async move {
            let Ok(_turn) = turn.acquire().await else { return refused(&Error::Closed) };
            backup(&*store, &copy).await.unwrap_or_else(|error| refused(&error))
        }
    };
    Router::new().route(PATH, post(answer)).fallback(|| async { Status::no_such_path() })
}

/// Creates a copy and starts to send it. The file is unlinked before it is sent, so that it disappears with the
/// process at the latest.
async fn backup(store: &dyn Store, copy: &Path) -> Result<Response, Error> {
    let failed = |error: io::Error| Error::Failed {
        file: copy.to_owned(),
        reason: error.to_string(),
        source: Some(Arc::new(error)),
    };
    remove_if_there(copy).await.map_err(failed)?;
    let before = store.revision().await?;
    store.backup(copy).await?;
    let file = File::open(copy).await.map_err(failed)?;
    remove_if_there(copy).await.map_err(failed)?;
    let length = file.metadata().await.map_err(failed)?.len();
    tracing::info!(bytes = length, revision = before, "sending a backup");
    let headers = [(header::CONTENT_LENGTH, length.to_string())];
    Ok((headers, [(REVISION, before.to_string())], body(file)).into_response())
}

fn body(file: File) -> Body {
    Body::from_stream(stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = file.read(&mut chunk).await?;
        chunk.truncate(read);
        Ok::<_, io::Error>((read > 0).then(|| (Bytes::from(chunk), file)))
    }))
}

fn refused(error: &Error) -> Response {
    tracing::warn!(%error, "a backup failed");
    (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response()
}

async fn remove_if_there(path: &Path) -> io::Result<()> {
    match tokio::fs::remove_file(path).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
