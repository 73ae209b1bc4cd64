//! Forwards questions about names outside the cluster to the name servers of the host.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hickory_proto::op::{Edns, Message, Query};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use super::cache::Key;
use super::query::EDNS_BYTES;
use super::wire::{HEADER, Response, question_end};

/// Maximum number of questions at the same time. Each needs a socket.
const MAX_IN_FLIGHT: usize = 256;
/// Maximum number of attempts per question. Together they take less than the 5 s after which resolvers of clients retry.
const ATTEMPTS: usize = 3;
/// Timeout of an attempt, with its retries without EDNS and over TCP.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long a server that did not answer is asked after all others.
const FAILED_FOR: Duration = Duration::from_secs(10);
/// Response codes of RFC 1035.
const FORMAT_ERROR: u8 = 1;
const SERVER_FAILURE: u8 = 2;
const NOT_IMPLEMENTED: u8 = 4;
const REFUSED: u8 = 5;

/// Why a question has no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForwardError {
    #[error("the resolv.conf of this node names no name server")]
    NoServer,
    #[error("{MAX_IN_FLIGHT} other questions wait for an answer")]
    TooMany,
    #[error("no name server answered; the last error: {0}")]
    NoResponse(#[source] io::Error),
    #[error("cannot encode the question: {0}")]
    Encode(#[from] hickory_proto::ProtoError),
}

/// The name servers of the host.
#[derive(Debug)]
pub(super) struct Upstreams {
    servers: RwLock<Vec<SocketAddr>>,
    /// Servers that did not answer, with the time.
    failed: Mutex<HashMap<SocketAddr, Instant>>,
    permits: Semaphore,
}

impl Upstreams {
    /// No servers.
    pub fn new() -> Self {
        let (servers, failed) = (RwLock::default(), Mutex::default());
        Self { servers, failed, permits: Semaphore::new(MAX_IN_FLIGHT) }
    }

    /// Sets the servers, the preferred one first. Returns whether they changed.
    pub fn set(&self, servers: Vec<SocketAddr>) -> bool {
        let mut known = self.servers.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *known, servers) != *known
    }

    /// Sends a question to the servers, until one answers.
    ///
    /// # Errors
    /// If no server answers. The client may retry later.
    pub async fn ask(&self, key: &Key) -> Result<Response, ForwardError> {
        let _permit = self.permits.try_acquire().map_err(|_| ForwardError::TooMany)?;
        let servers = self.ordered(Instant::now());
        let (mut refusal, mut error) = (None, None);
        for (attempt, server) in servers.iter().cycle().take(ATTEMPTS).enumerate() {
            // A server that refused is asked only once.
            if refusal.is_some() && attempt >= servers.len() {
                break;
            }
            match exchange(*server, key).await {
                Ok(response) if is_refusal(&response) => {
                    refusal = Some(response);
                }
                Ok(response) => {
                    self.failed().remove(server);
                    return Ok(response);
                }
                Err(ExchangeError::Io(of_server)) => {
                    self.failed().insert(*server, Instant::now());
                    error = Some(of_server);
                }
                Err(ExchangeError::Encode(error)) => return Err(error.into()),
            }
        }
        match (refusal, error) {
            (Some(response), _) => Ok(response),
            (None, Some(error)) => Err(ForwardError::NoResponse(error)),
            (None, None) => Err(ForwardError::NoServer),
        }
    }

    /// The servers in the order of resolv.conf. Those that failed a short time ago come last.
    fn ordered(&self, now: Instant) -> Vec<SocketAddr> {
        let mut servers = self.servers.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut failed = self.failed();
        failed.retain(|server, at| servers.contains(server) && now < *at + FAILED_FOR);
        servers.sort_by_key(|server| failed.contains_key(server));
        servers
    }

    fn failed(&self) -> std::sync::MutexGuard<'_, HashMap<SocketAddr, Instant>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Encode(#[from] hickory_proto::ProtoError),
}

/// Whether the server cannot or does not want to answer, so that another one may.
fn is_refusal(response: &Response) -> bool {
    matches!(response.code(), SERVER_FAILURE | NOT_IMPLEMENTED | REFUSED)
}

/// Sends a question to one server. It retries without EDNS if the server does not know it, and over TCP if the response
/// does not fit into a packet. If TCP fails, the records that fit are the response.
async fn exchange(server: SocketAddr, key: &Key) -> Result<Response, ExchangeError> {
    let deadline = tokio::time::Instant::now() + ATTEMPT_TIMEOUT;
    let mut query = encode(key, true)?;
    let mut response = before(deadline, over_udp(server, &query)).await?;
    if matches!(response.code(), FORMAT_ERROR | NOT_IMPLEMENTED) {
        query = encode(key, false)?;
        response = before(deadline, over_udp(server, &query)).await?;
    }
    if !response.is_truncated() {
        return Ok(response);
    }
    match before(deadline, over_tcp(server, &query)).await {
        Ok(complete) if !is_refusal(&complete) => Ok(complete),
        Err(error) if !response.has_answers() => Err(error.into()),
        Ok(_) | Err(_) => Ok(response),
    }
}

async fn before<T>(
    deadline: tokio::time::Instant,
    exchange: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    timeout_at(deadline, exchange).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Encodes a question with a random id.
fn encode(key: &Key, with_edns: bool) -> Result<Vec<u8>, hickory_proto::ProtoError> {
    let mut message = Message::query();
    message.metadata.recursion_desired = true;
    message.metadata.checking_disabled = key.checking_disabled;
    message.add_query(Query::query(key.name.clone(), key.kind));
    if with_edns {
        let mut edns = Edns::new();
        edns.set_max_payload(EDNS_BYTES).set_dnssec_ok(key.dnssec_ok);
        message.set_edns(edns);
    }
    message.to_vec()
}

/// The kernel selects a random port for each question, and accepts packets of the server only. Together with the random
/// id, this makes forged responses improbable.
async fn over_udp(server: SocketAddr, query: &[u8]) -> io::Result<Response> {
    let any: IpAddr = match server.is_ipv4() {
        true => Ipv4Addr::UNSPECIFIED.into(),
        false => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(query).await?;
    let mut buffer = [0; 4096];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if let Some(response) = response_to(query, &buffer[..length]) {
            return Ok(response);
        }
    }
}

async fn over_tcp(server: SocketAddr, query: &[u8]) -> io::Result<Response> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), query].concat()).await?;
    let length = stream.read_u16().await?;
    let mut bytes = vec![0; length.into()];
    stream.read_exact(&mut bytes).await?;
    response_to(query, &bytes).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses the response to a query. `None` if the message is malformed or responds to another query.
fn response_to(query: &[u8], bytes: &[u8]) -> Option<Response> {
    let end = question_end(query)?;
    let is_response = bytes.get(..2)? == &query[..2] && bytes.get(2)? & 0x80 != 0;
    let is_error = matches!(bytes.get(3)? & 0x0f, FORMAT_ERROR | SERVER_FAILURE | NOT_IMPLEMENTED | REFUSED);
    // Servers that cannot parse a query return its header only.
    if is_response && is_error && bytes.get(4..6)? == [0, 0] {
        let mut response = query[..end].to_vec();
        response[2..4].copy_from_slice(&bytes[2..4]);
        response[6..HEADER].fill(0);
        return Response::parse(response);
    }
    let has_question = bytes.get(HEADER..end)?.eq_ignore_ascii_case(&query[HEADER..end]);
    (is_response && has_question).then(|| Response::parse(bytes.to_vec())).flatten()
}

#[cfg(test)]
pub(super) mod tests;
