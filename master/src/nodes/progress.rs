//! How far what a client sends has come: whether anybody still takes it, and whether the client is still there.
//!
//! Whoever does not read what a client sends does not learn either that the client has gone: its end stands behind what is
//! not read. So a look at the socket tells, and a request whose body nobody takes is given up.

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

/// How far it has come.
#[derive(Debug, Default)]
pub struct Progress {
    pieces: AtomicU64,
    /// The client is waited for, or has said that there is no more: it is not held up, and seen when it goes.
    is_heard: AtomicBool,
}

impl Progress {
    fn took(&self) {
        self.pieces.fetch_add(1, Ordering::Relaxed);
        self.is_heard.store(false, Ordering::Relaxed);
    }

    fn hears(&self) {
        self.is_heard.store(true, Ordering::Relaxed);
    }

    /// Ends when nothing has been taken from one look to the next, although there is something.
    pub async fn stands(&self, between: Duration) {
        let mut looks = looks(between);
        let mut before = None;
        loop {
            looks.tick().await;
            let pieces = self.pieces.load(Ordering::Relaxed);
            if self.is_heard.load(Ordering::Relaxed) {
                before = None;
            } else if before.replace(pieces) == Some(pieces) {
                return;
            }
        }
    }

    /// Ends when the client has gone: its socket is broken, or it has closed its side and nothing more is taken of what it
    /// sent before.
    pub async fn gone(&self, socket: &TcpStream, between: Duration) {
        let left = async {
            loop {
                self.stands(between).await;
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

fn looks(between: Duration) -> Interval {
    let mut looks = interval(between);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

/// What a client sends over a connection.
#[derive(Debug)]
pub struct Told<S> {
    stream: S,
    progress: Arc<Progress>,
}

impl<S> Told<S> {
    /// Its reads are noted.
    pub fn new(stream: S, progress: Arc<Progress>) -> Self {
        Self { stream, progress }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Told<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.progress.took()
        } else {
            self.progress.hears()
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Told<S> {
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

/// What a client sends as the body of a request.
#[derive(Debug)]
pub struct Sent {
    body: Body,
    progress: Arc<Progress>,
}

impl Sent {
    /// Its pieces are noted; one without any holds up nobody.
    pub fn new(body: Body, progress: Arc<Progress>) -> Self {
        if body.is_end_stream() {
            progress.hears();
        }
        Self { body, progress }
    }
}

impl Drop for Sent {
    /// What nobody holds any more holds up nobody.
    fn drop(&mut self) {
        self.progress.hears();
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(_))) if !self.body.is_end_stream() => self.progress.took(),
            Poll::Ready(_) | Poll::Pending => self.progress.hears(),
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
