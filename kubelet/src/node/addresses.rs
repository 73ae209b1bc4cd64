//! The node's addresses, followed: the kernel tells when they may be others, and then they are looked at.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use futures_util::FutureExt as _;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{AsyncSocket as _, AsyncSocketExt as _, SocketAddr, TokioSocket};

use super::machine;

/// What the machine's addresses go by: those of its links, its routes and the rules that choose among them, and a link that is switched off, whose routes of IPv4 go
/// without a word. `RTMGRP_*` of rtnetlink.
const GROUPS: u32 = LINK | IPV4_ADDRESS | IPV4_ROUTE | IPV4_RULE | IPV6_ADDRESS | IPV6_ROUTE | IPV6_RULE;
const LINK: u32 = 0x1;
const IPV4_ADDRESS: u32 = 0x10;
const IPV4_ROUTE: u32 = 0x40;
const IPV4_RULE: u32 = 0x80;
const IPV6_ADDRESS: u32 = 0x100;
const IPV6_ROUTE: u32 = 0x400;
const IPV6_RULE: u32 = 0x4_0000;
/// One change comes with others, pods that come and go among them: they are looked at together, which costs two questions.
const SETTLES: Duration = Duration::from_millis(200);
/// News that are taken together at most; more than that are looked at in turn.
const MOST_AT_ONCE: usize = 10_000;
/// Between two looks where the kernel does not tell.
const LOOK_ANYWAY: Duration = Duration::from_secs(3);

/// Follows the node's addresses in the network namespace that the thread was in when it began.
pub struct Addresses {
    given: Option<IpAddr>,
    /// `None` where nothing is heard.
    news: Option<TokioSocket>,
}

impl Addresses {
    /// Begins to; one that the node was given stays.
    pub fn follow(given: Option<IpAddr>) -> Self {
        let news = match given {
            Some(_) => None,
            None => listen()
                .inspect_err(|error| {
                    tracing::warn!(%error, "cannot hear of addresses of this machine: they are looked at every {LOOK_ANYWAY:?}");
                })
                .ok(),
        };
        Self { given, news }
    }

    /// Waits until the machine has other addresses than these. One that has none for a while, but its loopback, has not moved. May
    /// be given up and asked again at any time.
    pub async fn moved(&mut self, known: &[IpAddr]) {
        if self.given.is_some() {
            return std::future::pending().await;
        }
        loop {
            let now = machine::addresses();
            if now != known && !now.iter().all(IpAddr::is_loopback) {
                return;
            }
            self.told().await;
        }
    }

    /// Waits until a look may show something else.
    async fn told(&mut self) {
        let Some(news) = &mut self.news else { return tokio::time::sleep(LOOK_ANYWAY).await };
        // What was lost may be anything.
        let _ = news.recv_from_full().await;
        tokio::time::sleep(SETTLES).await;
        for _ in 0..MOST_AT_ONCE {
            if news.recv_from_full().now_or_never().is_none() {
                return;
            }
        }
    }
}

fn listen() -> io::Result<TokioSocket> {
    let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
    socket.socket_mut().bind(&SocketAddr::new(0, GROUPS))?;
    Ok(socket)
}
