//! Limits the response data of a connection that the client has not read, by size and time.
//!
//! The write timeout detects clients that read nothing. An HTTP/2 client, however, can answer pings, keep its
//! windows closed and stall 250 streams. Therefore each chunk counts from its creation until it is written.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, sleep};

/// Maximum bytes of pending responses per connection. At the limit its streams and new requests wait. It is four
/// times the window of a client with 1 Gbit/s and a round trip of 10 ms.
const CONNECTION_BYTES: usize = 4 * 1024 * 1024;
/// How long a stream may make no progress before its connection ends; `--request-timeout` of kube-apiserver.
pub(super) const STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How often streams are checked for progress.
const STALL_CHECK_INTERVAL: Duration = Duration::from_secs(15);
/// Size of a chunk. Progress is measured in chunks, so the slowest client that is served reads one chunk per
/// [`STALL_TIMEOUT`].
const CHUNK_BYTES: usize = 64 * 1024;

/// The pending responses of a connection.
#[derive(Debug, Default)]
pub(super) struct ResponseBuffer(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    bytes: usize,
    streams: HashMap<u64, Stream>,
    /// Wakers of responses and requests that wait for space, by ID.
    wakers: HashMap<u64, Waker>,
    numbers: u64,
}

/// A response with pending chunks.
#[derive(Debug)]
struct Stream {
    pieces: usize,
    /// When a chunk was last written, or the first chunk became pending.
    since: Instant,
}

impl ResponseBuffer {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn number(&self) -> u64 {
        let mut waiting = self.lock();
        waiting.numbers += 1;
        waiting.numbers
    }

    /// Waits until the connection has space for more response data.
    pub(super) async fn wait_for_room(self: &Arc<Self>) {
        let number = self.number();
        poll_fn(|context| self.poll_room(number, context)).await;
    }

    fn poll_room(&self, number: u64, context: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self.lock();
        if waiting.bytes < CONNECTION_BYTES {
            return Poll::Ready(());
        }
        waiting.wakers.insert(number, context.waker().clone());
        Poll::Pending
    }

    /// Waits until a stream stalls.
    pub(super) async fn stalled(&self) {
        loop {
            sleep(STALL_CHECK_INTERVAL).await;
            let now = Instant::now();
            if self.lock().streams.values().any(|stream| now - stream.since >= STALL_TIMEOUT) {
                return;
            }
        }
    }

    fn give_back(&self, bytes: usize) {
        let mut waiting = self.lock();
        waiting.bytes -= bytes;
        let wakers = if waiting.bytes < CONNECTION_BYTES {
            std::mem::take(&mut waiting.wakers)
        } else {
            HashMap::new()
        };
        drop(waiting);
        wakers.into_values().for_each(Waker::wake);
    }
}

/// A response body whose chunks are counted.
pub(super) struct BufferedBody {
    body: Body,
    buffer: Arc<ResponseBuffer>,
    number: u64,
    /// Received data that has not been sent on.
    rest: Bytes,
}

impl BufferedBody {
    pub(super) fn new(body: Body, buffer: Arc<ResponseBuffer>) -> Self {
        let number = buffer.number();
        Self { body, buffer, number, rest: Bytes::new() }
    }

    fn piece(&mut self) -> Bytes {
        let bytes = self.rest.split_to(self.rest.len().min(CHUNK_BYTES));
        let mut waiting = self.buffer.lock();
        let stream = waiting.streams.entry(self.number);
        stream.or_insert_with(|| Stream { pieces: 0, since: Instant::now() }).pieces += 1;
        drop(waiting);
        Bytes::from_owner(BufferedChunk { bytes, number: self.number, buffer: self.buffer.clone() })
    }
}

impl Drop for BufferedBody {
    fn drop(&mut self) {
        self.buffer.lock().wakers.remove(&self.number);
        self.buffer.give_back(self.rest.len());
    }
}

impl HttpBody for BufferedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let buffer = self.buffer.clone();
            std::task::ready!(buffer.poll_room(self.number, context));
            let frame = match std::task::ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => {
                    buffer.lock().bytes += data.len();
                    self.rest = data;
                }
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        Poll::Ready(Some(Ok(Frame::data(self.piece()))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (body, rest) = (self.body.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(body.lower() + rest);
        if let Some(upper) = body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

/// A chunk that counts as pending until the connection has written and dropped it.
struct BufferedChunk {
    bytes: Bytes,
    number: u64,
    buffer: Arc<ResponseBuffer>,
}

impl AsRef<[u8]> for BufferedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for BufferedChunk {
    fn drop(&mut self) {
        let mut waiting = self.buffer.lock();
        if let Some(stream) = waiting.streams.get_mut(&self.number) {
            stream.pieces -= 1;
            stream.since = Instant::now();
            if stream.pieces == 0 {
                waiting.streams.remove(&self.number);
            }
        }
        drop(waiting);
        self.buffer.give_back(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    //! Tests of clients that take responses, and clients that stall.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use futures_util::FutureExt as _;
    use http_body_util::BodyExt as _;
    use tokio::time::timeout;

    use super::*;

    fn response(buffer: &Arc<ResponseBuffer>, bytes: usize) -> BufferedBody {
        BufferedBody::new(Body::from(vec![7; bytes]), buffer.clone())
    }

    async fn piece(body: &mut BufferedBody) -> Option<Bytes> {
        Some(body.frame().await?.unwrap().into_data().unwrap())
    }

    #[tokio::test]
    async fn response_arrives_completely() {
        let buffer = Arc::new(ResponseBuffer::default());
        let body = response(&buffer, 3 * CHUNK_BYTES + 1);
        assert_eq!(body.size_hint().exact(), Some(3 * CHUNK_BYTES as u64 + 1));
        let all = body.collect().await.unwrap().to_bytes();
        assert_eq!(all, vec![7; 3 * CHUNK_BYTES + 1]);
        drop(all);
        let waiting = buffer.lock();
        assert_eq!((waiting.bytes, waiting.streams.len(), waiting.wakers.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn full_response_buffer_delays_other_streams_and_requests() {
        let buffer = Arc::new(ResponseBuffer::default());
        let mut full = response(&buffer, CONNECTION_BYTES);
        let taken = piece(&mut full).await.unwrap();
        let mut next = response(&buffer, 1);
        assert!(piece(&mut next).now_or_never().is_none());
        assert!(buffer.wait_for_room().now_or_never().is_none());
        let waits = tokio::spawn({
            let buffer = buffer.clone();
            async move { buffer.wait_for_room().await }
        });
        tokio::task::yield_now().await;
        drop(taken);
        waits.await.unwrap();
        assert_eq!(piece(&mut next).await.unwrap(), [7].as_slice());
        drop(full);
        assert_eq!(buffer.lock().bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_stream_is_detected_beside_an_active_one() {
        let buffer = Arc::new(ResponseBuffer::default());
        let mut slow = response(&buffer, 10 * CHUNK_BYTES);
        let moving = async {
            while let Some(piece) = piece(&mut slow).await {
                sleep(STALL_TIMEOUT / 2).await;
                drop(piece);
            }
        };
        tokio::select! {
            () = moving => {}
            () = buffer.stalled() => panic!("a slow client is served"),
        }
        assert!(timeout(10 * STALL_TIMEOUT, buffer.stalled()).await.is_err(), "nothing waits");
        let mut still = response(&buffer, 1);
        let _kept = piece(&mut still).await.unwrap();
        assert!(timeout(2 * STALL_TIMEOUT, buffer.stalled()).await.is_ok());
    }
}
