//! A packet socket on the `eth0` of a pod, as a program with NET_RAW can open it.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType};
use rustix::net::{recvfrom, sendto, socket_with};
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use tests::DEADLINE;

use super::frames::{Mac, udp, untagged};

/// `ETH_P_ALL` in network byte order.
const ALL_PROTOCOLS: u32 = 0x0300;
const LARGEST: usize = 2000;

pub struct Wire {
    socket: OwnedFd,
    /// The address of `eth0` for the packet socket.
    eth0: SocketAddrAny,
    pub mac: Mac,
    pub address: String,
}

impl Wire {
    /// Opens one in this thread's network namespace, which has the given IPv4 address and a default route.
    pub fn open(address: &str) -> Self {
        let protocol = Protocol::from_raw(NonZeroU32::new(ALL_PROTOCOLS).unwrap());
        let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol)).unwrap();
        set_socket_timeout(&socket, Timeout::Recv, Some(DEADLINE)).unwrap();
        // The socket also receives outgoing frames, with their interface. The datagram causes one, an ARP request at least.
        let outwards = UdpSocket::bind((address, 0)).unwrap();
        outwards.send_to(b"hello", "192.0.2.99:9").unwrap();
        let mut frame = [0; LARGEST];
        let own: std::net::Ipv4Addr = address.parse().unwrap();
        loop {
            let (_, length, from) = recvfrom(&socket, &mut frame[..], RecvFlags::empty()).unwrap();
            let is_own = length > 32 && (frame[26..30] == own.octets() || frame[28..32] == own.octets());
            // Incoming frames have another source address.
            if is_own && frame[6..12] != [0; 6] {
                let mac = frame[6..12].try_into().unwrap();
                return Self { socket, eth0: from.unwrap(), mac, address: address.to_owned() };
            }
        }
    }

    pub fn send(&self, frame: &[u8]) {
        // The kernel does not report a drop on the way to the sender.
        assert_eq!(sendto(&self.socket, frame, SendFlags::empty(), &self.eth0), Ok(frame.len()));
    }

    /// Sends frames and then markers. Returns the names of the frames that arrive before the last marker.
    pub fn try_all<'a>(&self, other: &Wire, frames: &'a [(&'a str, Vec<u8>)]) -> BTreeSet<&'a str> {
        // Frames that different processors forward may overtake each other, so this thread stays on one.
        let processors = sched_getaffinity(None).unwrap();
        let mut own = CpuSet::new();
        own.set(sched_getcpu());
        sched_setaffinity(None, &own).unwrap();
        frames.iter().for_each(|(_, frame)| self.send(frame));
        for number in 0..MARKERS {
            self.send(&self.marker(other, number));
        }
        sched_setaffinity(None, &processors).unwrap();
        let (mut seen, mut markers) = (BTreeSet::new(), 0);
        while markers < MARKERS {
            let frame = other.receive();
            if (0..MARKERS).any(|number| self.marker(other, number) == frame) {
                markers += 1;
            }
            seen.extend(frames.iter().filter(|(_, sent)| untagged(sent) == frame).map(|(name, _)| *name));
        }
        seen
    }

    /// A frame with the pod's own addresses.
    fn marker(&self, other: &Wire, number: usize) -> Vec<u8> {
        let text = format!("marker {number}, so long that it is no other frame");
        udp(other.mac, self.mac, &other.address, &self.address, &text)
    }

    fn receive(&self) -> Vec<u8> {
        let mut frame = [0; LARGEST];
        let (_, length, _) = recvfrom(&self.socket, &mut frame[..], RecvFlags::empty()).unwrap();
        frame[..length].to_vec()
    }
}

const MARKERS: usize = 5;
