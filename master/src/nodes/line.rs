//! A connection to a node or a pod, and a request over it: one each, so that none waits for another and each ends with its
//! client.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use apiserver::shares::Share;
use apiserver::tls::{keep_alive, opened};
use axum::body::Body;
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

use super::headers;
use super::pass::{Errand, Failed, To, Way, asked, passed};
use super::progress::{Progress, Sent, Told};
use super::relay::relay;
use super::shown::Shown;
use super::verify;

/// How long it may take to connect and shake hands; a node that is gone is not waited for any longer.
const CONNECT: Duration = Duration::from_secs(10);
/// How long whoever answers may take nothing of a request's body: longer than any pause in which he works at it.
const BODY: Duration = Duration::from_secs(60);
/// After so long without anything taken it is looked whether the client is still there.
const LOOK: Duration = Duration::from_secs(5);

/// Bytes in both directions.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The way to all nodes and pods.
#[derive(Debug)]
pub struct Line {
    shown: Shown,
}

impl Line {
    /// One that shows this to nodes.
    pub fn new(shown: Shown) -> Self {
        Self { shown }
    }

    /// Sends a request there and returns the answer; what both become after an upgrade is carried until one side ends it.
    pub async fn pass(
        &self,
        way: &Way,
        errand: &Errand,
        mut request: Request<Body>,
        share: Share,
    ) -> Result<Response, Failed> {
        let connecting = tokio::time::timeout(CONNECT, self.connect(way)).await;
        let late = |_| Failed::Unreached(format!("dial tcp {}: i/o timeout", way.place.authority()));
        let (stream, socket) = connecting.map_err(late)?.map_err(Failed::Unreached)?;
        let broken = |error: hyper::Error| Failed::Unreached(format!("the connection broke: {error}"));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection behind the master ended early");
            }
        });
        let client = hyper::upgrade::on(&mut request);
        let (parts, body) = request.into_parts();
        let progress = Arc::new(Progress::default());
        let body = Body::new(Sent::new(body, progress.clone()));
        let is_upgrade = headers::upgrade(&parts.headers).is_some();
        let asked = asked(&parts, body, errand, way)?;
        let mut answer = tokio::select! {
            answer = sender.send_request(asked) => answer.map_err(broken)?,
            () = progress.stands(BODY), if !is_upgrade => {
                let (place, seconds) = (way.place.authority(), BODY.as_secs());
                return Err(Failed::Unreached(format!("{place} has taken nothing of what is sent for {seconds} s")));
            }
        };
        let code = answer.status();
        if is_upgrade && code != StatusCode::SWITCHING_PROTOCOLS && code.as_u16() < 400 {
            // A redirection, say, which the client would follow with its credentials.
            return Err(Failed::Unreached(format!(
                "invalid upgrade response: status code {}",
                code.as_u16()
            )));
        }
        if code != StatusCode::SWITCHING_PROTOCOLS {
            return passed(answer.map(Body::new), &parts, errand, way, Some(share));
        }
        if !is_upgrade {
            return Err(Failed::Unreached("it switches protocols, which nobody asked for".to_owned()));
        }
        tokio::spawn(carry(client, hyper::upgrade::on(&mut answer), socket, share));
        passed(answer.map(|_| Body::empty()), &parts, errand, way, None)
    }

    /// Connects, and returns the socket of it once more, to be looked at.
    async fn connect(&self, way: &Way) -> Result<(Box<dyn Stream>, OwnedFd), String> {
        let host = way.place.host.as_str();
        let authority = way.place.authority();
        let socket = TcpStream::connect((host, way.place.port)).await;
        let socket = socket.map_err(|error| undialled(&error, host, &authority))?;
        keep_alive(&socket);
        let again = socket.as_fd().try_clone_to_owned();
        let again = again.map_err(|error| format!("dial tcp {authority}: {}", bare(&error)))?;
        let (config, who) = match &way.to {
            To::Workload { tls: false } => return Ok((Box::new(socket), again)),
            To::Workload { tls: true } => (self.shown.to_workload()?, String::new()),
            To::Node { name, trust } => {
                let config = self.shown.to_node(name, *trust, Timestamp::now())?;
                (config, format!("the node {name} at "))
            }
        };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host:?} is no host"))?;
        let shaken = TlsConnector::from(Arc::new(config)).connect(name, socket).await;
        let shaken = shaken.map_err(|error| {
            let why = error.get_ref().and_then(|source| source.downcast_ref()).map(verify::told);
            format!("{who}{authority}: {}", why.unwrap_or_else(|| format!("tls: {}", bare(&error))))
        });
        Ok((Box::new(shaken?), again))
    }
}

/// Bytes of both, until both have ended, one is broken, or the client is gone.
async fn carry(client: OnUpgrade, node: OnUpgrade, node_socket: OwnedFd, share: Share) {
    let (client, node) = match tokio::try_join!(client, node) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "an upgraded connection came to nothing"),
    };
    match carried(client, node, &node_socket, LOOK).await {
        Ok(()) => {}
        Err(error) => tracing::debug!(%error, "an upgraded connection ended early"),
    }
    drop(share);
}

async fn carried(client: Upgraded, node: Upgraded, node_socket: &OwnedFd, look: Duration) -> io::Result<()> {
    let opened = opened(client)?;
    let progress = Arc::new(Progress::default());
    let client = Told::new(opened.stream, progress.clone());
    tokio::select! {
        relayed = relay(client, opened.before, TokioIo::new(node), || has_ended(node_socket)) => relayed,
        () = progress.gone(&opened.socket, look) => Err(io::Error::other("the client is gone")),
        () = opened.cut.due() => Err(io::Error::other("its client is not believed any more")),
    }
}

/// Whether nothing more comes over a connection than what waits to be read.
fn has_ended(socket: &OwnedFd) -> bool {
    let mut look = [PollFd::new(socket, PollFlags::RDHUP)];
    // The kernel says so of one that is broken without being asked.
    poll(&mut look, Some(&Timespec::default())).is_ok_and(|ended| ended > 0)
}

/// Why nobody is reached, as the stock server says it.
fn undialled(error: &io::Error, host: &str, authority: &str) -> String {
    match error.raw_os_error() {
        Some(_) => format!("dial tcp {authority}: connect: {}", bare(error)),
        None => format!("dial tcp: lookup {host}: no such host"),
    }
}

/// What the system said, without its number.
fn bare(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    //! Nodes that have ended and nodes that have not, before anybody reads what they said.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn an_end_is_seen_behind_what_is_not_read() {
        for breaks in [false, true] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let mut node = listener.accept().await.unwrap().0;
            node.write_all(b"not read").await.unwrap();
            near.readable().await.unwrap();
            let socket = near.as_fd().try_clone_to_owned().unwrap();
            assert!(!has_ended(&socket), "it may say more");
            if breaks {
                // What it has not read breaks the connection when it closes.
                near.write_all(b"not read").await.unwrap();
                node.readable().await.unwrap();
            }
            drop(node);
            let seen = async {
                while !has_ended(&socket) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), seen).await.unwrap();
        }
    }
}
