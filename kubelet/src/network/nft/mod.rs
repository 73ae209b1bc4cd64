//! Packet rules for pods in nftables: host-port DNAT, masquerading, and exceptions in other firewalls.
//!
//! The kubelet has one table of its own, and up to three rules in each chain of another table that drops forwarded packets
//! by default. A chain that drops packets for the host gets rules for DNS. The kubelet sets all of them by netlink.
//! Changes are computed from the current rules ([`host_ports::plan`],
//! [`firewall::plan`], [`table::Table`]) and sent in one atomic batch. The kernel rejects the batch if another
//! program changed rules meanwhile.
//!
//! Calls block for up to a few milliseconds and belong on a blocking thread.

mod antispoof;
mod conntrack;
mod dns_input;
mod error;
mod expression;
mod firewall;
mod frames;
mod host_ports;
mod intervals;
pub mod legacy;
pub mod policies;
pub mod services;
mod snapshot;
mod socket;
mod table;
mod watch;
mod wire;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::OnceLock;

use ipnet::IpNet;

pub use antispoof::{POD_PORT_PREFIX, PodPort};
pub use error::Error;
pub use host_ports::{Changes, Port, Protocol, plan};
pub use watch::Watch;

use firewall::Forward;
use snapshot::KernelRules;
use socket::{RequestError, Socket, transact};
use table::Table;
use wire::Message;

/// An IP version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both IP versions.
    pub const BOTH: [Self; 2] = [Self::V4, Self::V6];

    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The protocol family, `NFPROTO_*`.
    fn number(self) -> u8 {
        match self {
            Self::V4 => 2,
            Self::V6 => 10,
        }
    }

    /// Length of an address in bytes.
    fn address_length(self) -> u8 {
        match self {
            Self::V4 => 4,
            Self::V6 => 16,
        }
    }

    /// Length of an address in bits.
    fn bits(self) -> u32 {
        u32::from(self.address_length()) * 8
    }

    /// Offset of the source address in the IP header, in bytes.
    fn source_offset(self) -> u32 {
        match self {
            Self::V4 => 12,
            Self::V6 => 8,
        }
    }

    /// Offset of the destination address in the IP header, in bytes.
    fn destination_offset(self) -> u32 {
        self.source_offset() + u32::from(self.address_length())
    }

    /// The conntrack key of the original destination: `NFT_CT_DST_IP` or `NFT_CT_DST_IP6`.
    fn original_destination_key(self) -> u32 {
        match self {
            Self::V4 => 20,
            Self::V6 => 22,
        }
    }

    /// The unspecified address, which means all addresses of a host.
    fn unspecified_address(self) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::UNSPECIFIED.into(),
            Self::V6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// The loopback network, as address and prefix length.
    fn loopback(self) -> (Vec<u8>, u8) {
        match self {
            Self::V4 => (Ipv4Addr::LOCALHOST.octets().to_vec(), 8),
            Self::V6 => (Ipv6Addr::LOCALHOST.octets().to_vec(), 128),
        }
    }

    /// The name of the set of addresses towards which pods are not masqueraded.
    fn cluster(self) -> &'static str {
        match self {
            Self::V4 => "cluster",
            Self::V6 => "cluster6",
        }
    }

    /// The data type number with which `nft` prints an address.
    fn nft_type(self) -> u32 {
        match self {
            Self::V4 => 7,
            Self::V6 => 8,
        }
    }
}

/// The parameters of a node for its packet rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// The table name, which also begins the comments of rules in other tables.
    pub name: String,
    /// The name of the pods' bridge, at most 15 bytes. The creator of the bridge must set `route_localnet`, so that
    /// the host reaches host ports at `127.0.0.1`. It must also set hairpin mode on the ports. With
    /// `bridge-nf-call-iptables`, a pod can then reach itself through a host port.
    pub bridge: String,
    /// The node's pod CIDRs.
    pub cidrs: Vec<IpNet>,
    /// The pod CIDRs of the other nodes, towards which pods are not masqueraded.
    pub cluster: Vec<IpNet>,
    /// Whether the kubelet serves Services, so that other firewalls must accept connections to them.
    pub serves_services: bool,
    /// The addresses of the bridge at which a DNS server answers the node and its pods; empty without a server.
    pub dns_servers: Vec<IpAddr>,
}

/// What [`Rules::ensure`] changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repairs {
    /// Whether the table was missing or wrong, so that it was created again.
    pub table: bool,
    /// Whether the set of pod addresses was changed without creating the table again.
    pub cluster: bool,
    /// Host ports that were changed, without creating the table again.
    pub ports: Changes,
    /// Whether the anti-spoofing table was created again or deleted.
    pub antispoof_table: bool,
    /// Whether allowed source addresses of pods were changed without creating that table again.
    pub pod_addresses: bool,
    /// Chains of other tables that now accept packets of pods, as family, table and chain.
    pub opened: Vec<String>,
    /// Chains of other tables that drop packets of pods, and that only the owner of the table can change.
    pub closed: Vec<String>,
}

impl Repairs {
    /// Whether nothing was changed.
    pub fn is_nothing(&self) -> bool {
        let is_changed = self.table || self.cluster || self.antispoof_table || self.pod_addresses;
        !is_changed && self.ports.is_empty() && self.opened.is_empty()
    }
}

/// The reason why the kernel does not support anti-spoofing rules, once it is known. It does not change while the
/// kubelet runs.
static NO_BRIDGE_FAMILY: OnceLock<String> = OnceLock::new();

/// The rules in the network namespace of the thread that opened them.
pub struct Rules {
    socket: Socket,
}

impl Rules {
    /// Opens the rules without changing them.
    ///
    /// # Errors
    /// If the kernel has no nf_tables, or the process lacks permission.
    pub fn open() -> Result<Self, Error> {
        let doing = "read the packet rules";
        let mut socket = Socket::open(0).map_err(|errno| Error::opening(doing, errno))?;
        socket.generation().map_err(|error| Error::opening(doing, error.errno()))?;
        Ok(Self { socket })
    }

    /// Creates and corrects all rules. Correct ones stay as they are.
    ///
    /// `pods` are the bridge ports of pods with their allowed source addresses. They are ignored if the kernel has
    /// no nf_tables for bridges.
    ///
    /// If the table must be created again, it replaces the old one atomically. Of conflicting host ports, the first
    /// one is used.
    ///
    /// # Errors
    /// If the kernel rejects the rules, or another program changes rules all the time.
    pub fn ensure(
        &mut self,
        node: &Node,
        ports: &BTreeSet<Port>,
        pods: &BTreeSet<PodPort>,
    ) -> Result<Repairs, Error> {
        without_bridge_family(|can| self.ensure_all(node, ports, can.then_some(pods)))
    }

    fn ensure_all(
        &mut self,
        node: &Node,
        ports: &BTreeSet<Port>,
        pods: Option<&BTreeSet<PodPort>>,
    ) -> Result<Repairs, Error> {
        let table = Table::new(node);
        let layout = table.layout();
        let repairs = self.apply("set the packet rules of the pods", |socket| {
            let there = snapshot::all(socket, &node.name)?;
            let mut repairs = Repairs::default();
            let mut messages = match &there {
                KernelRules { ours: Some(ours), ports: Some(known), .. }
                    if ours.is_equal_except_cluster(&layout) =>
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
            if let Some(pods) = pods {
                let (of_antispoof, changed) = antispoof::plan(&node.name, there.antispoof.as_ref(), pods);
                messages.extend(of_antispoof);
                repairs.antispoof_table = changed == antispoof::Changed::Table;
                repairs.pod_addresses = changed == antispoof::Changed::Elements;
            }
            let firewalls = firewall::plan(node, &there.forward);
            messages.extend(firewalls.messages);
            repairs.opened = firewalls.opened;
            repairs.closed = firewalls.closed;
            Ok((messages, repairs))
        })?;
        conntrack::forget(&mut self.socket, &repairs.ports);
        if repairs.cluster || repairs.table {
            conntrack::forget_masqueraded(&mut self.socket, node);
        }
        Ok(repairs)
    }

    /// The current host ports.
    ///
    /// # Errors
    /// If the table is gone or has elements of another program. [`Rules::ensure`] then creates it again.
    pub fn ports(&mut self, name: &str) -> Result<BTreeSet<Port>, Error> {
        let ports =
            self.apply("read the ports of pods", |socket| Ok((Vec::new(), snapshot::ports(socket, name)?)));
        ports?.ok_or_else(|| Error::Gone { table: name.to_owned() })
    }

    /// Adds host ports. A port with another target is replaced.
    ///
    /// # Errors
    /// If the kernel rejects the change. Also in the cases of [`Rules::ports`].
    pub fn add(&mut self, name: &str, ports: &[Port]) -> Result<(), Error> {
        self.edit(name, |there| {
            let taken: BTreeSet<_> = ports.iter().map(Port::place).collect();
            let kept = there.iter().filter(|port| !taken.contains(&port.place()));
            kept.chain(ports).copied().collect()
        })
    }

    /// Removes host ports that have exactly these targets.
    ///
    /// # Errors
    /// If the kernel rejects the change. Also in the cases of [`Rules::ports`].
    pub fn take(&mut self, name: &str, ports: &[Port]) -> Result<(), Error> {
        self.edit(name, |there| there.iter().filter(|port| !ports.contains(port)).copied().collect())
    }

    /// Removes the table, and the kubelet's rules in other tables.
    ///
    /// # Errors
    /// If the kernel rejects the change.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        self.apply("remove the packet rules of the pods", |socket| {
            let there = snapshot::all(socket, name)?;
            let mut messages: Vec<Message> =
                there.forward.iter().flat_map(Forward::delete_own_rules).collect();
            if there.has_table {
                messages.extend(table::remove(name));
            }
            if there.antispoof.is_some() {
                messages.extend(antispoof::remove(name));
            }
            Ok((messages, ()))
        })
    }

    /// Sets the checked pods to `pods`, adds the host ports `add` and removes `remove`, in one transaction.
    ///
    /// # Errors
    /// If the kernel rejects the change. If ports change, also in the cases of [`Rules::ports`].
    pub fn change_pods(
        &mut self,
        name: &str,
        pods: &BTreeSet<PodPort>,
        add: &[Port],
        remove: &[Port],
    ) -> Result<(), Error> {
        without_bridge_family(|can| self.change_all(name, can.then_some(pods), add, remove))
    }

    fn change_all(
        &mut self,
        name: &str,
        pods: Option<&BTreeSet<PodPort>>,
        add: &[Port],
        remove: &[Port],
    ) -> Result<(), Error> {
        let done = self.apply("change the rules of a pod", |socket| {
            let mut messages = Vec::new();
            let mut changes = Changes::default();
            if !(add.is_empty() && remove.is_empty()) {
                let Some(there) = snapshot::ports(socket, name)? else { return Ok((Vec::new(), None)) };
                let taken: BTreeSet<_> = add.iter().map(Port::place).collect();
                let stays = |port: &&Port| !taken.contains(&port.place()) && !remove.contains(port);
                let wanted = there.iter().filter(stays).chain(add).copied().collect();
                changes = plan(&wanted, &there);
                messages.extend(change(name, &changes));
            }
            if let Some(pods) = pods {
                let found = snapshot::antispoof(socket, name)?;
                messages.extend(antispoof::plan(name, found.as_ref(), pods).0);
            }
            Ok((messages, Some(changes)))
        });
        let changes = done?.ok_or_else(|| Error::Gone { table: name.to_owned() })?;
        conntrack::forget(&mut self.socket, &changes);
        Ok(())
    }

    /// The reason why the kernel does not support anti-spoofing rules, or `None` if it does. It creates and deletes
    /// a table in one transaction.
    ///
    /// # Errors
    /// If the kernel rejects the transaction for another reason.
    pub fn lacks_antispoofing(&mut self, name: &str) -> Result<Option<String>, Error> {
        let probe = format!("{name}-probe");
        without_bridge_family(|can| {
            let messages = if can { antispoof::probe(&probe) } else { Vec::new() };
            self.apply("set anti-spoofing rules for pods", |_| Ok((messages.clone(), ())))
        })?;
        Ok(NO_BRIDGE_FAMILY.get().cloned())
    }

    fn edit(&mut self, name: &str, wanted: impl Fn(&BTreeSet<Port>) -> BTreeSet<Port>) -> Result<(), Error> {
        let done = self.apply("change the ports of pods", |socket| {
            let Some(there) = snapshot::ports(socket, name)? else { return Ok((Vec::new(), None)) };
            let changes = plan(&wanted(&there), &there);
            Ok((change(name, &changes), Some(changes)))
        });
        let changes = done?.ok_or_else(|| Error::Gone { table: name.to_owned() })?;
        conntrack::forget(&mut self.socket, &changes);
        Ok(())
    }

    /// Plans changes from the current rules and commits them.
    fn apply<T>(
        &mut self,
        doing: &'static str,
        plan: impl Fn(&mut Socket) -> Result<(Vec<Message>, T), RequestError>,
    ) -> Result<T, Error> {
        transact(&mut self.socket, doing, plan)
    }
}

/// Makes a change with rules for bridges. If the kernel does not support these, makes the change without them.
fn without_bridge_family<T>(mut change: impl FnMut(bool) -> Result<T, Error>) -> Result<T, Error> {
    if NO_BRIDGE_FAMILY.get().is_none() {
        match change(true) {
            Err(error @ Error::NoBridgeFamily { .. }) => {
                let _ = NO_BRIDGE_FAMILY.set(error.to_string());
            }
            done => return done,
        }
    }
    change(false)
}

fn change(name: &str, changes: &Changes) -> Vec<Message> {
    [table::take(name, &changes.remove), table::put(name, &changes.add)].concat()
}
