//! Who hears from the pods that are measured that they serve, and looks whether they do.

use std::net::SocketAddr;
use std::time::Duration;

use tests::Engine;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::clock::{Nanos, now};

/// Where the pods serve.
pub const PORT: u16 = 8080;

/// Longest that a pod may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Listens on the host's end of the engine's bridge, which pods of every network reach.
pub struct Listener(TcpListener);

impl Listener {
    /// Listens on a free port.
    pub async fn new(engine: &Engine) -> Self {
        let bridge = engine.docker().inspect_network("bridge", None).await.unwrap();
        let pools = bridge.ipam.and_then(|ipam| ipam.config).unwrap_or_default();
        let gateway = pools.into_iter().find_map(|pool| pool.gateway).unwrap();
        Self(TcpListener::bind((gateway, 0)).await.unwrap())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Waits for the next pod to call and asks it for a page: the moment at which its answer began.
    pub async fn answered(&self) -> Nanos {
        timeout(DEADLINE, self.ask()).await.unwrap()
    }

    async fn ask(&self) -> Nanos {
        let (_call, pod) = self.0.accept().await.unwrap();
        let mut connection = TcpStream::connect((pod.ip(), PORT)).await.unwrap();
        connection.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = [0; 5];
        connection.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/");
        now()
    }
}
