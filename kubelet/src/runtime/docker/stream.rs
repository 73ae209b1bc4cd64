//! Responses that go on: bytes, lines and the frames in which Docker tells standard output from standard error.

use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::Request;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncReadExt, ReadHalf};

use super::Docker;
use super::errors::{ASK, answer, late, meaning};
use super::transport::Body;
use crate::runtime::{Error, Stream};

/// How much is read at once, and the longest line of JSON waited for.
const CHUNK_BYTES: usize = 16 * 1024;
const LONGEST_LINE_BYTES: usize = 1024 * 1024;

/// Bytes as they come in.
pub(super) type Chunks = BoxStream<'static, Result<Bytes, Error>>;

/// A path with its query.
pub(super) fn query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut text = path.to_owned();
    for (index, (key, value)) in pairs.iter().enumerate() {
        text.push(if index == 0 { '?' } else { '&' });
        text.push_str(key);
        text.push('=');
        for byte in value.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    text.push(char::from(byte))
                }
                other => text.push_str(&format!("%{other:02X}")),
            }
        }
    }
    text
}

/// Sends a GET and returns the body once the response has begun well.
pub(super) async fn get(
    docker: &Docker,
    operation: &'static str,
    what: &str,
    path: &str,
) -> Result<Chunks, Error> {
    let request = Request::get(path).body(Either::Left(Full::default()));
    let body = begin(docker, operation, what, request).await?.into_body();
    Ok(body
        .into_data_stream()
        .map(move |chunk| chunk.map_err(|error| meaning(operation, "", error.into())))
        .boxed())
}

/// A pipe to a process.
pub(super) type Pipe = TokioIo<hyper::upgrade::Upgraded>;

/// Sends a POST that turns the connection into a pipe.
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
    let response = begin(docker, operation, what, request).await?;
    let upgraded = hyper::upgrade::on(response).await;
    upgraded.map(TokioIo::new).map_err(|error| meaning(operation, what, error.into()))
}

async fn begin(
    docker: &Docker,
    operation: &'static str,
    what: &str,
    request: Result<Request<Body>, http::Error>,
) -> Result<http::Response<Incoming>, Error> {
    let failed = |error: bollard::errors::Error| meaning(operation, what, error);
    let request = request.map_err(|error| failed(error.into()))?;
    let exchange = async {
        let response = docker.transport.send(request).await.map_err(failed)?;
        let status = response.status();
        if status.is_success() || status == http::StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        let body = response.into_body().collect().await.map_err(|error| failed(error.into()))?.to_bytes();
        Err(answer(operation, what, status.as_u16(), &refusal(&body)))
    };
    tokio::time::timeout(ASK, exchange).await.unwrap_or_else(|_| Err(late(operation, ASK)))
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

/// The lines of a body, without their ends; a last one without an end does not count.
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
                return Err(Error::Unreachable { operation, message: "a line without an end".to_owned() });
            }
            match body.next().await {
                Some(chunk) => held.extend_from_slice(&chunk?),
                None => return Ok(None),
            }
        }
    })
}

/// What comes out of a pipe.
pub(super) fn chunks(read: ReadHalf<Pipe>, operation: &'static str) -> Chunks {
    stream::try_unfold((read, BytesMut::new()), move |(mut read, mut held)| async move {
        held.reserve(CHUNK_BYTES);
        match read.read_buf(&mut held).await {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some((held.split().freeze(), (read, held)))),
            Err(error) => Err(meaning(operation, "", error.into())),
        }
    })
    .boxed()
}

/// What a process writes: as it is when it has a terminal, else in frames of an eight-byte head and a payload.
/// A payload is passed on as it comes in, so that a large one is never held.
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

/// Where in Docker's frames we are.
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
