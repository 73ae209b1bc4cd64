//! What a connection becomes after an upgrade: its bytes, and a second look at its socket, which tells of a client that is gone
//! even while nobody reads what it sent.

use std::io;
use std::os::fd::AsFd as _;

use axum::body::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::upgrade::downcast;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::believed::Cut;
use super::brisk::Brisk;

/// A connection that is no longer HTTP.
#[derive(Debug)]
pub struct Opened {
    /// What goes over it.
    pub stream: TlsStream<TcpStream>,
    /// What the client has sent of it already.
    pub before: Bytes,
    /// Its socket once more: nothing is read from it or written to it.
    pub socket: TcpStream,
    /// When it has to end, because nobody stands for the client any more.
    pub cut: Cut,
}

/// What [`super::serve()`] has handed over.
///
/// # Errors
/// When it came another way, or its socket cannot be had twice.
pub fn opened(upgraded: Upgraded) -> io::Result<Opened> {
    let other = |_| io::Error::other("it is no connection of this server");
    let parts = downcast::<TokioIo<Brisk<TlsStream<TcpStream>>>>(upgraded).map_err(other)?;
    let (stream, cut) = parts.io.into_inner().into_parts();
    let socket = std::net::TcpStream::from(stream.get_ref().0.as_fd().try_clone_to_owned()?);
    Ok(Opened { stream, before: parts.read_buf, socket: TcpStream::from_std(socket)?, cut })
}
