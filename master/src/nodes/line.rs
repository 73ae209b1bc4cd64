//! A connection to a node, and a request over it: one each, so that none waits for another and each ends with its client.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use apiserver::tls::keep_alive;
use axum::body::Body;
use axum::response::Response;
use http::{Request, StatusCode, header};
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::pass::{Failed, Way, asked, passed};
use super::shown::Shown;
use super::verify;

/// How long it may take to connect and shake hands; a node that is gone is not waited for any longer.
const CONNECT: Duration = Duration::from_secs(10);

/// The way to all nodes.
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
        target: &str,
        mut request: Request<Body>,
        place: OwnedSemaphorePermit,
    ) -> Result<Response, Failed> {
        let connecting = tokio::time::timeout(CONNECT, self.connect(way)).await;
        let late = |_| Failed::Unreached(format!("dial tcp {}: i/o timeout", way.place.authority()));
        let stream = connecting.map_err(late)?.map_err(Failed::Unreached)?;
        let broken = |error: hyper::Error| Failed::Unreached(format!("the connection broke: {error}"));
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        tokio::spawn(async move {
            if let Err(error) = connection.with_upgrades().await {
                tracing::debug!(%error, "a connection to a node ended early");
            }
        });
        let client = hyper::upgrade::on(&mut request);
        let asked = asked(request, target, &way.place.authority())?;
        let is_upgrade = asked.headers().contains_key(header::UPGRADE);
        let mut answer = sender.send_request(asked).await.map_err(broken)?;
        let code = answer.status();
        if is_upgrade && code != StatusCode::SWITCHING_PROTOCOLS && code.as_u16() < 400 {
            // A redirection, say, which the client would follow with its credentials.
            return Err(Failed::Unreached(format!(
                "invalid upgrade response: status code {}",
                code.as_u16()
            )));
        }
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(passed(answer.map(Body::new), Some(place)));
        }
        tokio::spawn(carry(client, hyper::upgrade::on(&mut answer), place));
        Ok(passed(answer.map(|_| Body::empty()), None))
    }

    async fn connect(&self, way: &Way) -> Result<TlsStream<TcpStream>, String> {
        let host = way.place.host.as_str();
        let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host:?} is no host"))?;
        let config = self.shown.config(&way.node, way.trust, Timestamp::now())?;
        let socket = TcpStream::connect((host, way.place.port)).await;
        let socket = socket.map_err(|error| undialled(&error, host, &way.place.authority()))?;
        keep_alive(&socket);
        let shaken = TlsConnector::from(Arc::new(config)).connect(name, socket).await;
        shaken.map_err(|error| {
            let why = error.get_ref().and_then(|source| source.downcast_ref()).map(verify::told);
            let why = why.unwrap_or_else(|| format!("tls: {}", bare(&error)));
            format!("the node {} at {}: {why}", way.node, way.place.authority())
        })
    }
}

/// Bytes of both, until both have ended or one is broken.
async fn carry(client: OnUpgrade, node: OnUpgrade, place: OwnedSemaphorePermit) {
    let (client, node) = match tokio::try_join!(client, node) {
        Ok(both) => both,
        Err(error) => return tracing::debug!(%error, "an upgraded connection came to nothing"),
    };
    if let Err(error) = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(node)).await {
        tracing::debug!(%error, "an upgraded connection ended early");
    }
    drop(place);
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
