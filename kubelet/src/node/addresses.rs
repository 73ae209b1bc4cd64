//! Watches the node's addresses. When the kernel reports a change of links, routes or rules, the addresses are read
//! again.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::FutureExt as _;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket};

use super::machine;

/// The `RTMGRP_*` groups that can change the machine's addresses: link addresses, routes and routing rules. Links are
/// included because a link that goes down removes its IPv4 routes without an event.
const GROUPS: u32 = LINK | IPV4_ADDRESS | IPV4_ROUTE | IPV4_RULE | IPV6_ADDRESS | IPV6_ROUTE | IPV6_RULE;
const LINK: u32 = 0x1;
const IPV4_ADDRESS: u32 = 0x10;
const IPV4_ROUTE: u32 = 0x40;
const IPV4_RULE: u32 = 0x80;
const IPV6_ADDRESS: u32 = 0x100;
const IPV6_ROUTE: u32 = 0x400;
const IPV6_RULE: u32 = 0x4_0000;
/// Changes within this time are handled together. They come in groups, for example when pods start and stop.
const SETTLE_DELAY: Duration = Duration::from_millis(200);
/// Maximum number of events that are handled at once.
const MAX_BATCH: usize = 10_000;
/// Poll interval if the kernel's events are not available.
const POLL_INTERVAL: Duration = Duration::from_secs(3);

/// Watches the node's addresses in the network namespace in which the thread was at the start.
pub struct Addresses {
    given: Option<IpAddr>,
    /// The netlink socket that reports address changes, or `None` if the addresses are polled.
    events: Option<TokioSocket>,
}

impl Addresses {
    /// Starts watching. An address that `--node-ip` gives never changes.
    pub fn follow(given: Option<IpAddr>) -> Self {
        let events = match given {
            Some(_) => None,
            None => subscribe()
                .inspect_err(|error| {
                    tracing::warn!(%error, "cannot watch the addresses of this machine: polling them every {POLL_INTERVAL:?}");
                })
                .ok(),
        };
        Self { given, events }
    }

    /// Waits until the machine's addresses differ from `known`. A machine with only loopback addresses counts as
    /// unchanged. Cancel-safe.
    pub async fn moved(&mut self, known: &[IpAddr]) {
        if self.given.is_some() {
            return std::future::pending().await;
        }
        loop {
            let now = machine::addresses();
            if now != known && !now.iter().all(IpAddr::is_loopback) {
                return;
            }
            self.wait_for_event().await;
        }
    }

    /// Waits until the addresses may have changed.
    async fn wait_for_event(&mut self) {
        let Some(events) = &mut self.events else { return tokio::time::sleep(POLL_INTERVAL).await };
        // An error means lost events, which count as a change.
        let _ = events.recv_from_full().await;
        tokio::time::sleep(SETTLE_DELAY).await;
        for _ in 0..MAX_BATCH {
            if events.recv_from_full().now_or_never().is_none() {
                return;
            }
        }
    }
}

fn subscribe() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind(&SocketAddr::new(0, GROUPS))?;
    Ok(socket)
}
