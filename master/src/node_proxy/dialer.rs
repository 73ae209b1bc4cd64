//! Opens a connection to a kubelet or pod for each request, and forwards the request over it. The connection ends with
//! its client.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use apiserver::shares::Share;
use apiserver::tasks;
use apiserver::tls::{keep_alive, upgraded};
use axum::body::{Body, Bytes};
use axum::response::Response;
use http::{Request, StatusCode};
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::backend_tls::BackendTls;
use super::forward::{Backend, BackendKind, ProxyError, ProxyRequest, backend_request, client_response};
use super::headers;
use super::progress::{Progress, TrackedBody, TrackedStream};
use super::relay::relay;
use super::tunnel;
use super::verify;

/// Timeout for the TCP connection and the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a backend may read nothing of a request body. It is longer than usual pauses for processing.
const BODY_STALL_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the proxy checks whether the client of a stalled connection is still connected.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// A bidirectional byte stream.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Dials kubelets and pods.
#[derive(Debug)]
pub struct Dialer {
    tls: BackendTls,
}

impl Dialer {
    /// Creates a dialer with the TLS settings for nodes.
    pub fn new(tls: BackendTls) -> Self {
        Self { tls }
    }

    /// Forwards a request and returns the response. After an upgrade, a task relays bytes until one side closes.
    pub async fn forward(
        &self,
        backend: &Backend,
        proxied_request: &ProxyRequest,
        mut request: Request<Body>,
        share: Share,
    ) -> Result<Response, ProxyError> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, self.connect(backend)).await;
        let late =
            |_| ProxyError::Unreachable(format!("dial tcp {}: i/o timeout", backend.address.authority()));
        let (stream, socket) = connecting.map_err(late)?.map_err(ProxyError::Unreachable)?;
        let broken = |error: hyper::Error| ProxyError::Unreachable(format!("the connection broke: {error}"));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tasks::supervise("connection to a backend", async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "the connection to the backend failed");
            }
        });
        let client = hyper::upgrade::on(&mut request);
        let (parts, body) = request.into_parts();
        let progress = Arc::new(Progress::default());
        let body = Body::new(TrackedBody::new(body, progress.clone()));
        let is_upgrade = headers::upgrade(&parts.headers).is_some();
        let backend_request = backend_request(&parts, body, proxied_request, backend)?;
        let mut answer = tokio::select! {
            answer = sender.send_request(backend_request) => answer.map_err(broken)?,
            () = progress.stalled(BODY_STALL_TIMEOUT), if !is_upgrade => {
                let (address, seconds) = (backend.address.authority(), BODY_STALL_TIMEOUT.as_secs());
                return Err(ProxyError::Unreachable(format!("{address} has not read the request body for {seconds} s")));
            }
        };
        let code = answer.status();
        if is_upgrade && code != StatusCode::SWITCHING_PROTOCOLS && code.as_u16() < 400 {
            // The client would follow a redirect with its credentials.
            return Err(ProxyError::Unreachable(format!(
                "invalid upgrade response: status code {}",
                code.as_u16()
            )));
        }
        if code != StatusCode::SWITCHING_PROTOCOLS {
            return client_response(answer.map(Body::new), &parts, proxied_request, backend, Some(share));
        }
        if !is_upgrade {
            return Err(ProxyError::Unreachable(
                "the backend switched protocols without being asked".to_owned(),
            ));
        }
        let node = hyper::upgrade::on(&mut answer);
        let tunnel = proxied_request.tunnel.as_ref();
        let response = match tunnel {
            Some(tunnel) => tunnel.response(answer.headers()),
            None => client_response(answer.map(|_| Body::empty()), &parts, proxied_request, backend, None),
        }?;
        tasks::supervise("relay", spawn_relay(client, node, tunnel.is_some(), socket, share));
        Ok(response)
    }

    /// Connects to the backend. Also returns a duplicate of the socket, to check its state.
    async fn connect(&self, backend: &Backend) -> Result<(Box<dyn Stream>, OwnedFd), String> {
        let host = backend.address.host.as_str();
        let authority = backend.address.authority();
        let socket = TcpStream::connect((host, backend.address.port)).await;
        let socket = socket.map_err(|error| dial_error(&error, host, &authority))?;
        keep_alive(&socket);
        let again = socket.as_fd().try_clone_to_owned();
        let again = again.map_err(|error| format!("dial tcp {authority}: {}", bare(&error)))?;
        let (config, who) = match &backend.kind {
            BackendKind::Workload { tls: false } => return Ok((Box::new(socket), again)),
            BackendKind::Workload { tls: true } => (self.tls.workload_config()?, String::new()),
            BackendKind::Node { name, trust } => {
                let config = self.tls.node_config(name, *trust, Timestamp::now())?;
                (config, format!("the node {name} at "))
            }
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host:?} is not a host"))?;
        let shaken = TlsConnector::from(Arc::new(config)).connect(name, socket).await;
        let shaken = shaken.map_err(|error| {
            let why = error.get_ref().and_then(|source| source.downcast_ref()).map(verify::handshake_error);
            format!("{who}{authority}: {}", why.unwrap_or_else(|| format!("tls: {}", bare(&error))))
        });
        Ok((Box::new(shaken?), again))
    }
}

/// Relays both directions until both have ended, one fails, or the client is gone. In a tunnel the client sends and gets
/// messages of a WebSocket.
async fn spawn_relay(
    client: OnUpgrade,
    node: OnUpgrade,
    is_tunnel: bool,
    node_socket: OwnedFd,
    share: Share,
) {
    let (client, node) = match tokio::try_join!(client, node) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "the upgrade failed"),
    };
    match relay_upgraded(client, node, is_tunnel, &node_socket, CLIENT_CHECK_INTERVAL).await {
        Ok(()) => {}
        Err(error) => tracing::debug!(%error, "the upgraded connection failed"),
    }
    drop(share);
}

async fn relay_upgraded(
    client: Upgraded,
    node: Upgraded,
    is_tunnel: bool,
    node_socket: &OwnedFd,
    look: Duration,
) -> io::Result<()> {
    let upgraded = upgraded(client)?;
    let progress = Arc::new(Progress::default());
    let (client, before) = (TrackedStream::new(upgraded.stream, progress.clone()), upgraded.before);
    let relayed = async {
        let (node, is_closed) = (TokioIo::new(node), || is_read_closed(node_socket));
        if is_tunnel {
            let client = tunnel::bytes(client, before).await;
            relay(client, Bytes::new(), node, is_closed).await
        } else {
            relay(client, before, node, is_closed).await
        }
    };
    tokio::select! {
        relayed = relayed => relayed,
        () = progress.client_closed(&upgraded.socket, look) => Err(io::Error::other("the client is gone")),
        () = upgraded.revocation.revoked() => Err(io::Error::other("the client certificate is no longer trusted")),
    }
}

/// True if the peer will send nothing beyond the data in the receive buffer.
fn is_read_closed(socket: &OwnedFd) -> bool {
    let mut look = [PollFd::new(socket, PollFlags::RDHUP)];
    // The kernel reports POLLERR and POLLHUP even if they are not requested.
    poll(&mut look, Some(&Timespec::default())).is_ok_and(|ended| ended > 0)
}

/// The dial error in the words of the stock API server.
fn dial_error(error: &io::Error, host: &str, authority: &str) -> String {
    match error.raw_os_error() {
        Some(_) => format!("dial tcp {authority}: connect: {}", bare(error)),
        None => format!("dial tcp: lookup {host}: no such host"),
    }
}

/// The error text of the operating system, without its number.
fn bare(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    //! Tests of closed and open connections with unread data.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn closed_connection_is_detected_behind_unread_data() {
        for breaks in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let mut node = listener.accept().await.unwrap().0;
            node.write_all(b"not read").await.unwrap();
            near.readable().await.unwrap();
            let socket = near.as_fd().try_clone_to_owned().unwrap();
            assert!(!is_read_closed(&socket), "it may say more");
            if breaks {
                // Closing a socket with unread data resets the connection.
                near.write_all(b"not read").await.unwrap();
                node.readable().await.unwrap();
            }
            drop(node);
            let seen = async {
                while !is_read_closed(&socket) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), seen).await.unwrap();
        }
    }
}
