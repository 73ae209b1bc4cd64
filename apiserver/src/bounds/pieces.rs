//! A large answer, in pieces: it keeps its place until the last one has been taken, and goes when nobody takes the next.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::response::Response;
use futures_util::StreamExt as _;
use http::{HeaderValue, header};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use super::Place;

/// Answers beyond this come in pieces; less is in the buffers of a connection at once.
const LARGE_BYTES: u64 = 256 * 1024;
/// Bytes of a piece; a copy, so that one that waits in a buffer does not keep the whole.
const PIECE_BYTES: usize = 64 * 1024;

/// The answer, whose place is free once it has been taken; it waits so long for whoever takes it.
pub(super) async fn handed_out(response: Response, place: Place, patience: Duration) -> Response {
    let large = response.body().size_hint().exact().filter(|length| *length > LARGE_BYTES);
    let Some(length) = large else { return response };
    let (mut head, body) = response.into_parts();
    // What has a length is in memory already.
    let Ok(whole) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(head, Body::empty());
    };
    // A stream has none of its own, and one that breaks off is seen by it.
    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    let (pieces, taken) = mpsc::channel::<Bytes>(1);
    tokio::spawn(hand_out(whole, pieces, place, patience));
    let taken = ReceiverStream::new(taken).map(Ok::<_, std::convert::Infallible>);
    Response::from_parts(head, Body::from_stream(taken))
}

async fn hand_out(whole: Bytes, pieces: mpsc::Sender<Bytes>, place: Place, patience: Duration) {
    for piece in whole.chunks(PIECE_BYTES) {
        match timeout(patience, pieces.send(Bytes::copy_from_slice(piece))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return,
            Err(_) => {
                tracing::debug!(bytes = whole.len(), "an answer that nobody takes was dropped");
                return;
            }
        }
    }
    drop(place);
}
