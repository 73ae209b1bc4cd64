//! Listens for queries at one address, over UDP and TCP, with limits for floods.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::query::{self, MAX_QUERY_BYTES, Received};
use super::resolver::{Resolver, Step};

/// Maximum number of questions per client that wait for another server. A client with more gets no answer, so that it
/// cannot use up the limit of all.
const MAX_WAITING_PER_CLIENT: usize = 64;
/// Maximum number of TCP connections.
const MAX_CONNECTIONS: usize = 256;
/// Maximum number of TCP connections per client.
const MAX_CONNECTIONS_PER_CLIENT: usize = 16;
/// How long a TCP connection may be idle. RFC 7766 recommends a few seconds.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a failed accept, for example without free file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The sockets of one address.
pub(super) struct Listener {
    udp: Arc<UdpSocket>,
    tcp: TcpListener,
}

impl Listener {
    /// Binds both sockets.
    ///
    /// # Errors
    /// If the address does not exist yet, or another program uses the port. The caller may retry.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let tcp = TcpListener::bind(address).await?;
        // With port 0, both sockets get the same port.
        let udp = UdpSocket::bind(tcp.local_addr()?).await?;
        Ok(Self { udp: Arc::new(udp), tcp })
    }

    /// The address of both sockets.
    #[cfg(test)]
    pub fn address(&self) -> SocketAddr {
        self.tcp.local_addr().expect("the socket is bound")
    }

    /// Answers queries until a socket fails.
    ///
    /// # Errors
    /// If a socket fails. The caller may bind again.
    pub async fn serve(self, resolver: Arc<Resolver>, limits: Arc<Limits>) -> io::Result<()> {
        tokio::select! {
            ended = serve_udp(self.udp, resolver.clone(), limits.clone()) => ended,
            ended = serve_tcp(self.tcp, resolver, limits) => ended,
        }
    }
}

/// The work of all listeners for clients. The limits hold for all addresses together.
#[derive(Debug)]
pub(super) struct Limits {
    /// The questions that wait for another server.
    waiting: Arc<Clients>,
    /// The TCP connections.
    connected: Arc<Clients>,
    /// Room for TCP connections.
    connections: Arc<Semaphore>,
}

impl Default for Limits {
    fn default() -> Self {
        let (waiting, connected) = (Arc::default(), Arc::default());
        Self { waiting, connected, connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)) }
    }
}

/// The number of tasks per client.
#[derive(Debug, Default)]
struct Clients(Mutex<HashMap<IpAddr, usize>>);

impl Clients {
    /// Counts a task of a client until the result is dropped. `None` if the client has `limit` of them.
    fn enter(self: &Arc<Self>, client: IpAddr, limit: usize) -> Option<Counted> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(client).or_default();
        if *count == limit {
            return None;
        }
        *count += 1;
        Some(Counted { clients: self.clone(), client })
    }
}

/// One task of a client.
struct Counted {
    clients: Arc<Clients>,
    client: IpAddr,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.clients.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.client);
            }
        }
    }
}

/// Waits until a task ends. Waits forever if there is none. Cancel safe.
async fn ended(tasks: &mut JoinSet<()>) {
    match tasks.join_next().await {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::error!(%error, "a DNS query failed; this is a bug, please report it"),
        None => std::future::pending().await,
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, resolver: Arc<Resolver>, limits: Arc<Limits>) -> io::Result<()> {
    let mut tasks = JoinSet::new();
    let mut buffer = [0; MAX_QUERY_BYTES];
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            () = ended(&mut tasks) => continue,
        };
        let (length, client) = received?;
        let query = match query::read(&buffer[..length]) {
            Received::Query(query) => query,
            Received::Error(response) => {
                send(&socket, &response, client);
                continue;
            }
            Received::Ignored => continue,
        };
        match resolver.begin(&query, false) {
            Step::Done(response) => send(&socket, &response, client),
            Step::Forward(forward) => {
                let counted = limits.waiting.enter(client.ip(), MAX_WAITING_PER_CLIENT);
                let Some(counted) = counted else { continue };
                let (socket, resolver) = (socket.clone(), resolver.clone());
                tasks.spawn(async move {
                    let _counted = counted;
                    let response = resolver.forward(&query, forward, client.ip(), false).await;
                    send(&socket, &response, client);
                });
            }
        }
    }
}

/// Sends a response. If the socket is full, the client has to retry, as after any lost packet.
fn send(socket: &UdpSocket, response: &[u8], client: SocketAddr) {
    if let Err(error) = socket.try_send_to(response, client) {
        tracing::debug!(%client, %error, "cannot send a DNS response");
    }
}

async fn serve_tcp(listener: TcpListener, resolver: Arc<Resolver>, limits: Arc<Limits>) -> io::Result<()> {
    let mut tasks = JoinSet::new();
    loop {
        let accept = async {
            let permit = limits.connections.clone().acquire_owned().await.map_err(io::Error::other)?;
            Ok::<_, io::Error>((permit, listener.accept().await?))
        };
        let accepted = tokio::select! {
            accepted = accept => accepted,
            () = ended(&mut tasks) => continue,
        };
        match accepted {
            Ok((permit, (stream, client))) => {
                let counted = limits.connected.enter(client.ip(), MAX_CONNECTIONS_PER_CLIENT);
                let Some(counted) = counted else { continue };
                let resolver = resolver.clone();
                tasks.spawn(async move {
                    let _held = (permit, counted);
                    if let Err(error) = serve_connection(stream, client.ip(), &resolver).await {
                        tracing::debug!(%client, %error, "a DNS connection failed");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept DNS connections; retrying");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Answers the queries of one connection, one after the other, until it is idle or closed.
async fn serve_connection(mut stream: TcpStream, client: IpAddr, resolver: &Resolver) -> io::Result<()> {
    loop {
        let query = match timeout(IDLE_TIMEOUT, read_message(&mut stream)).await {
            Ok(Ok(Some(query))) => query,
            // The client has closed the connection, or does not use it.
            Ok(Ok(None)) | Err(_) => return Ok(()),
            Ok(Err(error)) => return Err(error),
        };
        let response = match query::read(&query) {
            Received::Query(query) => match resolver.begin(&query, true) {
                Step::Done(response) => response,
                Step::Forward(forward) => resolver.forward(&query, forward, client, true).await,
            },
            Received::Error(response) => response,
            Received::Ignored => return Ok(()),
        };
        let length = u16::try_from(response.len()).map_err(io::Error::other)?;
        let message = [&length.to_be_bytes(), response.as_slice()].concat();
        match timeout(IDLE_TIMEOUT, stream.write_all(&message)).await {
            Ok(written) => written?,
            Err(_) => return Ok(()),
        }
    }
}

/// Reads one message. `None` at the end of the stream.
async fn read_message(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let length = match stream.read_u16().await {
        Ok(length) => usize::from(length),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if length > MAX_QUERY_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the query is too long"));
    }
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    Ok(Some(message))
}

#[cfg(test)]
mod tests;
