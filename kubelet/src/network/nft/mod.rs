//! What the kernel does with the packets of pods: ports of the host that lead to them, masquerading, and a way past firewalls.
//!
//! All of it is one table of our own and two rules in each chain of somebody else's that would drop what is forwarded. It is
//! set by netlink alone; changes are worked out from what is there ([`ports::plan`], [`firewall::plan`], [`table::Table`]),
//! sent in one batch that the kernel carries out as a whole, and refused by it if anybody changed any rule meanwhile.
//! The calls block for as long as the kernel works, which is a few milliseconds at most: they belong on a thread of their own.

mod error;
mod expression;
mod firewall;
mod flows;
pub mod legacy;
mod look;
mod ports;
mod ranges;
mod socket;
mod table;
mod watch;
mod wire;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

pub use error::Error;
pub use ports::{Changes, Port, Protocol, plan};
pub use watch::Watch;

use firewall::Forward;
use look::There;
use socket::{Fault, Socket};
use table::Table;
use wire::Message;

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// The fourth.
    V4,
    /// The sixth.
    V6,
}

impl Family {
    /// Both of them.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// `NFPROTO_*`.
    fn number(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
        }
    }

    /// Bytes of an address.
    fn address_length(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }

    /// Bits of an address.
    fn bits(self) -> u32 {
        u32::from(self.address_length()) * 8
    }

    /// Where a packet says who sent it, in bytes.
    fn source_offset(self) -> u32 {
        match self {
            Self::V4 => 12,
            Self::V6 => 8,
        }
    }

    /// Where a packet says who is to get it, in bytes.
    fn destination_offset(self) -> u32 {
        self.source_offset() + u32::from(self.address_length())
    }

    /// What the kernel calls the address that a connection was addressed to first, `NFT_CT_DST_IP` and `NFT_CT_DST_IP6`.
    fn asked_address(self) -> u32 {
        match self {
            Self::V4 => 20,
            Self::V6 => 22,
        }
    }

    /// The address that stands for all of a host.
    fn every_address(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// The addresses by which a host reaches itself: one of them, and how many of its bits count.
    fn loopback(self) -> (Vec<u8>, u8) {
        match self {
            Self::V4 => (Ipv4Addr::LOCALHOST.octets().to_vec(), 8),
            Self::V6 => (Ipv6Addr::LOCALHOST.octets().to_vec(), 128),
        }
    }

    /// The set of the addresses that are not masqueraded for.
    fn cluster(self) -> &'static str {
        match self {
            Self::V4 => "cluster",
            Self::V6 => "cluster6",
        }
    }

    /// The number by which `nft` knows an address of it.
    fn nft_type(self) -> u32 {
        match self {
            Self::V4 => 7,
            Self::V6 => 8,
        }
    }
}

/// A node as far as its packets go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The name of the table, and the beginning of the comments on rules in other tables.
    pub name: String,
    /// The bridge that the pods are behind, at most 15 bytes. Whoever makes it sets `route_localnet`, without which the host
    /// does not reach ports of its own at `127.0.0.1`, and hairpin mode for its ports, without which a pod does not reach
    /// itself by a port of the host where the kernel shows bridged packets to rules (`bridge-nf-call-iptables`).
    pub bridge: String,
    /// The addresses of its pods.
    pub cidrs: Vec<IpNet>,
    /// The addresses of all pods of the cluster, besides: pods go there by their own addresses.
    pub cluster: Vec<IpNet>,
}

/// What [`Rules::ensure`] had to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// The table was not as it should be and was made anew.
    pub table: bool,
    /// Which addresses are those of pods was changed, unless the table was made anew.
    pub cluster: bool,
    /// Ports that were changed, unless the table was made anew.
    pub ports: Changes,
    /// Chains of other tables that let pods through now, as family, table and chain.
    pub opened: Vec<String>,
    /// Chains of other tables that do not and that nobody but the program that owns them can change.
    pub closed: Vec<String>,
}

impl Repairs {
    /// Whether nothing was changed.
    pub fn is_nothing(&self) -> bool {
        !self.table && !self.cluster && self.ports.is_empty() && self.opened.is_empty()
    }
}

/// Changes of the rules by somebody else that one change of ours may run into: more than any program makes in a row. Each
/// costs a look, about a millisecond.
const TRIES: usize = 200;

/// The rules of the network namespace that the thread was in when it opened them.
pub struct Rules {
    socket: Socket,
}

impl Rules {
    /// Opens them, and changes nothing yet.
    ///
    /// # Errors
    /// The kernel has no nf_tables, or does not let this process near it.
    pub fn open() -> Result<Self, Error> {
        let doing = "read the packet rules";
        let mut socket = Socket::open(0).map_err(|errno| Error::opening(doing, errno))?;
        socket.generation().map_err(|fault| Error::opening(doing, fault.errno()))?;
        Ok(Self { socket })
    }

    /// Sees to it that all rules are as they should be; nothing is touched that already is.
    ///
    /// A table that is made anew replaces the old one in one moment. Of ports that contradict each other, the first is taken.
    ///
    /// # Errors
    /// The kernel refuses, or somebody changes rules all the time.
    pub fn ensure(&mut self, node: &Node, ports: &BTreeSet<Port>) -> Result<Repairs, Error> {
        let table = Table::new(node);
        let picture = table.picture();
        let repairs = self.settle("set the packet rules of the pods", |socket| {
            let there = look::all(socket, &node.name)?;
            let mut repairs = Repairs::default();
            let mut messages = match &there {
                There { ours: Some(ours), ports: Some(known), .. }
                    if ours.is_same_but_for_cluster(&picture) =>
                {
                    repairs.ports = plan(ports, known);
                    let cluster = table.cluster_messages(ours);
                    repairs.cluster = !cluster.is_empty();
                    [cluster, change(&node.name, &repairs.ports)].concat()
                }
                _ => {
                    repairs.table = true;
                    table.messages(&plan(ports, &BTreeSet::new()).add)
                }
            };
            let firewalls = firewall::plan(node, &there.forward);
            messages.extend(firewalls.messages);
            repairs.opened = firewalls.opened;
            repairs.closed = firewalls.closed;
            Ok((messages, repairs))
        })?;
        flows::forget(&mut self.socket, &repairs.ports);
        if repairs.cluster || repairs.table {
            flows::unmask(&mut self.socket, node);
        }
        Ok(repairs)
    }

    /// The ports that are there.
    ///
    /// # Errors
    /// The table is gone, or holds what we did not put there: [`Rules::ensure`] makes it anew.
    pub fn ports(&mut self, name: &str) -> Result<BTreeSet<Port>, Error> {
        let ports =
            self.settle("read the ports of pods", |socket| Ok((Vec::new(), look::ports(socket, name)?)));
        ports?.ok_or_else(|| Error::Gone { table: name.to_owned() })
    }

    /// Puts ports in and leaves the others; a port that led elsewhere leads here now.
    ///
    /// # Errors
    /// As of [`Rules::ports`], or the kernel refuses.
    pub fn add(&mut self, name: &str, ports: &[Port]) -> Result<(), Error> {
        self.edit(name, |there| {
            let taken: BTreeSet<_> = ports.iter().map(Port::place).collect();
            let kept = there.iter().filter(|port| !taken.contains(&port.place()));
            kept.chain(ports).copied().collect()
        })
    }

    /// Takes ports away that lead just there, and leaves the others.
    ///
    /// # Errors
    /// As of [`Rules::ports`], or the kernel refuses.
    pub fn take(&mut self, name: &str, ports: &[Port]) -> Result<(), Error> {
        self.edit(name, |there| there.iter().filter(|port| !ports.contains(port)).copied().collect())
    }

    /// Takes everything away: the table, and the rules in tables of others.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        self.settle("take away the packet rules of the pods", |socket| {
            let there = look::all(socket, name)?;
            let mut messages: Vec<Message> = there.forward.iter().flat_map(Forward::without_ours).collect();
            if there.has_table {
                messages.extend(table::remove(name));
            }
            Ok((messages, ()))
        })
    }

    fn edit(&mut self, name: &str, wanted: impl Fn(&BTreeSet<Port>) -> BTreeSet<Port>) -> Result<(), Error> {
        let done = self.settle("change the ports of pods", |socket| {
            let Some(there) = look::ports(socket, name)? else { return Ok((Vec::new(), None)) };
            let changes = plan(&wanted(&there), &there);
            Ok((change(name, &changes), Some(changes)))
        });
        let changes = done?.ok_or_else(|| Error::Gone { table: name.to_owned() })?;
        flows::forget(&mut self.socket, &changes);
        Ok(())
    }

    /// Looks, and does what follows, unless somebody changed something in between: then it looks again.
    fn settle<T>(
        &mut self,
        doing: &'static str,
        plan: impl Fn(&mut Socket) -> Result<(Vec<Message>, T), Fault>,
    ) -> Result<T, Error> {
        let refused = |fault| match fault {
            Fault::Moved => Error::Restless { doing },
            Fault::Refused { errno, what } => Error::refused(doing, errno, what),
        };
        for _ in 0..TRIES {
            let generation = self.socket.generation().map_err(refused)?;
            let tried = plan(&mut self.socket).and_then(|(messages, told)| {
                self.socket.commit(generation, &messages)?;
                Ok(told)
            });
            match tried {
                Ok(told) => return Ok(told),
                Err(Fault::Moved) => {}
                // What was asked about may have gone in between.
                Err(fault) if self.socket.generation().map_err(refused)? == generation => {
                    return Err(refused(fault));
                }
                Err(_) => {}
            }
        }
        Err(Error::Restless { doing })
    }
}

fn change(name: &str, changes: &Changes) -> Vec<Message> {
    [table::take(name, &changes.remove), table::put(name, &changes.add)].concat()
}
