//! Write timeout, which aborts a connection whose client reads no data. It also limits how much a connection writes at
//! once, and ends upgraded connections of clients that are no longer trusted.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::client_trust::Revocation;

/// How long a write may make no progress. It is long enough for a laptop that is suspended briefly.
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);
/// Bytes that a connection writes before other tasks get their turn. To encrypt them takes some 20 us, so a request waits
/// a few milliseconds behind a thousand watches that have a large event to send.
const TURN_BYTES: usize = 32 * 1024;
/// The error for a client that is no longer trusted.
const UNTRUSTED: &str = "the client certificate is no longer trusted";

/// A connection with a write timeout.
pub(super) struct WriteTimeout<S> {
    stream: S,
    is_upgraded: Arc<AtomicBool>,
    /// The timer that runs while a write is blocked.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Bytes that were written in this turn.
    written: usize,
    revocation: Revocation,
}

impl<S> WriteTimeout<S> {
    /// Wraps a connection. `is_upgraded` disables the timeout, because upgraded connections have their own.
    pub(super) fn new(stream: S, is_upgraded: Arc<AtomicBool>, revocation: Revocation) -> Self {
        Self { stream, is_upgraded, waiting: None, written: 0, revocation }
    }

    /// Whether an upgraded connection must end. Registers a waker.
    fn is_revoked(&mut self, context: &mut Context<'_>) -> bool {
        self.is_upgraded.load(Ordering::Relaxed) && self.revocation.poll_revoked(context)
    }

    /// Does the same as [`Self::is_revoked`] for writes, without a waker.
    fn was_revoked(&mut self) -> bool {
        self.is_upgraded.load(Ordering::Relaxed) && self.revocation.has_happened()
    }

    /// Returns the connection and its revocation.
    pub(super) fn into_parts(self) -> (S, Revocation) {
        (self.stream, self.revocation)
    }

    /// Whether the turn is over. The task then runs again after the other tasks that are ready.
    fn has_had_turn(&mut self, context: &mut Context<'_>) -> bool {
        let is_over = self.written >= TURN_BYTES;
        if is_over {
            self.written = 0;
            context.waker().wake_by_ref();
        }
        is_over
    }

    /// Adds a write to the turn, and applies the timeout.
    fn wrote(
        &mut self,
        context: &mut Context<'_>,
        tried: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &tried {
            Poll::Ready(Ok(bytes)) => self.written += bytes,
            Poll::Ready(Err(_)) | Poll::Pending => self.written = 0,
        }
        self.tried(context, tried)
    }

    /// Applies the timeout to the result of a write.
    fn tried<T>(&mut self, context: &mut Context<'_>, tried: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if tried.is_ready() || self.is_upgraded.load(Ordering::Relaxed) {
            self.waiting = None;
            return tried;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(WRITE_TIMEOUT)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing")))
    }
}

/// The first parts that fit into a turn, at least one.
fn fitting<'a, 'b>(parts: &'a [io::IoSlice<'b>]) -> &'a [io::IoSlice<'b>] {
    let mut bytes = 0;
    let fits = |part: &&io::IoSlice<'_>| {
        bytes += part.len();
        bytes <= TURN_BYTES
    };
    let count = parts.iter().take_while(fits).count().max(1);
    parts.get(..count).unwrap_or(parts)
}

fn untrusted() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, UNTRUSTED)
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_revoked(context) {
            return Poll::Ready(Err(untrusted()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.was_revoked() {
            return Poll::Ready(Err(untrusted()));
        }
        if self.has_had_turn(context) {
            return Poll::Pending;
        }
        let bytes = bytes.get(..TURN_BYTES).unwrap_or(bytes);
        let tried = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.wrote(context, tried)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.was_revoked() {
            return Poll::Ready(Err(untrusted()));
        }
        let tried = Pin::new(&mut self.stream).poll_flush(context);
        self.tried(context, tried)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let tried = Pin::new(&mut self.stream).poll_shutdown(context);
        self.tried(context, tried)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.was_revoked() {
            return Poll::Ready(Err(untrusted()));
        }
        if self.has_had_turn(context) {
            return Poll::Pending;
        }
        // A write of the empty parts alone would return 0, which means that the stream accepts no bytes.
        let empty = parts.iter().take_while(|part| part.is_empty()).count();
        let parts = parts.get(empty..).unwrap_or_default();
        let first = parts.first().and_then(|first| first.get(..TURN_BYTES));
        let tried = match first {
            Some(first) => Pin::new(&mut self.stream).poll_write(context, first),
            None => Pin::new(&mut self.stream).poll_write_vectored(context, fitting(parts)),
        };
        self.wrote(context, tried)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    //! Tests of slow and stalled clients.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::future::pending;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    const BYTES: usize = 1024;

    #[tokio::test(start_paused = true)]
    async fn write_times_out_if_the_peer_does_not_read() {
        let (near, _far) = duplex(BYTES);
        let mut connection = WriteTimeout::new(near, Arc::default(), Revocation::when(pending()));
        let begun = Instant::now();
        let ended = connection.write_all(&[0; 2 * BYTES]).await.unwrap_err();
        assert_eq!(
            (ended.kind(), begun.elapsed().as_secs()),
            (io::ErrorKind::TimedOut, WRITE_TIMEOUT.as_secs())
        );
    }

    #[tokio::test]
    async fn a_connection_that_writes_much_gives_other_tasks_their_turn() {
        const TURNS: usize = 10;
        let large = vec![0; TURNS * TURN_BYTES];
        let small: Vec<_> = large.chunks(TURN_BYTES / 4).map(io::IoSlice::new).collect();
        for parts in [&[io::IoSlice::new(&large)][..], &small] {
            let mut connection =
                WriteTimeout::new(tokio::io::sink(), Arc::default(), Revocation::when(pending()));
            let (mut left, mut others) = (parts, 0);
            let write = async {
                while !left.is_empty() {
                    let wrote = connection.write_vectored(left).await.unwrap();
                    assert!(wrote <= TURN_BYTES, "{wrote} bytes at once");
                    // A part that does not fit is written in pieces.
                    match left {
                        [first] if first.len() > wrote => {
                            connection.write_all(&first[wrote..]).await.unwrap();
                            break;
                        }
                        _ => left = &left[wrote / (TURN_BYTES / 4)..],
                    }
                }
            };
            let other = async {
                loop {
                    others += 1;
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! { biased; () = write => {}, () = other => {} }
            assert_eq!(others, TURNS - 1);
        }
    }

    #[tokio::test]
    async fn empty_parts_before_a_large_one_are_skipped() {
        let large = vec![0; 2 * TURN_BYTES];
        let parts = [io::IoSlice::new(&[]), io::IoSlice::new(&large)];
        let mut connection =
            WriteTimeout::new(tokio::io::sink(), Arc::default(), Revocation::when(pending()));
        assert_eq!(connection.write_vectored(&parts).await.unwrap(), TURN_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn slow_or_upgraded_connection_does_not_hit_the_write_timeout() {
        let (near, mut far) = duplex(BYTES);
        let mut connection = WriteTimeout::new(near, Arc::default(), Revocation::when(pending()));
        let slow = tokio::spawn(async move {
            let mut piece = [0; BYTES];
            for _ in 0..4 {
                sleep(WRITE_TIMEOUT / 2).await;
                far.read_exact(&mut piece).await.unwrap();
            }
        });
        connection.write_all(&[0; 4 * BYTES]).await.unwrap();
        slow.await.unwrap();
        let (near, _far) = duplex(BYTES);
        let mut connection =
            WriteTimeout::new(near, Arc::new(AtomicBool::new(true)), Revocation::when(pending()));
        let waited = tokio::time::timeout(4 * WRITE_TIMEOUT, connection.write_all(&[0; 2 * BYTES])).await;
        assert!(waited.is_err(), "it still waits");
    }
}
