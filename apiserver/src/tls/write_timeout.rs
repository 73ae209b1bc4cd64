//! Write timeout, which aborts a connection whose client reads no data. It also ends upgraded connections of
//! clients that are no longer trusted.

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
/// The error for a client that is no longer trusted.
const UNTRUSTED: &str = "the client certificate is no longer trusted";

/// A connection with a write timeout.
pub(super) struct WriteTimeout<S> {
    stream: S,
    is_upgraded: Arc<AtomicBool>,
    /// The timer that runs while a write is blocked.
    waiting: Option<Pin<Box<Sleep>>>,
    revocation: Revocation,
}

impl<S> WriteTimeout<S> {
    /// Wraps a connection. `is_upgraded` disables the timeout, because upgraded connections have their own.
    pub(super) fn new(stream: S, is_upgraded: Arc<AtomicBool>, revocation: Revocation) -> Self {
        Self { stream, is_upgraded, waiting: None, revocation }
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
        let tried = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.tried(context, tried)
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
        let tried = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.tried(context, tried)
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
