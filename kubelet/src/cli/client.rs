//! Requests to the running kubelet over its socket.

use std::io;
use std::path::PathBuf;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

/// What answers are read into memory at most; a list of all pods of a full node is a tenth of it.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// Why there is no answer, or not the one that was wished for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens.
    #[error(
        "no kubelet runs on {root_dir}: start one with `kubelet run --root-dir {root_dir}`, or name another --root-dir"
    )]
    NotRunning {
        /// Where the socket should be.
        root_dir: String,
    },
    /// The socket is someone else's.
    #[error("{socket} may be used by its owner only: run this as the user the kubelet runs as")]
    NotAllowed {
        /// The socket.
        socket: String,
    },
    /// The kubelet refused.
    #[error("Error from server{}: {message}", in_parentheses(.reason))]
    Refused {
        /// The HTTP code.
        code: u16,
        /// One word.
        reason: String,
        /// What the server said.
        message: String,
    },
    /// The connection broke.
    #[error("the kubelet did not answer: {0}; is it still running?")]
    Broken(String),
}

fn in_parentheses(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

impl Error {
    /// True when what was asked for does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
}

/// The way to one kubelet.
#[derive(Clone, Debug)]
pub struct Client {
    root_dir: PathBuf,
}

impl Client {
    /// The kubelet with that directory.
    pub fn new(root_dir: PathBuf) -> Self {
        Self { root_dir }
    }

    /// A fresh connection.
    ///
    /// # Errors
    /// When nobody listens.
    pub async fn connect(&self) -> Result<UnixStream, Error> {
        let socket = self.root_dir.join("kubelet.sock");
        command::socket_fits(&socket, "--root-dir").map_err(Error::Broken)?;
        UnixStream::connect(&socket).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Error::NotRunning { root_dir: self.root_dir.display().to_string() }
            }
            io::ErrorKind::PermissionDenied => Error::NotAllowed { socket: socket.display().to_string() },
            _ => Error::Broken(format!("{}: {error}", socket.display())),
        })
    }

    /// Asks; the answer's body is still to come.
    ///
    /// # Errors
    /// When there is no answer, or one that says no.
    pub async fn get(&self, path: &str, accept: &str) -> Result<Response<Incoming>, Error> {
        let broken = |error: hyper::Error| Error::Broken(error.to_string());
        let stream = TokioIo::new(self.connect().await?);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(broken)?;
        tokio::spawn(connection);
        let request = Request::get(path)
            .header(header::HOST, "kubelet")
            .header(header::ACCEPT, accept)
            .body(Empty::<Bytes>::new())
            .map_err(|error| Error::Broken(error.to_string()))?;
        let answer = sender.send_request(request).await.map_err(broken)?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let code = answer.status().as_u16();
        let body = whole(answer).await?;
        Err(refused(code, &body))
    }

    /// Asks for an object or a list.
    ///
    /// # Errors
    /// When there is no answer, one that says no, or one that is no JSON.
    pub async fn json(&self, path: &str, accept: &str) -> Result<Value, Error> {
        let body = whole(self.get(path, accept).await?).await?;
        serde_json::from_slice(&body).map_err(|error| Error::Broken(error.to_string()))
    }
}

/// What a refusal says.
pub fn refused(code: u16, body: &[u8]) -> Error {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = match text("message") {
        empty if empty.is_empty() => String::from_utf8_lossy(body).trim().to_owned(),
        message => message,
    };
    Error::Refused { code, reason: text("reason"), message }
}

async fn whole(answer: Response<Incoming>) -> Result<Bytes, Error> {
    let body = http_body_util::Limited::new(answer.into_body(), ANSWER_BYTES);
    let body = body.collect().await.map_err(|error| Error::Broken(error.to_string()))?;
    Ok(body.to_bytes())
}

/// Takes text into a path or a query.
pub fn escape(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
