//! The native pod network: a bridge, a veth pair per sandbox, and addresses of the node's pod CIDRs.
//!
//! The addresses of a sandbox are reserved and recorded on disk before the engine creates it, so that the next
//! kubelet knows them after a crash. The veth is created when the sandbox's process runs. When the engine has
//! listed all sandboxes, the addresses of missing ones are released. Changes are serialized ([`Native::work`]), so
//! that memory, disk and kernel agree. [`ipam`] and [`links`] are pure; [`bridge`] and [`packet_rules`] call the
//! kernel.

mod antispoof;
mod bridge;
mod cleanup;
mod dns;
mod ipam;
mod links;
mod netlink;
mod netlink_events;
mod node_cidrs;
mod packet_rules;
mod peer_routes;
mod peers;
mod pod_cidr;
mod policy_gate;
mod readiness;
mod reconciler;
mod record;
mod state;
mod sysctl;
mod unreachable_route;

use std::io;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use tokio::sync::{Notify, watch};

use self::bridge::Bridge;
use self::cleanup::VETH_REMOVAL_TIMEOUT;
pub use self::dns::NodeDns;
use self::netlink::Netlink;
use self::node_cidrs::NodeCidrs;
pub use self::peer_routes::{PeerRoutes, SyncResult};
use self::policy_gate::PolicyGate;
pub use self::policy_gate::{Covered, PolicyFields, PolicySandbox, SandboxId};
use self::readiness::AddressReadiness;
pub use self::reconciler::{Cluster, Health, reconcile};
use self::record::{HOSTS, RESOLV, Records};
pub use self::state::KnownSandboxes;
use self::state::{Key, State};
use super::files;
use crate::disk;
use crate::network::nft::services::BRIDGE_PREFIX;
use crate::observed::Sandbox;
use crate::runtime::netns::{self, Namespace};
use crate::runtime::spec::{Dns, Mount};
use crate::runtime::{ContainerSpec, Error, Identity, SandboxSpec, labels};

/// Settings of a node's pod network.
pub struct Settings {
    /// The node's name.
    pub node: String,
    /// Directory of the records.
    pub directory: PathBuf,
    /// The pod CIDRs, one per family; empty to select a free one.
    pub ranges: Vec<IpNet>,
    /// The host's current DNS configuration.
    pub host_dns: Box<dyn Fn() -> io::Result<Dns> + Send + Sync>,
    /// The known addresses of the cluster's API servers.
    pub servers: Box<dyn Fn() -> Vec<IpAddr> + Send + Sync>,
    /// Whether the node belongs to a cluster, which assigns its pod CIDRs.
    pub is_of_cluster: bool,
    /// Whether the kubelet serves Services.
    pub serves_services: bool,
    /// Whether a DNS server for pods runs at the addresses of the bridge.
    pub serves_dns: bool,
}

/// The pod network of one node.
pub struct Native {
    node: String,
    directory: PathBuf,
    /// The pod CIDRs of `--pod-cidr`.
    requested: Vec<IpNet>,
    bridge: Bridge,
    ranges: Mutex<Arc<Ranges>>,
    /// The addresses of the bridge.
    gateways: watch::Sender<Vec<IpAddr>>,
    peer_routes: Mutex<PeerRoutes>,
    records: Records,
    host_dns: Box<dyn Fn() -> io::Result<Dns> + Send + Sync>,
    servers: Box<dyn Fn() -> Vec<IpAddr> + Send + Sync>,
    serves_dns: bool,
    node_dns: Arc<NodeDns>,
    readiness: AddressReadiness,
    serves_services: bool,
    state: Mutex<State>,
    policy_gate: PolicyGate,
    /// Notified when the last sandbox has released its addresses.
    emptied: Notify,
    /// Serializes changes. The value is true once the network is closed.
    work: Mutex<bool>,
    /// Queue for [`Native::work`]. A waiting task costs less memory than a blocked thread.
    turn: tokio::sync::Mutex<()>,
    /// The socket that reserves the bridge's name for this kubelet while it runs.
    _name: UnixDatagram,
}

/// The pod CIDRs of this node and its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranges {
    /// The node's pod CIDRs, current and former ones.
    own: NodeCidrs,
    /// The CIDRs of peer nodes.
    others: Vec<IpNet>,
}

/// The network state of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetworkState {
    /// The native network does not manage the sandbox.
    NotOurs,
    /// The veth is up with these addresses, the primary one first.
    Up(Vec<IpAddr>),
    /// The addresses are reserved, but the veth is not up yet.
    Down(Vec<IpAddr>),
    /// The record is lost, or the process has another network namespace. The sandbox must be replaced.
    Lost,
}

/// Result of closing the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CloseResult {
    /// Everything was removed.
    Down,
    /// The network stays, because pods have addresses in it.
    InUse,
    /// The network stays, because this many unknown veths are attached to the bridge.
    Behind { pods: usize },
}

impl CloseResult {
    /// Logs veths without a record.
    fn log(self, bridge: &str) {
        match self {
            Self::Behind { pods } => {
                tracing::warn!(%bridge, pods, "unknown pods are connected to the bridge, so it is kept");
            }
            Self::Down | Self::InUse => {}
        }
    }
}

/// A sandbox that is being created. Dropping this value ends the creation.
pub struct Creation {
    native: Arc<Native>,
    key: Key,
}

impl Drop for Creation {
    fn drop(&mut self) {
        self.native.state().finish_creation(&self.key);
    }
}

impl Native {
    /// Opens the network: selects the pod CIDRs, ensures the bridge and the rules, and restores the state of
    /// earlier kubelets. Returns warnings too. Blocks.
    ///
    /// # Errors
    /// If the pod CIDR overlaps a route, or the kernel rejects a change. The message says what to do. `WouldBlock`
    /// if another kubelet holds the lock; the caller may retry.
    fn open(settings: Settings) -> io::Result<(Arc<Self>, Vec<String>)> {
        let mut netlink = Netlink::open()?;
        let name = Bridge::name_of(&settings.node);
        let _name = claim_bridge_name(&name, &settings.node)?;
        let Settings {
            node,
            directory,
            ranges: requested,
            host_dns,
            servers,
            is_of_cluster,
            serves_services,
            serves_dns,
        } = settings;
        let (records, found) = Records::open(&directory)?;
        if let Err(error) = cleanup::remove_stale(&directory, &node, true) {
            tracing::warn!(%error, "cannot read or write the list of earlier pod networks");
        }
        // The lock comes after the cleanup, which waits for network namespaces to disappear and would block other nodes
        // meanwhile.
        let lock = pod_cidr::lock()?;
        let peer_routes = PeerRoutes::new(&node);
        let current =
            pod_cidr::select(&mut netlink, &requested, &directory, &peer_routes, &name, &servers())?;
        // Pods from before a change of the pod CIDRs keep their addresses, and the bridge keeps its own.
        let addresses: Vec<IpAddr> = found.iter().flat_map(|(_, record)| record.addresses.clone()).collect();
        let (former, gone) = pod_cidr::former(&directory, &current, &addresses);
        let own = NodeCidrs { current, former };
        let bridge = Bridge::new(&node);
        let (link, _) = bridge.ensure(&mut netlink, &own.all())?;
        for range in gone {
            bridge.remove_address(&mut netlink, &range)?;
        }
        pod_cidr::save_all(&directory, &own.all())?;
        drop(lock);
        let veths = bridge.veths(&mut netlink, &link)?;
        let mut state = State::default();
        for (key, record) in found {
            // A veth that is down was left incomplete.
            let is_up = veths.get(&bridge.veth(&key)).is_some_and(|veth| veth.is_up);
            state.restore(key, record, is_up);
        }
        let gateways = watch::Sender::new(own.gateways());
        let ranges = Mutex::new(Arc::new(Ranges { own, others: pod_cidr::saved_cluster(&directory) }));
        let (peer_routes, state) = (Mutex::new(peer_routes), Mutex::new(state));
        let (work, turn) = (Mutex::new(false), tokio::sync::Mutex::default());
        let native = Self {
            node,
            directory,
            requested,
            bridge,
            ranges,
            gateways,
            peer_routes,
            records,
            host_dns,
            servers,
            serves_dns,
            node_dns: Arc::default(),
            readiness: AddressReadiness::new(is_of_cluster),
            serves_services,
            state,
            policy_gate: PolicyGate::default(),
            emptied: Notify::new(),
            work,
            turn,
            _name,
        };
        // If the rules cannot be set, everything is removed again.
        let repairs = native.ensure_rules().inspect_err(|_| drop(native.close()))?;
        let unguarded = native.lacks_antispoofing().unwrap_or_else(|error| Some(error.to_string()));
        let notes = native
            .open_legacy_firewall()
            .err()
            .into_iter()
            .chain(unguarded)
            .chain(packet_rules::closed_warnings(&repairs))
            .collect();
        Ok((Arc::new(native), notes))
    }

    /// The current pod CIDRs of the node, the primary one first.
    pub fn current(&self) -> Vec<IpNet> {
        self.ranges().own.current.clone()
    }

    /// The pod CIDRs whose addresses pods of this node may have: the current ones, and former ones of older pods.
    pub fn all_pod_cidrs(&self) -> Vec<IpNet> {
        self.ranges().own.all().iter().map(IpNet::trunc).collect()
    }

    /// The addresses of the bridge: the current ones, then those that older pods use.
    pub fn gateways(&self) -> watch::Receiver<Vec<IpAddr>> {
        self.gateways.subscribe()
    }

    fn ranges(&self) -> Arc<Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn peer_routes(&self) -> MutexGuard<'_, PeerRoutes> {
        self.peer_routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an earlier kubelet of this directory left sandboxes with addresses.
    pub fn is_in_use(directory: &Path) -> bool {
        record::is_any(directory)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one change, serialized with all others, unless the network is closed. Blocks.
    fn work<T>(&self, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let is_closed = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_closed {
            return Err(io::Error::other("the kubelet is stopping"));
        }
        change()
    }

    /// Runs a blocking function when it is the first in the queue.
    async fn run<T: Send + 'static>(self: &Arc<Self>, what: impl FnOnce(&Self) -> T + Send + 'static) -> T {
        let _turn = self.turn.lock().await;
        let native = self.clone();
        disk::run(move || what(&native)).await
    }

    /// Queues one change for [`Native::work`].
    async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.run(move |native| native.work(|| change(native))).await
    }

    /// Reserves addresses for a new sandbox, and writes its `/etc/hosts` and `/etc/resolv.conf`.
    ///
    /// # Errors
    /// If the cluster assigned no pod CIDR, no address is free, or a file cannot be written.
    pub async fn reserve(self: &Arc<Self>, spec: &SandboxSpec) -> Result<Creation, Error> {
        self.readiness.wait().await.map_err(Error::Network)?;
        // Dropping it after an error or cancellation ends the creation.
        let creation = Creation { native: self.clone(), key: key(&spec.identity) };
        packet_rules::check_families(&spec.host_ports, &self.current()).map_err(Error::Network)?;
        let spec = spec.clone();
        let reserved = self.change(move |native| native.reserve_now(&spec).map(|()| creation)).await;
        reserved.map_err(|error| Error::Network(error.to_string()))
    }

    fn reserve_now(&self, spec: &SandboxSpec) -> io::Result<()> {
        let key = key(&spec.identity);
        let resolv = self.resolv_conf(&spec.dns)?;
        let pod = format!("{}/{}", spec.identity.namespace, spec.identity.pod);
        let taken = self.state().reserve(&key, pod, &self.current(), spec.host_ports.clone());
        let record = taken.map_err(io::Error::other)?;
        self.policy_gate.note_change();
        let aliases = &spec.host_aliases;
        let hosts =
            files::hosts(&record.addresses, spec.hostname.as_deref(), spec.domain.as_deref(), aliases);
        self.records.write(&key, &record, &hosts, &resolv).map_err(|error| {
            let directory = self.records.path(&key);
            io::Error::new(error.kind(), format!("cannot write {}: {error}", directory.display()))
        })
    }

    /// The network state of a sandbox. `process` is its pid if it runs.
    pub fn network_state(
        &self,
        identity: &Identity,
        sandbox: &Sandbox,
        process: Option<u32>,
    ) -> NetworkState {
        // Only the namespace number is read; the engine reports processes that have ended.
        let namespace = process.and_then(|pid| Some((pid, netns::number_of(pid).ok()?)));
        match self.state().network_state(&key(identity), &sandbox.id, sandbox.is_bare, namespace) {
            // The addresses are in the pod CIDR of another node now.
            NetworkState::Up(addresses) | NetworkState::Down(addresses)
                if !self.ranges().own.has(&addresses) =>
            {
                NetworkState::Lost
            }
            network_state => network_state,
        }
    }

    /// Whether the addresses of the sandbox are now in the pod CIDR of another node.
    pub fn has_lost_addresses(&self, id: &str) -> bool {
        let addresses = self.state().addresses_of(id);
        addresses.is_some_and(|addresses| !self.ranges().own.has(&addresses))
    }

    /// The mounts for `/etc/hosts` and `/etc/resolv.conf`, unless the pod mounts something else there.
    pub fn mounts(&self, spec: &ContainerSpec) -> Vec<Mount> {
        let Some(key) = self.state().key_of(&spec.sandbox_id) else { return Vec::new() };
        let path = self.records.path(&key);
        [(HOSTS, "/etc/hosts", false), (RESOLV, "/etc/resolv.conf", spec.security.read_only_root)]
            .into_iter()
            .filter(|(_, target, _)| !spec.mounts.iter().any(|mount| mount.target == *target))
            .map(|(file, target, read_only)| Mount {
                source: path.join(file).to_string_lossy().into_owned(),
                target: target.to_owned(),
                read_only,
                propagation: "rprivate".to_owned(),
            })
            .collect()
    }

    /// Creates the veth of a running sandbox if the native network manages it and it has no veth yet.
    ///
    /// # Errors
    /// If the kernel rejects the change, or a host port is in use. The caller may retry later.
    pub async fn attach(self: &Arc<Self>, identity: &Identity, pid: u32) -> Result<(), Error> {
        let key = key(identity);
        let Some(serial) = self.state().serial_if_not_up(&key) else { return Ok(()) };
        let fail = |error: String| {
            let (pod, namespace, bridge) = (&identity.pod, &identity.namespace, &self.bridge.name);
            Error::Network(format!("cannot connect {namespace}/{pod} to the bridge {bridge}: {error}"))
        };
        self.policy_gate.wait(&SandboxId::new(&key, serial)).await.map_err(fail)?;
        let result = self.change(move |native| native.create_veth(&key, pid)).await;
        result.map_err(|error| fail(error.to_string()))
    }

    fn create_veth(&self, key: &Key, pid: u32) -> io::Result<()> {
        let Some(record) = self.state().not_up(key) else { return Ok(()) };
        packet_rules::check_host_ports_free(&record)?;
        let namespace = Namespace::of_pod(pid)?;
        let mut netlink = Netlink::open()?;
        let all = self.ranges().own.all();
        let (bridge, _) = self.bridge.ensure(&mut netlink, &all)?;
        self.set_rules_of(key, &record)?;
        let created = self.bridge.create_veth(&mut netlink, &bridge, &all, (key, &record), &namespace);
        if created.is_err() {
            // The first error is the one to report. The next change deletes what remains of the rules.
            drop(self.delete_rules_of(&record));
        }
        created?;
        self.state().set_up(key, pid, namespace.number);
        Ok(())
    }

    /// The sandboxes whose creation has finished. They need not exist any more.
    pub fn known_sandboxes(&self) -> KnownSandboxes {
        self.state().known_sandboxes()
    }

    /// Releases the addresses of `known_sandboxes` that the engine does not list.
    pub async fn release_missing(
        self: &Arc<Self>,
        mut known_sandboxes: KnownSandboxes,
        listed: impl Iterator<Item = &Identity>,
    ) {
        for found in listed.filter(|found| found.container == labels::SANDBOX_NAME) {
            known_sandboxes.remove(&key(found));
        }
        for (key, serial) in known_sandboxes {
            tracing::info!(pod = %key.uid, "released the addresses of a sandbox that no longer exists");
            self.release_key(key, serial).await;
        }
    }

    /// Releases the addresses of a removed sandbox.
    pub async fn release(self: &Arc<Self>, id: &str) {
        let known = self.state().key_and_serial(id);
        if let Some((key, serial)) = known {
            self.release_key(key, serial).await;
        }
    }

    /// Releases the addresses of a sandbox. The kernel has removed its veth together with the network namespace.
    async fn release_key(self: &Arc<Self>, key: Key, serial: u64) {
        let pod = key.uid.clone();
        let done = self.change(move |native| {
            let Some(record) = native.state().begin_release(&key, serial) else { return Ok(()) };
            native.delete_rules_of(&record)?;
            native.records.remove(&key)?;
            native.state().finish_release(&key);
            native.policy_gate.note_change();
            if native.state().is_empty() {
                native.emptied.notify_one();
            }
            Ok(())
        });
        if let Err(error) = done.await {
            tracing::warn!(%pod, %error, "cannot release the network of a sandbox; retrying later");
        }
    }

    /// Closes the network, and removes it if no pod uses it. Later changes fail. Closing may be repeated. Blocks.
    ///
    /// # Errors
    /// If the kernel rejects a change.
    fn close(&self) -> io::Result<CloseResult> {
        let mut is_closed = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        *is_closed = true;
        if !self.state().is_empty() {
            return Ok(CloseResult::InUse);
        }
        // A veth may exist without a record.
        let pods = self.bridge.attached_veths(&mut Netlink::open()?, VETH_REMOVAL_TIMEOUT)?;
        if pods > 0 {
            return Ok(CloseResult::Behind { pods });
        }
        cleanup::remove(&mut self.peer_routes(), &self.bridge)?;
        // The node may join another cluster next.
        pod_cidr::save_cluster(&self.directory, &[])?;
        Ok(CloseResult::Down)
    }
}

/// Reserves the bridge's name in this network namespace with an abstract socket, so that no second kubelet uses the
/// bridge. The kernel frees it when the process ends.
fn claim_bridge_name(bridge: &str, node: &str) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(bridge)?).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => io::Error::new(
            error.kind(),
            format!(
                "another kubelet on this machine provides the pod network of node {node}: give one of the two \
                 another name with --hostname-override"
            ),
        ),
        _ => error,
    })
}

fn key(identity: &Identity) -> Key {
    Key { uid: identity.uid.clone(), attempt: identity.attempt }
}

/// The name of a node's bridge, which is also the name of its nftables table.
pub fn bridge_of(node: &str) -> String {
    Bridge::name_of(node)
}

/// The name of the nftables table of the service proxy, of the node with this bridge.
pub fn services_table_of(bridge: &str) -> String {
    bridge.replacen(BRIDGE_PREFIX, &format!("{BRIDGE_PREFIX}services-"), 1)
}

/// The name of the nftables tables of NetworkPolicies, of the node with this bridge.
pub fn policy_table_of(bridge: &str) -> String {
    bridge.replacen(BRIDGE_PREFIX, &format!("{BRIDGE_PREFIX}policy-"), 1)
}

/// The hardware address of a node's bridge.
pub fn bridge_mac_of(node: &str) -> [u8; 6] {
    Bridge::new(node).mac()
}

/// The directory of a node's network records.
pub fn directory(root_dir: &Path) -> PathBuf {
    root_dir.join("network")
}

/// Runs [`Native::open`] on a blocking thread.
///
/// # Errors
/// The same as [`Native::open`].
pub async fn open(settings: Settings) -> io::Result<(Arc<Native>, Vec<String>)> {
    disk::run(move || Native::open(settings)).await
}

/// Removes the networks that kubelets of this directory left, of this node and of others, unless pods use them.
///
/// # Errors
/// If the kernel rejects a change.
pub async fn remove_stale(directory: PathBuf, node: String) -> io::Result<()> {
    disk::run(move || match directory.exists() {
        true => cleanup::remove_stale(&directory, &node, false),
        false => Ok(()),
    })
    .await
}

/// Runs [`Native::close`] on a blocking thread.
///
/// # Errors
/// The same as [`Native::close`].
pub async fn close(native: Arc<Native>) -> io::Result<()> {
    let closed = native.run(Native::close).await?;
    closed.log(&native.bridge.name);
    Ok(())
}
