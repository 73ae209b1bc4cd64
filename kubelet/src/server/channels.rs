//! What a client and something in a pod say to each other, whichever protocol carries it.
//!
//! A protocol makes of its frames or streams one [`Process`] a session, or one [`Connection`] a forwarded connection;
//! what happens with them knows of no protocol.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Sink;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::runtime::Duplex;

/// The client is not there any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone;

/// Where something is sent to a client; closing it tells the client that there is no more.
pub type Outgoing<T> = Pin<Box<dyn Sink<T, Error = Gone> + Send>>;

/// A client's side of a process: a command, or a container's own streams.
pub struct Process {
    /// Standard input, which ends when the client says so or is gone; it holds no more than a bounded buffer.
    pub stdin: Box<dyn AsyncRead + Send + Unpin>,
    /// The size of the client's terminal, whenever it is another; the latest counts.
    pub sizes: BoxStream<'static, Size>,
    /// What it is told.
    pub told: Outgoing<Told>,
    /// Done when the client is gone, which is seen though nobody takes what it has said; nothing comes of it that is not
    /// waited for.
    pub gone: BoxFuture<'static, ()>,
}

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: u16,
    /// Lines.
    pub height: u16,
}

/// What a client is told of a process.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Standard output.
    Stdout(Bytes),
    /// Standard error.
    Stderr(Bytes),
    /// How it ended, a `Status`; nothing comes after it.
    Ended(Value),
}

/// A client's side of a connection that is forwarded to a port.
pub struct Connection {
    /// The port.
    pub port: u16,
    /// What goes back and forth.
    pub data: Box<dyn Duplex>,
    /// Where it is told, as text for people, why nothing does.
    pub error: Box<dyn AsyncWrite + Send + Unpin>,
}
