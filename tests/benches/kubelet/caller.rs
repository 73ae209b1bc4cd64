//! Receives a call from each measured pod as soon as the pod serves, and verifies the pod's answer.

use std::net::SocketAddr;
use std::time::Duration;

use tests::Engine;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::clock::{Nanos, now};

/// Port on which the pods serve.
pub const PORT: u16 = 8080;

/// Timeout for one pod.
const DEADLINE: Duration = Duration::from_secs(60);

/// Listens on the host address of the engine's bridge, which pods of every network can reach.
pub struct Listener(TcpListener);

impl Listener {
    /// Listens on a free port.
    pub async fn new(engine: &Engine) -> Self {
        let bridge = engine.docker().inspect_network("bridge", None).await.unwrap();
        let pools = bridge.ipam.and_then(|ipam| ipam.config).unwrap_or_default();
        let gateway = pools.into_iter().find_map(|pool| pool.gateway).unwrap();
        Self(TcpListener::bind((gateway, 0)).await.unwrap())
    }

    /// Address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    /// Waits until the next pod connects, then requests a page from it. Returns the time at which the response began.
    pub async fn answered(&self) -> Nanos {
        timeout(DEADLINE, self.measure_response()).await.unwrap()
    }

    async fn measure_response(&self) -> Nanos {
        let (_call, pod) = self.0.accept().await.unwrap();
        let mut connection = TcpStream::connect((pod.ip(), PORT)).await.unwrap();
        connection.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut answer = [0; 5];
        connection.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/");
        now()
    }
}
