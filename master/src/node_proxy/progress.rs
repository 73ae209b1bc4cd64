//! Tracks whether the backend still reads what the client sends, and whether the client is still connected.
//!
//! If a backend stops reading, the proxy does not notice the end of the client's stream. Therefore it checks the
//! socket directly, and a request whose body is not read times out.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Progress of one direction.
#[derive(Debug, Default)]
pub struct Progress {
    pieces: AtomicU64,
    /// Whether nothing is buffered: the backend waits for the client, or the client has finished.
    is_idle: AtomicBool,
}

impl Progress {
    fn record_piece(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        self.is_idle.store(false, Ordering::Relaxed);
    }

    fn set_idle(&self) {
        self.is_idle.store(true, Ordering::Relaxed);
    }

    /// Returns if no data was read during an interval although data was available.
    pub async fn stalled(&self, between: Duration) {
        let mut ticks = ticks(between);
        let mut before = None;
        loop {
            ticks.tick().await;
            let pieces = self.pieces.load(Ordering::Relaxed);
            if self.is_idle.load(Ordering::Relaxed) {
                before = None;
            } else if before.replace(pieces) == Some(pieces) {
                return;
            }
        }
    }

    /// Returns when the client is gone: its socket failed, or it closed its side and the backend no longer reads.
    pub async fn client_closed(&self, socket: &TcpStream, between: Duration) {
        let left = async {
            loop {
                self.stalled(between).await;
                let now = tokio::time::timeout(Duration::ZERO, socket.ready(Interest::READABLE)).await;
                if now.is_ok_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed())) {
                    return;
                }
            }
        };
        tokio::select! {
            _ = socket.ready(Interest::ERROR) => {}
            () = left => {}
        }
    }
}

fn ticks(between: Duration) -> Interval {
    let mut ticks = interval(between);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// A client connection that records its reads.
#[derive(Debug)]
pub struct TrackedStream<S> {
    stream: S,
    progress: Arc<Progress>,
}

impl<S> TrackedStream<S> {
    /// Wraps a stream.
    pub fn new(stream: S, progress: Arc<Progress>) -> Self {
        Self { stream, progress }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TrackedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.progress.record_piece()
        } else {
            self.progress.set_idle()
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TrackedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A request body that records its frames.
#[derive(Debug)]
pub struct TrackedBody {
    body: Body,
    progress: Arc<Progress>,
}

impl TrackedBody {
    /// Wraps a body. An empty body never stalls.
    pub fn new(body: Body, progress: Arc<Progress>) -> Self {
        if body.is_end_stream() {
            progress.set_idle();
        }
        Self { body, progress }
    }
}

impl Drop for TrackedBody {
    /// Marks a dropped body as finished, so that it never counts as stalled.
    fn drop(&mut self) {
        self.progress.set_idle();
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(_))) if !self.body.is_end_stream() => self.progress.record_piece(),
            Poll::Ready(_) | Poll::Pending => self.progress.set_idle(),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
