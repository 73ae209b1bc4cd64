//! Listens for queries at one address, over UDP and TCP, with limits for floods.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::query::{self, MAX_QUERY_BYTES, Received};
use super::resolver::{Resolver, Step};

/// Maximum number of questions per client that wait for another server. A client with more gets no answer, so that it
/// cannot use up the limit of all.
const MAX_WAITING_PER_CLIENT: usize = 64;
/// Maximum number of TCP connections at an address.
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
    pub async fn serve(self, resolver: Arc<Resolver>) -> io::Result<()> {
        tokio::select! {
            ended = serve_udp(self.udp, resolver.clone()) => ended,
            ended = serve_tcp(self.tcp, resolver) => ended,
        }
    }
}

/// The number of tasks per client.
#[derive(Default)]
struct Clients {
    tasks: JoinSet<IpAddr>,
    counts: HashMap<IpAddr, usize>,
}

impl Clients {
    /// Starts a task, unless the client has `limit` of them. The task returns the address of the client.
    fn spawn(&mut self, client: IpAddr, limit: usize, task: impl Future<Output = IpAddr> + Send + 'static) {
        let count = self.counts.entry(client).or_default();
        if *count < limit {
            *count += 1;
            self.tasks.spawn(task);
        }
    }

    /// Waits until a task ends. Waits forever if there is none. Cancel safe.
    async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(client)) => {
                if let Some(count) = self.counts.get_mut(&client) {
                    *count -= 1;
                    if *count == 0 {
                        self.counts.remove(&client);
                    }
                }
            }
            Some(Err(error)) => {
                tracing::error!(%error, "a DNS query failed; this is a bug, please report it")
            }
            None => std::future::pending().await,
        }
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, resolver: Arc<Resolver>) -> io::Result<()> {
    let mut clients = Clients::default();
    let mut buffer = [0; MAX_QUERY_BYTES];
    loop {
        let received = tokio::select! {
            received = socket.recv_from(&mut buffer) => received,
            () = clients.ended() => continue,
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
                let (socket, resolver) = (socket.clone(), resolver.clone());
                clients.spawn(client.ip(), MAX_WAITING_PER_CLIENT, async move {
                    let response = resolver.forward(&query, forward, false).await;
                    send(&socket, &response, client);
                    client.ip()
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

async fn serve_tcp(listener: TcpListener, resolver: Arc<Resolver>) -> io::Result<()> {
    let mut clients = Clients::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept(), if clients.tasks.len() < MAX_CONNECTIONS => accepted,
            () = clients.ended() => continue,
        };
        match accepted {
            Ok((stream, client)) => {
                let resolver = resolver.clone();
                clients.spawn(client.ip(), MAX_CONNECTIONS_PER_CLIENT, async move {
                    if let Err(error) = serve_connection(stream, &resolver).await {
                        tracing::debug!(%client, %error, "a DNS connection failed");
                    }
                    client.ip()
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
async fn serve_connection(mut stream: TcpStream, resolver: &Resolver) -> io::Result<()> {
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
                Step::Forward(forward) => resolver.forward(&query, forward, true).await,
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
