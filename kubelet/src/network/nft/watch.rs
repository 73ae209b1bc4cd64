//! Whether somebody changed packet rules: it says "look again" and not what happened.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, recv};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use super::Error;
use super::socket::connect;

/// `NFNLGRP_NFTABLES`, counted from one, as a bit.
const GROUP: u32 = 1 << (7 - 1);

/// Between two looks: programs such as Docker change rules many times in a row.
const PACE: Duration = Duration::from_millis(100);

/// Hears of changes in the network namespace that the thread was in when it began.
pub struct Watch {
    socket: AsyncFd<OwnedFd>,
    /// Nothing is said before.
    next: Instant,
}

impl Watch {
    /// Hears from now on. Look once after it began: what was changed before is not told.
    ///
    /// # Errors
    /// The kernel has no nf_tables, or does not let this process near it.
    pub fn new() -> Result<Self, Error> {
        let doing = "hear of changed packet rules";
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

    /// Waits until somebody changed rules: somebody else or this process, whose own changes end with a look that finds
    /// nothing to do. May be given up and asked again at any time.
    pub async fn changed(&mut self) {
        loop {
            // It fails when the runtime ends, and with it whoever waits here.
            let Ok(mut ready) = self.socket.readable().await else { return std::future::pending().await };
            sleep_until(self.next).await;
            let heard = drain(ready.get_inner());
            ready.clear_ready();
            if heard {
                self.next = Instant::now() + PACE;
                return;
            }
        }
    }
}

/// Reads all that is there; whether it was anything. What did not fit into the socket counts too.
fn drain(socket: &OwnedFd) -> bool {
    let mut heard = false;
    // What is told is not read, so it may be cut short.
    let mut start = [0; 16];
    loop {
        match recv(socket, &mut start, RecvFlags::DONTWAIT) {
            Ok(_) | Err(Errno::NOBUFS) => heard = true,
            Err(Errno::INTR) => {}
            Err(_) => return heard,
        }
    }
}
