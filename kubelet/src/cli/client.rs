//! HTTP client for the running kubelet's Unix socket.

use std::io;
use std::path::PathBuf;

use ::client::transport::{self, Body};
use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::net::UnixStream;

use super::print::visible;

/// Largest response that is read into memory, in bytes. A list of all pods of a full node is about a tenth of it.
const ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// The reason why a request to the kubelet failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No kubelet listens on the socket.
    #[error(
        "no kubelet runs on {root_dir}: start one with `kubelet run --root-dir {root_dir}`, or specify another \
         --root-dir"
    )]
    NotRunning {
        /// The root directory.
        root_dir: String,
    },
    /// The caller may not open the socket.
    #[error("permission denied on {socket}: run this command as the user that runs the kubelet")]
    NotAllowed {
        /// Path of the socket.
        socket: String,
    },
    /// The kubelet rejected the request.
    #[error("Error from server{}: {message}", in_parentheses(.reason))]
    Refused {
        /// HTTP status code.
        code: u16,
        /// Reason of the `Status`, one word.
        reason: String,
        /// Message of the `Status`.
        message: String,
    },
    /// The connection failed.
    #[error("the kubelet did not answer: {0}; is it still running?")]
    Broken(String),
}

fn in_parentheses(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(" ({reason})") }
}

impl Error {
    /// Whether the server answered 404.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
}

/// A client of one kubelet.
#[derive(Clone, Debug)]
pub struct Client {
    root_dir: PathBuf,
}

impl Client {
    /// Creates a client of the kubelet with this root directory.
    pub fn new(root_dir: PathBuf) -> Self {
        Self { root_dir }
    }

    /// Opens a new connection.
    ///
    /// # Errors
    /// If no kubelet listens, or the caller may not open the socket.
    pub async fn connect(&self) -> Result<UnixStream, Error> {
        let socket = self.root_dir.join("kubelet.sock");
        command::check_socket_path(&socket, "--root-dir").map_err(Error::Broken)?;
        UnixStream::connect(&socket).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                Error::NotRunning { root_dir: self.root_dir.display().to_string() }
            }
            io::ErrorKind::PermissionDenied => Error::NotAllowed { socket: socket.display().to_string() },
            _ => Error::Broken(format!("{}: {error}", socket.display())),
        })
    }

    /// Sends a GET request. The caller reads the body of the response.
    ///
    /// # Errors
    /// If the connection fails, or the kubelet rejects the request.
    pub async fn get(&self, path: &str, accept: &str) -> Result<Response<Body>, Error> {
        let broken = |error: hyper::Error| Error::Broken(error.to_string());
        let stream = self.connect().await?;
        let request = Request::get(path)
            .header(header::HOST, "kubelet")
            .header(header::ACCEPT, accept)
            .body(Bytes::new())
            .map_err(|error| Error::Broken(error.to_string()))?;
        let answer = transport::send_on(stream, request).await.map_err(broken)?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let code = answer.status().as_u16();
        let body = whole(answer).await?;
        Err(refused(code, &body))
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// If the connection fails, or the kubelet rejects the request.
    pub async fn watch(&self, path: &str, accept: &str) -> Result<Watch, Error> {
        Ok(Watch { body: self.get(path, accept).await?.into_body(), pending: Vec::new() })
    }

    /// Sends a write request. Returns the object in the response.
    ///
    /// # Errors
    /// If the connection fails, the kubelet rejects the request, or the response is not JSON.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        media_type: &str,
        object: &Value,
    ) -> Result<Value, Error> {
        let stream = self.connect().await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "kubelet")
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, media_type)
            .body(Bytes::from(object.to_string()))
            .map_err(|error| Error::Broken(error.to_string()))?;
        let answer = transport::send_on(stream, request).await;
        let answer = answer.map_err(|error| Error::Broken(error.to_string()))?;
        let (is_success, code) = (answer.status().is_success(), answer.status().as_u16());
        let body = whole(answer).await?;
        if !is_success {
            return Err(refused(code, &body));
        }
        serde_json::from_slice(&body).map_err(|error| Error::Broken(error.to_string()))
    }

    /// Gets an object or a list as JSON.
    ///
    /// # Errors
    /// If the connection fails, the kubelet rejects the request, or the response is not JSON.
    pub async fn json(&self, path: &str, accept: &str) -> Result<Value, Error> {
        let body = whole(self.get(path, accept).await?).await?;
        serde_json::from_slice(&body).map_err(|error| Error::Broken(error.to_string()))
    }
}

/// The events of a watch.
pub struct Watch {
    body: Body,
    /// Bytes of lines that were not returned yet.
    pending: Vec<u8>,
}

impl Watch {
    /// Type and object of the next event, or `None` if the watch ends.
    ///
    /// # Errors
    /// If the connection fails, or a line is not JSON.
    pub async fn next(&mut self) -> anyhow::Result<Option<(String, Value)>> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line)?;
                let kind = event.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
                return Ok(Some((kind, event.get_mut("object").map(Value::take).unwrap_or_default())));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            if let Ok(data) = frame?.into_data() {
                self.pending.extend_from_slice(&data);
            }
        }
    }
}

/// Turns the body of an error response into an error.
pub fn refused(code: u16, body: &[u8]) -> Error {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| status.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let message = match text("message") {
        empty if empty.is_empty() => String::from_utf8_lossy(body).trim().to_owned(),
        message => message,
    };
    let reason = visible(&text("reason")).into_owned();
    Error::Refused { code, reason, message: visible(&message).into_owned() }
}

async fn whole(answer: Response<Body>) -> Result<Bytes, Error> {
    let body = http_body_util::Limited::new(answer.into_body(), ANSWER_BYTES);
    let body = body.collect().await.map_err(|error| Error::Broken(error.to_string()))?;
    Ok(body.to_bytes())
}
