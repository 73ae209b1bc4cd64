//! `master backup`: asks the running master for a copy and puts it into a file, whole or not at all.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use super::{PATH, REVISION, SOCKET};

/// Longest refusal that is read.
const REFUSAL_BYTES: usize = 64 * 1024;

/// Writes a backup of the master that runs on a directory into a new file; says what it is.
///
/// # Errors
/// When no master runs there, the file is there already, or it cannot be written.
pub async fn fetch(data_dir: &Path, file: &Path) -> anyhow::Result<String> {
    if tokio::fs::try_exists(file).await.with_context(|| file.display().to_string())? {
        bail!(
            "{} is there already and is never overwritten: move it away, or name another file",
            file.display()
        );
    }
    let response = ask(data_dir, PATH).await?;
    let revision =
        response.headers().get(REVISION).and_then(|value| value.to_str().ok()).unwrap_or("?").to_owned();
    let partial = partial(file);
    let written = write(response, &partial).await;
    let placed = match written {
        Ok(bytes) => place(&partial, file).await.map(|()| bytes),
        Err(error) => Err(error),
    };
    if placed.is_err() {
        // What is there of it is of no use to anybody.
        let _ = tokio::fs::remove_file(&partial).await;
    }
    let bytes = placed.with_context(|| format!("cannot write {}", file.display()))?;
    Ok(format!(
        "{}: {bytes} bytes, all objects of revision {revision} or later. Certificates are not in it: keep {} too.\n",
        file.display(),
        data_dir.join("pki").display()
    ))
}

/// Asks the master that runs on a directory for something on its socket.
pub(super) async fn ask(data_dir: &Path, of: &str) -> anyhow::Result<Response<Incoming>> {
    let path = data_dir.join(SOCKET);
    command::socket_fits(&path, "--data-dir").map_err(anyhow::Error::msg)?;
    let stream = match UnixStream::connect(&path).await {
        Ok(stream) => stream,
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => bail!(
                "no master runs on {}: start one with `master run --data-dir {0}`, or name another --data-dir",
                data_dir.display()
            ),
            io::ErrorKind::PermissionDenied => {
                bail!("{} is for its owner alone: run this as the user the master runs as", path.display())
            }
            _ => return Err(error).with_context(|| format!("cannot reach the master at {}", path.display())),
        },
    };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::post(of).header(header::HOST, "master").body(Empty::<Bytes>::new())?;
    let response =
        sender.send_request(request).await.context("the master did not answer; is it still running?")?;
    if response.status() != StatusCode::OK {
        let text = Limited::new(response.into_body(), REFUSAL_BYTES).collect().await;
        let text = text.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        bail!("the master refused: {}", String::from_utf8_lossy(&text));
    }
    Ok(response)
}

/// Writes what comes; a body that ends before its length is an error of the connection.
async fn write(response: Response<Incoming>, partial: &Path) -> anyhow::Result<u64> {
    let mut file = create(partial).await?;
    let mut body = response.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.context("the master stopped in between")?.into_data() else { continue };
        file.write_all(&data).await?;
        bytes += data.len() as u64;
    }
    file.sync_all().await?;
    Ok(bytes)
}

async fn create(partial: &Path) -> io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    // Secrets lie in it. What a backup that was killed left behind is begun anew.
    options.write(true).create(true).truncate(true).mode(0o600);
    OpenOptions::from(options).open(partial).await
}

/// Gives it its name, unless there is one of that name by now.
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
