//! Streaming responses: raw bytes, lines, and Docker's multiplexed stdout and stderr frames.

use std::io::ErrorKind;

use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::Request;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::Docker;
use super::errors::{QUERY_TIMEOUT, classify, classify_status, timed_out};
use super::transport::Body;
use crate::runtime::{Error, Stream};

/// Size of the read buffer, and maximum length of a JSON line, in bytes.
const CHUNK_BYTES: usize = 16 * 1024;
const LONGEST_LINE_BYTES: usize = 1024 * 1024;

pub(super) type Chunks = BoxStream<'static, Result<Bytes, Error>>;

/// Appends a percent-encoded query to a path.
pub(super) fn query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut text = path.to_owned();
    for (index, (key, value)) in pairs.iter().enumerate() {
        text.push(if index == 0 { '?' } else { '&' });
        text.push_str(key);
        text.push('=');
        text.push_str(&client::percent_encoded(value));
    }
    text
}

/// Sends a GET request and returns its body after a success status.
pub(super) async fn get(
    docker: &Docker,
    operation: &'static str,
    what: &str,
    path: &str,
) -> Result<Chunks, Error> {
    let request = Request::get(path).body(Either::Left(Full::default()));
    let body = send_checked(docker, operation, what, request).await?.into_body();
    Ok(body
        .into_data_stream()
        .map(move |chunk| chunk.map_err(|error| classify(operation, "", error.into())))
        .boxed())
}

/// A bidirectional connection to a process.
pub(super) type Pipe = TokioIo<hyper::upgrade::Upgraded>;

/// Sends a POST request that upgrades the connection.
pub(super) async fn hijack(
    docker: &Docker,
    operation: &'static str,
    what: &str,
    path: &str,
    json: String,
) -> Result<Pipe, Error> {
    let request = Request::post(path)
        .header(http::header::CONTENT_TYPE, "application/json")
        .header(http::header::CONNECTION, "Upgrade")
        .header(http::header::UPGRADE, "tcp")
        .body(Either::Left(Full::from(json)));
    let response = send_checked(docker, operation, what, request).await?;
    let upgraded = hyper::upgrade::on(response).await;
    upgraded.map(TokioIo::new).map_err(|error| classify(operation, what, error.into()))
}

async fn send_checked(
    docker: &Docker,
    operation: &'static str,
    what: &str,
    request: Result<Request<Body>, http::Error>,
) -> Result<http::Response<Incoming>, Error> {
    let failed = |error: bollard::errors::Error| classify(operation, what, error);
    let request = request.map_err(|error| failed(error.into()))?;
    let exchange = async {
        let response = docker.transport.send(request).await.map_err(failed)?;
        let status = response.status();
        if status.is_success() || status == http::StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        let body = response.into_body().collect().await.map_err(|error| failed(error.into()))?.to_bytes();
        Err(classify_status(operation, what, status.as_u16(), &refusal(&body)))
    };
    tokio::time::timeout(QUERY_TIMEOUT, exchange)
        .await
        .unwrap_or_else(|_| Err(timed_out(operation, QUERY_TIMEOUT)))
}

fn refusal(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Refusal {
        message: String,
    }
    match serde_json::from_slice::<Refusal>(body) {
        Ok(refusal) => refusal.message,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    }
}

/// Splits a body into lines without line ends. A last line without a line end is dropped.
pub(super) fn lines(
    body: Chunks,
    operation: &'static str,
) -> impl futures_util::Stream<Item = Result<Bytes, Error>> + Send {
    stream::try_unfold((body, BytesMut::new()), move |(mut body, mut held)| async move {
        loop {
            if let Some(end) = held.iter().position(|byte| *byte == b'\n') {
                let line = held.split_to(end).freeze();
                held.advance(1);
                return Ok(Some((line, (body, held))));
            }
            if held.len() > LONGEST_LINE_BYTES {
                return Err(Error::Unreachable {
                    operation,
                    message: "a line exceeds the size limit".to_owned(),
                });
            }
            match body.next().await {
                Some(chunk) => held.extend_from_slice(&chunk?),
                None => return Ok(None),
            }
        }
    })
}

/// The bytes read from an upgraded connection.
///
/// A reset ends the stream like an orderly close. If the engine closes a Unix socket before it has read all input of
/// the process, `read` returns the remaining output first and then `ECONNRESET`. The caller asks for the exit code.
pub(super) fn chunks(read: impl AsyncRead + Send + Unpin + 'static, operation: &'static str) -> Chunks {
    stream::try_unfold((read, BytesMut::new()), move |(mut read, mut held)| async move {
        held.reserve(CHUNK_BYTES);
        match read.read_buf(&mut held).await {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some((held.split().freeze(), (read, held)))),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(None),
            Err(error) => Err(classify(operation, "", error.into())),
        }
    })
    .boxed()
}

/// The output of a process. With a terminal it is raw, otherwise in frames of an eight-byte header and a payload.
/// Payloads are forwarded as they arrive, so that a large one is not buffered.
pub(super) fn output(chunks: Chunks, terminal: bool) -> BoxStream<'static, Result<(Stream, Bytes), Error>> {
    if terminal {
        return chunks.map(|chunk| chunk.map(|chunk| (Stream::Stdout, chunk))).boxed();
    }
    let frames = Frames { left: 0, stream: Stream::Stdout };
    stream::try_unfold(
        (chunks, BytesMut::new(), frames),
        move |(mut chunks, mut held, mut frames)| async move {
            loop {
                if let Some(piece) = frames.next(&mut held) {
                    return Ok(Some((piece, (chunks, held, frames))));
                }
                match chunks.next().await {
                    Some(chunk) => held.extend_from_slice(&chunk?),
                    None => return Ok(None),
                }
            }
        },
    )
    .boxed()
}

/// Decoder state for Docker's frames.
#[derive(Debug)]
struct Frames {
    left: usize,
    stream: Stream,
}

impl Frames {
    const HEAD: usize = 8;

    fn next(&mut self, held: &mut BytesMut) -> Option<(Stream, Bytes)> {
        while self.left == 0 {
            if held.len() < Self::HEAD {
                return None;
            }
            let head = held.split_to(Self::HEAD);
            self.stream = if head[0] == 2 { Stream::Stderr } else { Stream::Stdout };
            self.left = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        }
        if held.is_empty() {
            return None;
        }
        let piece = held.split_to(self.left.min(held.len())).freeze();
        self.left -= piece.len();
        Some((self.stream, piece))
    }
}

#[cfg(test)]
mod tests;
