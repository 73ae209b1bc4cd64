//! Connects to the API server: TLS handshake, health, version and clock.

pub mod clock;
pub mod health;
pub mod refusal;
pub mod version;

use std::error::Error;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use apiserver::tasks;
use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::version::TLS12;
use rustls::{ALL_VERSIONS, AlertDescription, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use self::clock::Reading;
use self::refusal::Refusal;
use crate::controllers::{Address, Remote};

/// Timeout of each step.
const STEP: Duration = Duration::from_secs(10);
/// Maximum size of a response in bytes. Health and version have a few lines.
const MOST_BYTES: usize = 1 << 20;
/// Maximum size of the metrics in bytes. They have a few thousand lines.
const MOST_METRICS_BYTES: usize = 16 << 20;
/// The only protocol that the client offers: HTTP/1.1.
const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

/// An HTTP response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status code.
    pub code: u16,
    /// Response body.
    pub body: String,
}

/// What the server reported about itself.
#[derive(Clone, Debug)]
pub struct Responses {
    /// The server's certificate with intermediates.
    pub chain: Vec<CertificateDer<'static>>,
    /// The response of `/livez`.
    pub live: Answer,
    /// The response of `/readyz`.
    pub ready: Answer,
    /// The response of `/version`.
    pub version: Answer,
    /// The server's clock, if it sends a `Date` header.
    pub clock: Option<Reading>,
    /// The server's start time, if the user may read its metrics.
    pub started: Option<Timestamp>,
}

/// Connects to the server and queries it.
///
/// # Errors
/// If the server could not be queried. The error is the reason.
pub async fn knock(remote: &Remote<'_>) -> Result<Responses, Refusal> {
    let unusable = |error: tower::BoxError| Refusal::Unusable(error.to_string());
    let address = remote.address().map_err(unusable)?;
    // In TLS 1.2 the server rejects a client certificate within the handshake, so the alert always arrives. In TLS 1.3
    // it closes the connection later, and the alert may be lost.
    let stream = match shake(remote, &address, &[&TLS12]).await {
        Err(Refusal::Alert(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure)) => {
            shake(remote, &address, ALL_VERSIONS).await?
        }
        shaken => shaken?,
    };
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
    let shaken = http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|error| of_error(&error))?;
    tasks::supervise("connection to the API server", async { drop(connection.await) });
    let host = address.authority.as_str();
    let sent = Timestamp::now();
    let (version, date) = fetch(&mut sender, host, "/version").await?;
    let clock = date.map(|date| Reading { date, sent, received: Timestamp::now() });
    let (live, _) = fetch(&mut sender, host, "/livez?verbose").await?;
    let (ready, _) = fetch(&mut sender, host, "/readyz?verbose").await?;
    let started = started(&mut sender, host).await;
    Ok(Responses { chain, live, ready, version, clock, started })
}

async fn shake(
    remote: &Remote<'_>,
    address: &Address,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<TlsStream<TcpStream>, Refusal> {
    let config = remote.tls(versions, PROTOCOLS).map_err(|error| Refusal::Unusable(error.to_string()))?;
    let found = in_time(tokio::net::lookup_host((address.host.as_str(), address.port))).await?;
    let places: Vec<_> = found.map_err(|error| Refusal::NoSuchHost(error.to_string()))?.collect();
    let socket = in_time(TcpStream::connect(&places[..])).await?.map_err(|error| of_io(&error))?;
    let connector = TlsConnector::from(Arc::new(config));
    in_time(connector.connect(address.name.clone(), socket)).await?.map_err(|error| of_io(&error))
}

/// The response, and its `Date` header.
async fn fetch(
    sender: &mut SendRequest<Empty<Bytes>>,
    host: &str,
    path: &str,
) -> Result<(Answer, Option<String>), Refusal> {
    let request = Request::get(path).header(header::HOST, host).body(Empty::new());
    let request = request.map_err(|error| Refusal::Unusable(error.to_string()))?;
    let response = in_time(sender.send_request(request)).await?.map_err(|error| of_error(&error))?;
    let code = response.status().as_u16();
    let date = response.headers().get(header::DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
    let body = in_time(Limited::new(response.into_body(), MOST_BYTES).collect()).await?;
    let body = body.map_err(|error| of_error(&*error))?.to_bytes();
    Ok((Answer { code, body: String::from_utf8_lossy(&body).into_owned() }, date))
}

/// Start time of the server process, from its metrics.
async fn started(sender: &mut SendRequest<Empty<Bytes>>, host: &str) -> Option<Timestamp> {
    let request = Request::get("/metrics").header(header::HOST, host).body(Empty::new()).ok()?;
    let response = in_time(sender.send_request(request)).await.ok()?.ok()?;
    let body = in_time(Limited::new(response.into_body(), MOST_METRICS_BYTES).collect()).await.ok()?;
    began(&String::from_utf8_lossy(&body.ok()?.to_bytes()))
}

/// Reads the start time in the text of the metrics.
fn began(metrics: &str) -> Option<Timestamp> {
    let start_time = metrics.lines().find_map(|line| line.strip_prefix("process_start_time_seconds "))?;
    let seconds = start_time.split(' ').next()?.parse::<f64>().ok()?;
    Timestamp::from_millisecond((seconds * 1000.0) as i64).ok()
}

async fn in_time<T>(step: impl Future<Output = T>) -> Result<T, Refusal> {
    tokio::time::timeout(STEP, step).await.map_err(|_| Refusal::Silent(STEP))
}

/// The cause of an HTTP error.
fn of_error(error: &(dyn Error + 'static)) -> Refusal {
    let mut next = Some(error);
    while let Some(one) = next {
        if let Some(io) = one.downcast_ref::<io::Error>() {
            return of_io(io);
        }
        next = one.source();
    }
    Refusal::HungUp(error.to_string())
}

fn of_io(error: &io::Error) -> Refusal {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match (inner, error.kind()) {
        (Some(rustls::Error::InvalidCertificate(why)), _) => Refusal::Certificate(why.clone()),
        (Some(rustls::Error::AlertReceived(alert)), _) => Refusal::Alert(*alert),
        (Some(other), _) => Refusal::NoTls(other.to_string()),
        (None, ErrorKind::ConnectionRefused) => Refusal::Closed,
        (None, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
            Refusal::HungUp(error.to_string())
        }
        (None, _) => Refusal::Unreachable(error.to_string()),
    }
}
