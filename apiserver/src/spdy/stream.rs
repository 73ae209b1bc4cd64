//! One stream of a session: what the client says of it, what it sends, and where to answer.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::HeaderMap;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::mpsc;

/// Bytes of a stream that wait to be read; when they do not fit, nothing more is read of the connection.
const UNREAD_BYTES: usize = 64 * 1024;
/// Bytes of a stream that wait to be sent.
const UNSENT_BYTES: usize = 32 * 1024;

/// Held by whoever uses a session; when all of them are gone, so is the session.
pub(super) type Alive = mpsc::Sender<Infallible>;

/// A stream that a client has begun.
#[derive(Debug)]
pub struct Stream {
    /// Its number in the session.
    pub id: u32,
    /// What the client says of it.
    pub headers: HeaderMap,
    /// What the client sends; at its end when the client has said so, has reset the stream, or is gone.
    pub reader: Reader,
    /// Where to answer; dropped or shut down, it tells the client that this is all.
    pub writer: Writer,
}

/// The session's ends of a stream.
pub(super) struct Ends {
    /// Where what the client sends goes; fails when nobody reads any more.
    pub input: DuplexStream,
    /// Where what it is sent comes from.
    pub output: DuplexStream,
}

impl Stream {
    pub(super) fn new(id: u32, headers: HeaderMap, alive: &Alive) -> (Self, Ends) {
        // Two pipes, each used one way: either end of one that goes tells the other, without a word to the other pipe.
        let (input, reader) = tokio::io::duplex(UNREAD_BYTES);
        let (writer, output) = tokio::io::duplex(UNSENT_BYTES);
        let reader = Reader { pipe: reader, _alive: alive.clone() };
        let writer = Writer { pipe: writer, _alive: alive.clone() };
        (Self { id, headers, reader, writer }, Ends { input, output })
    }

    /// The text of a header, nothing when there is none or it is no text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// What it carries: `stdin`, `error`, `data` and the like.
    pub fn kind(&self) -> &str {
        self.header("streamtype")
    }
}

/// What a client sends on a stream.
#[derive(Debug)]
pub struct Reader {
    pipe: DuplexStream,
    _alive: Alive,
}

/// What a client is sent on a stream.
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
