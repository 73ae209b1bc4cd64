//! Chunked response body. A large response keeps its seat until the client has read it, and is dropped if the
//! client stops reading.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::response::Response;
use futures_util::StreamExt as _;
use http::{HeaderValue, header};
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use super::Seat;
use crate::tasks;

/// Responses above this size are sent in chunks. Smaller ones fit into the buffers of a connection.
const LARGE_BYTES: u64 = 256 * 1024;
/// Size of a chunk. Chunks are copies, so that a buffered chunk does not keep the whole body in memory.
const CHUNK_BYTES: usize = 64 * 1024;

/// Wraps a large response. It releases the seat when it is sent, or when the client reads no chunk within `limit`.
pub(super) fn chunked(response: Response, seat: Seat, limit: Duration) -> Response {
    let large = response.body().size_hint().exact().filter(|length| *length > LARGE_BYTES);
    let Some(length) = large else { return response };
    let (mut head, body) = response.into_parts();
    // A stream has no length of its own; the header lets the client detect a truncated body.
    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    let (pieces, taken) = mpsc::channel::<Bytes>(1);
    tasks::supervise("chunked response", send_chunks(body, pieces, seat, limit));
    let taken = ReceiverStream::new(taken).map(Ok::<_, std::convert::Infallible>);
    Response::from_parts(head, Body::from_stream(taken))
}

async fn send_chunks(mut body: Body, pieces: mpsc::Sender<Bytes>, seat: Seat, limit: Duration) {
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        for piece in data.chunks(CHUNK_BYTES) {
            match timeout(limit, pieces.send(Bytes::copy_from_slice(piece))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => {
                    tracing::debug!("dropped a response that the client did not read");
                    return;
                }
            }
        }
    }
    drop(seat);
}
