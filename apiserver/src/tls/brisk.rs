//! A connection that breaks off when nothing of what is sent has been taken for too long, so that nothing waits for ever
//! for a client that does not read; and that ends with the belief in its client once it has become something else.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::believed::Cut;

/// How long a client may take nothing of what is sent: a laptop that sleeps for a moment may, one that is gone may not.
const PATIENCE: Duration = Duration::from_secs(120);
/// Why one was cut.
const UNBELIEVED: &str = "its client is not believed any more";

/// A connection with a client that reads.
pub(super) struct Brisk<S> {
    stream: S,
    patient: Arc<AtomicBool>,
    /// Runs while there is something to send that is not taken.
    waiting: Option<Pin<Box<Sleep>>>,
    cut: Cut,
}

impl<S> Brisk<S> {
    /// `patient` is set once the connection has become something else, whose ends see for themselves.
    pub(super) fn new(stream: S, patient: Arc<AtomicBool>, cut: Cut) -> Self {
        Self { stream, patient, waiting: None, cut }
    }

    /// Whether it has become something else that is to end now.
    fn is_cut(&mut self, context: &mut Context<'_>) -> bool {
        self.patient.load(Ordering::Relaxed) && self.cut.is_due(context)
    }

    /// The same for who writes: its other half waits for it.
    fn was_cut(&mut self) -> bool {
        self.patient.load(Ordering::Relaxed) && self.cut.is_past()
    }

    /// The connection itself, and what ends it.
    pub(super) fn into_parts(self) -> (S, Cut) {
        (self.stream, self.cut)
    }

    /// What comes of trying to send.
    fn tried<T>(&mut self, context: &mut Context<'_>, tried: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if tried.is_ready() || self.patient.load(Ordering::Relaxed) {
            self.waiting = None;
            return tried;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing")))
    }
}

fn unbelieved() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, UNBELIEVED)
}

impl<S: AsyncRead + Unpin> AsyncRead for Brisk<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_cut(context) {
            return Poll::Ready(Err(unbelieved()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Brisk<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.was_cut() {
            return Poll::Ready(Err(unbelieved()));
        }
        let tried = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.tried(context, tried)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.was_cut() {
            return Poll::Ready(Err(unbelieved()));
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
        if self.was_cut() {
            return Poll::Ready(Err(unbelieved()));
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
    //! Who reads is waited for, who does not is given up.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

    use std::future::pending;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::time::Instant;

    use super::*;

    const BYTES: usize = 1024;

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_read_is_given_up() {
        let (near, _far) = duplex(BYTES);
        let mut connection = Brisk::new(near, Arc::default(), Cut::when(pending()));
        let begun = Instant::now();
        let ended = connection.write_all(&[0; 2 * BYTES]).await.unwrap_err();
        assert_eq!((ended.kind(), begun.elapsed().as_secs()), (io::ErrorKind::TimedOut, PATIENCE.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_reads_slowly_or_is_something_else_by_now_is_not() {
        let (near, mut far) = duplex(BYTES);
        let mut connection = Brisk::new(near, Arc::default(), Cut::when(pending()));
        let slow = tokio::spawn(async move {
            let mut piece = [0; BYTES];
            for _ in 0..4 {
                sleep(PATIENCE / 2).await;
                far.read_exact(&mut piece).await.unwrap();
            }
        });
        connection.write_all(&[0; 4 * BYTES]).await.unwrap();
        slow.await.unwrap();
        let (near, _far) = duplex(BYTES);
        let mut connection = Brisk::new(near, Arc::new(AtomicBool::new(true)), Cut::when(pending()));
        let waited = tokio::time::timeout(4 * PATIENCE, connection.write_all(&[0; 2 * BYTES])).await;
        assert!(waited.is_err(), "it still waits");
    }
}
