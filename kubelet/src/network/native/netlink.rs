//! A conversation with the kernel about links, addresses and routes, in the network namespace it was begun in.

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

/// Lists that something changed in the middle of; each costs a millisecond.
const TRIES: usize = 20;
/// The kernel answers within the call; whoever waits longer waits for nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// `RTMGRP_LINK`.
pub(super) const LINKS: u32 = 0x1;
/// Bytes of `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;

/// One socket; a question is answered before the next is asked.
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    /// Begins one in the namespace of this thread.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(ANSWER_WITHIN))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// One whose lists hold only what the message asks for, where the kernel can do that; whoever asks looks at each all the same.
    pub fn strict() -> io::Result<Self> {
        let netlink = Self::open()?;
        // Kernels before 4.20 have no such thing.
        let _ = netlink.socket.set_netlink_get_strict_chk(true);
        Ok(netlink)
    }

    /// The link of that name, if there is one.
    pub fn find(&mut self, name: &str) -> io::Result<Option<Link>> {
        match self.one(links::get(Some(name)), Link::read) {
            Err(error) if is(&error, Errno::NODEV) => Ok(None),
            found => found,
        }
    }

    /// The addresses of the link of that number, but for those that its neighbours alone know.
    pub fn addresses(&mut self, index: u32) -> io::Result<BTreeSet<IpNet>> {
        let all = self.list(links::addresses(), |message| match message {
            Message::NewAddress(address) => links::read_address(&address).filter(|(of, _)| *of == index),
            _ => None,
        });
        Ok(all?.into_iter().map(|(_, net)| net).collect())
    }

    /// Takes the link of that name away; one that is not there is fine.
    pub fn cut(&mut self, name: &str) -> io::Result<()> {
        let Some(link) = self.find(name)? else { return Ok(()) };
        match self.change(links::remove(link.index), 0) {
            Err(error) if is(&error, Errno::NODEV) => Ok(()),
            done => done,
        }
    }

    /// Has something changed; `flags` are those of the message beside "request" and "acknowledge".
    ///
    /// # Errors
    /// The kernel's, by its number.
    pub fn change(&mut self, message: Message, flags: u16) -> io::Result<()> {
        self.ask(message, NLM_F_REQUEST | NLM_F_ACK | flags, |_| None::<()>).map(drop)
    }

    /// What is picked of the one thing that the message asks for.
    pub fn one<T>(&mut self, message: Message, pick: impl Fn(Message) -> Option<T>) -> io::Result<Option<T>> {
        Ok(self.ask(message, NLM_F_REQUEST | NLM_F_ACK, pick)?.pop())
    }

    /// What is picked of all that the message asks for, as it was at one moment. The rest is not kept: of a machine full of pods it
    /// is megabytes.
    pub fn list<T>(&mut self, message: Message, pick: impl Fn(Message) -> Option<T>) -> io::Result<Vec<T>> {
        for _ in 0..TRIES {
            match self.ask(message.clone(), NLM_F_REQUEST | NLM_F_DUMP, &pick) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                listed => return listed,
            }
        }
        Err(io::Error::other("links and routes change faster than they can be listed"))
    }

    fn ask<T>(
        &mut self,
        message: Message,
        flags: u16,
        pick: impl Fn(Message) -> Option<T>,
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
        self.answer(pick)
    }

    fn answer<T>(&mut self, pick: impl Fn(Message) -> Option<T>) -> io::Result<Vec<T>> {
        let (mut all, mut is_torn) = (Vec::new(), false);
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
                // Some kind of link that the library does not know is none of ours.
                let Ok(packet) = packet else { continue };
                if packet.header.sequence_number != self.sequence {
                    continue;
                }
                if packet.header.flags & NLM_F_DUMP_INTR != 0 {
                    is_torn = true;
                }
                match packet.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::Done(done) if done.code < 0 => {
                        return Err(io::Error::from_raw_os_error(-done.code));
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) if is_torn => {
                        return Err(io::ErrorKind::Interrupted.into());
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(all),
                    NetlinkPayload::InnerMessage(message) => all.extend(pick(message)),
                    _ => {}
                }
            }
        }
    }
}

/// Hears that links come, go or change, in the network namespace it was begun in.
pub(super) struct Changes(Socket);

impl Changes {
    /// Begins to listen.
    pub fn of_links() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, LINKS))?;
        Ok(Self(socket))
    }

    /// Waits for the next change, at most so long, which is more than nothing. Blocks.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        set_socket_timeout(&self.0, Timeout::Recv, Some(at_most))?;
        match self.0.recv_from_full() {
            // More has changed than could be told.
            Err(error) if is(&error, Errno::NOBUFS) || error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            heard => heard.map(drop),
        }
    }
}

/// Whether the kernel gave that for a reason.
pub(super) fn is(error: &io::Error, reason: Errno) -> bool {
    error.raw_os_error() == Some(reason.raw_os_error())
}
