//! A netlink socket for links, addresses and routes, in the network namespace where it was opened.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage as Message;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::links::{self, Link};

/// Maximum number of repetitions of an interrupted dump. Each takes about a millisecond.
const MAX_DUMP_RETRIES: usize = 20;
/// Timeout of a response. The kernel answers within the system call, so a later answer will not come.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The multicast group `RTMGRP_LINK`.
pub(super) const LINKS: u32 = 0x1;
/// Size of `struct nlmsghdr` in bytes.
pub(super) const HEADER: usize = 16;

/// A netlink socket with one request at a time.
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Opens a socket in this thread's network namespace.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(RESPONSE_TIMEOUT))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Opens a socket with strict checking, with which the kernel filters dumps if it can. Callers filter again.
    pub fn strict() -> io::Result<Self> {
        let netlink = Self::open()?;
        // Kernels before 4.20 lack the option.
        let _ = netlink.socket.set_netlink_get_strict_chk(true);
        Ok(netlink)
    }

    /// The link of this name, if it exists.
    pub fn find(&mut self, name: &str) -> io::Result<Option<Link>> {
        match self.one(links::get(Some(name)), Link::read) {
            Err(error) if is(&error, Errno::NODEV) => Ok(None),
            found => found,
        }
    }

    /// The addresses of a link, without those of link scope.
    pub fn addresses(&mut self, index: u32) -> io::Result<BTreeSet<IpNet>> {
        let all = self.list(links::addresses(), |message| match message {
            Message::NewAddress(address) => links::read_address(&address).filter(|(of, _)| *of == index),
            _ => None,
        });
        Ok(all?.into_iter().map(|(_, net)| net).collect())
    }

    /// Deletes the link of this name, if it exists.
    pub fn delete_link(&mut self, name: &str) -> io::Result<()> {
        let Some(link) = self.find(name)? else { return Ok(()) };
        match self.change(links::remove(link.index), 0) {
            Err(error) if is(&error, Errno::NODEV) => Ok(()),
            done => done,
        }
    }

    /// Sends a change. `flags` are added to "request" and "acknowledge".
    ///
    /// # Errors
    /// If the kernel returns an error. The error has its errno.
    pub fn change(&mut self, message: Message, flags: u16) -> io::Result<()> {
        self.request(message, NLM_F_REQUEST | NLM_F_ACK | flags, |_| None::<()>).map(drop)
    }

    /// Requests one object, and converts it with `filter_map`.
    pub fn one<T>(
        &mut self,
        message: Message,
        filter_map: impl Fn(Message) -> Option<T>,
    ) -> io::Result<Option<T>> {
        Ok(self.request(message, NLM_F_REQUEST | NLM_F_ACK, filter_map)?.pop())
    }

    /// Requests a consistent dump, and converts it with `filter_map`. Other messages are dropped at once, because a
    /// full dump can have megabytes.
    pub fn list<T>(
        &mut self,
        message: Message,
        filter_map: impl Fn(Message) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        for _ in 0..MAX_DUMP_RETRIES {
            match self.request(message.clone(), NLM_F_REQUEST | NLM_F_DUMP, &filter_map) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                listed => return listed,
            }
        }
        Err(io::Error::other("links and routes change faster than they can be listed"))
    }

    fn request<T>(
        &mut self,
        message: Message,
        flags: u16,
        filter_map: impl Fn(Message) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::from(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        self.read_response(filter_map)
    }

    fn read_response<T>(&mut self, filter_map: impl Fn(Message) -> Option<T>) -> io::Result<Vec<T>> {
        let (mut all, mut is_interrupted) = (Vec::new(), false);
        loop {
            let (bytes, _) = self.socket.recv_from_full().map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => {
                    io::Error::new(io::ErrorKind::TimedOut, "the kernel does not answer")
                }
                _ => error,
            })?;
            let mut rest = bytes.as_slice();
            while let Some((length, _)) = rest.split_first_chunk::<4>() {
                let length = (u32::from_ne_bytes(*length) as usize).max(HEADER).next_multiple_of(4);
                let packet = NetlinkMessage::<Message>::deserialize(rest);
                rest = rest.get(length..).unwrap_or_default();
                // Messages of link types that the library does not know are not about our links.
                let Ok(packet) = packet else { continue };
                if packet.header.sequence_number != self.sequence {
                    continue;
                }
                if packet.header.flags & NLM_F_DUMP_INTR != 0 {
                    is_interrupted = true;
                }
                match packet.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(io::Error::from_raw_os_error(-done.code));
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) if is_interrupted => {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(all),
                    NetlinkPayload::InnerMessage(message) => all.extend(filter_map(message)),
                    _ => {}
                }
            }
        }
    }
}

/// Receives link changes in the network namespace where it was opened.
pub(super) struct LinkEvents(Socket);

impl LinkEvents {
    /// Subscribes to link changes.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, LINKS))?;
        Ok(Self(socket))
    }

    /// Waits for the next change, at most for `at_most`, which must not be zero. Blocks.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        set_socket_timeout(&self.0, Timeout::Recv, Some(at_most))?;
        match self.0.recv_from_full() {
            // The socket buffer overflowed, which also means a change.
            Err(error) if is(&error, Errno::NOBUFS) || error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            received => received.map(drop),
        }
    }
}

/// Whether the error has this errno.
pub(super) fn is(error: &io::Error, reason: Errno) -> bool {
    error.raw_os_error() == Some(reason.raw_os_error())
}
