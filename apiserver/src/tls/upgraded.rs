//! Upgraded TLS connections. A second handle of the socket detects that the client has disconnected while input is
//! not read.

use std::io;
use std::os::fd::AsFd as _;

use axum::body::Bytes;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto::upgrade::downcast;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::client_trust::Revocation;
use super::write_timeout::WriteTimeout;

/// An upgraded connection.
#[derive(Debug)]
pub struct UpgradedStream {
    /// The TLS connection.
    pub stream: TlsStream<TcpStream>,
    /// Bytes that were received after the request.
    pub before: Bytes,
    /// Second handle of the socket. It must not be read or written.
    pub socket: TcpStream,
    /// Resolves when the client is no longer trusted.
    pub revocation: Revocation,
}

/// Downcasts an upgraded connection of [`super::serve()`].
///
/// # Errors
/// If it is another kind of connection, or the socket cannot be duplicated.
pub fn upgraded(upgraded: Upgraded) -> io::Result<UpgradedStream> {
    let other = |_| io::Error::other("not a connection of this server");
    let parts = downcast::<TokioIo<WriteTimeout<TlsStream<TcpStream>>>>(upgraded).map_err(other)?;
    let (stream, revocation) = parts.io.into_inner().into_parts();
    let socket = std::net::TcpStream::from(stream.get_ref().0.as_fd().try_clone_to_owned()?);
    Ok(UpgradedStream { stream, before: parts.read_buf, socket: TcpStream::from_std(socket)?, revocation })
}
