//! Data streams between a client and a process or port, independent of the protocol.
//!
//! The WebSocket and SPDY handlers produce one [`Process`] per session, or one [`Connection`] per forwarded connection.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Sink;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::runtime::Duplex;

/// The error for a client that has disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// A sink of messages to a client. Closing it signals the end of the stream.
pub type Outgoing<T> = Pin<Box<dyn Sink<T, Error = Gone> + Send>>;

/// The client's streams of a process: a command, or a container's main process.
pub struct Process {
    /// Standard input with a bounded buffer. It ends when the client closes it or disconnects.
    pub stdin: Box<dyn AsyncRead + Send + Unpin>,
    /// Size changes of the client's terminal.
    pub sizes: BoxStream<'static, Size>,
    /// Output and exit status for the client.
    pub output_sink: Outgoing<ProcessOutput>,
    /// Completes when the client disconnects, even if its input is not being read. It must be polled.
    pub gone: BoxFuture<'static, ()>,
}

/// Terminal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Number of columns of the terminal.
    pub width: u16,
    /// Number of rows of the terminal.
    pub height: u16,
}

/// A message to the client of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum ProcessOutput {
    /// Standard output.
    Stdout(Bytes),
    /// Standard error.
    Stderr(Bytes),
    /// Exit status as a `Status` object. It is the last message.
    Ended(Value),
}

/// The client's streams of a forwarded connection.
pub struct Connection {
    /// Port in the pod.
    pub port: u16,
    /// The data stream.
    pub data: Box<dyn Duplex>,
    /// The error stream. It gets a text for the user if the connection fails.
    pub error: Box<dyn AsyncWrite + Send + Unpin>,
}
