//! A stream of a SPDY session.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::mpsc;

/// Size of a stream's input buffer in bytes. While it is full, the connection is not read.
const UNREAD_BYTES: usize = 64 * 1024;
/// Size of a stream's output buffer in bytes.
const UNSENT_BYTES: usize = 32 * 1024;

/// A handle of a session. The session ends when all handles are dropped.
pub(super) type Alive = mpsc::Sender<Infallible>;

/// A stream opened by the client.
#[derive(Debug)]
pub struct Stream {
    /// Stream ID.
    pub id: u32,
    /// Headers of the stream.
    pub headers: HeaderMap,
    /// Input. It ends when the client closes its side, resets the stream or is gone.
    pub reader: Reader,
    /// Output. Dropping it or shutting it down closes the side of the server.
    pub writer: Writer,
}

/// The ends of a stream's pipes that the session uses.
pub(super) struct Ends {
    /// Input for the reader. It fails when the reader is dropped.
    pub input: DuplexStream,
    /// Output of the writer.
    pub output: DuplexStream,
}

impl Stream {
    pub(super) fn new(id: u32, headers: HeaderMap, alive: &Alive) -> (Self, Ends) {
        // Two one-way pipes, so that dropping one end does not affect the other direction.
        let (input, reader) = tokio::io::duplex(UNREAD_BYTES);
        let (writer, output) = tokio::io::duplex(UNSENT_BYTES);
        let reader = Reader { pipe: reader, _alive: alive.clone() };
        let writer = Writer { pipe: writer, _alive: alive.clone() };
        (Self { id, headers, reader, writer }, Ends { input, output })
    }

    /// Returns a header as text; empty if it is absent or not text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The type of the stream: `stdin`, `error`, `data` and others.
    pub fn kind(&self) -> &str {
        self.header("streamtype")
    }
}

/// Input of a stream.
#[derive(Debug)]
pub struct Reader {
    pipe: DuplexStream,
    _alive: Alive,
}

/// Output of a stream.
#[derive(Debug)]
pub struct Writer {
    pipe: DuplexStream,
    _alive: Alive,
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(context, into)
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}
