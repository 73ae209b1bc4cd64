//! `master backup`: requests a backup from the running master and writes it to a file atomically.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use client::transport::{self, Body};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use super::{PATH, REVISION, SOCKET};

/// Maximum size of an error response that is read, in bytes.
const REFUSAL_BYTES: usize = 64 * 1024;

/// Writes a backup of the master on `data_dir` to a new file and returns a summary.
///
/// # Errors
/// If no master is running, the file exists, or it cannot be written.
pub async fn fetch(data_dir: &Path, file: &Path) -> anyhow::Result<String> {
    if tokio::fs::try_exists(file).await.with_context(|| file.display().to_string())? {
        bail!(
            "{} already exists and is not overwritten: move it away, or use another file name",
            file.display()
        );
    }
    let response = send_request(data_dir, PATH).await?;
    let revision =
        response.headers().get(REVISION).and_then(|value| value.to_str().ok()).unwrap_or("?").to_owned();
    let partial = partial(file);
    let written = write(response, &partial).await;
    let placed = match written {
        Ok(bytes) => place(&partial, file).await.map(|()| bytes),
        Err(error) => Err(error),
    };
    if placed.is_err() {
        // A partial backup is useless.
        let _ = tokio::fs::remove_file(&partial).await;
    }
    let bytes = placed.with_context(|| format!("cannot write {}", file.display()))?;
    Ok(format!(
        "{}: {bytes} bytes, all objects of revision {revision} or later. It does not contain certificates: keep {} too.\n",
        file.display(),
        data_dir.join("pki").display()
    ))
}

/// Sends a POST request to the socket of the running master.
pub(super) async fn send_request(data_dir: &Path, of: &str) -> anyhow::Result<Response<Body>> {
    let path = data_dir.join(SOCKET);
    command::check_socket_path(&path, "--data-dir").map_err(anyhow::Error::msg)?;
    let stream = match UnixStream::connect(&path).await {
        Ok(stream) => stream,
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => bail!(
                "no master runs on {}: start one with `master run --data-dir {0}`, or use another --data-dir",
                data_dir.display()
            ),
            io::ErrorKind::PermissionDenied => {
                bail!(
                    "{} is accessible to its owner only: run this command as the user of the master",
                    path.display()
                )
            }
            _ => return Err(error).with_context(|| format!("cannot reach the master at {}", path.display())),
        },
    };
    let request = Request::post(of).header(header::HOST, "master").body(Bytes::new())?;
    let response = transport::send_on(stream, request).await;
    let response = response.context("the master did not answer; is it still running?")?;
    if response.status() != StatusCode::OK {
        let text = Limited::new(response.into_body(), REFUSAL_BYTES).collect().await;
        let text = text.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        bail!("the master refused: {}", String::from_utf8_lossy(&text));
    }
    Ok(response)
}

/// Writes the response body. A body that is shorter than its length is an error.
async fn write(response: Response<Body>, partial: &Path) -> anyhow::Result<u64> {
    let mut file = create(partial).await?;
    let mut body = response.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("the master stopped during the backup")?.into_data() else { continue };
        file.write_all(&data).await?;
        bytes += data.len() as u64;
    }
    file.sync_all().await?;
    Ok(bytes)
}

async fn create(partial: &Path) -> io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    // The backup contains Secrets. A leftover of an interrupted backup is overwritten.
    options.write(true).create(true).truncate(true).mode(0o600);
    OpenOptions::from(options).open(partial).await
}

/// Renames the file, unless the target exists by now.
async fn place(partial: &Path, file: &Path) -> anyhow::Result<()> {
    tokio::fs::hard_link(partial, file).await?;
    tokio::fs::remove_file(partial).await?;
    let directory = file.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(directory).await?.sync_all().await?)
}

fn partial(file: &Path) -> PathBuf {
    let mut name: OsString = file.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}
