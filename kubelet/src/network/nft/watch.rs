//! Notifies if any program has changed packet rules, without details.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, recv};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use super::Error;
use super::socket::connect;

/// The multicast group `NFNLGRP_NFTABLES`, counted from one, as a bit.
const GROUP: u32 = 1 << (7 - 1);

/// Shortest time between two notifications. Programs such as Docker make many changes in a row.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

/// Receives changes of the network namespace in which the thread was at the start.
pub struct Watch {
    socket: AsyncFd<OwnedFd>,
    /// The earliest time of the next notification.
    next: Instant,
}

impl Watch {
    /// Subscribes to changes. Afterwards the caller must check the rules once, because earlier changes are not
    /// reported.
    ///
    /// # Errors
    /// If the kernel has no nf_tables, or the process lacks permission.
    pub fn new() -> Result<Self, Error> {
        let doing = "watch packet rules";
        let socket = connect(GROUP, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        let socket = socket.map_err(|errno| Error::opening(doing, errno))?;
        #[expect(
            deprecated,
            reason = "its successor is unsafe; what it asks for, an OwnedFd keeps by its type"
        )]
        let socket = AsyncFd::with_interest(socket, Interest::READABLE).map_err(|source| Error::Refused {
            doing,
            what: "to be waited for".to_owned(),
            source,
        })?;
        Ok(Self { socket, next: Instant::now() })
    }

    /// Waits until another program or this process has changed rules. After its own change, the process finds
    /// nothing to repair. Cancel-safe.
    pub async fn changed(&mut self) {
        loop {
            // The error means that the runtime is shutting down.
            let Ok(mut ready) = self.socket.readable().await else { return std::future::pending().await };
            sleep_until(self.next).await;
            let received = drain(ready.get_inner());
            ready.clear_ready();
            if received {
                self.next = Instant::now() + MIN_INTERVAL;
                return;
            }
        }
    }
}

/// Reads all pending messages. Returns whether there were any. An overflow of the socket buffer counts as one.
fn drain(socket: &OwnedFd) -> bool {
    let mut received = false;
    // The content is not used, so it may be truncated.
    let mut start = [0; 16];
    loop {
        match recv(socket, &mut start, RecvFlags::DONTWAIT) {
            Ok(_) | Err(Errno::NOBUFS) => received = true,
            Err(Errno::INTR) => {}
            Err(_) => return received,
        }
    }
}
