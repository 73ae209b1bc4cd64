//! The kubelet's own network of pods: a bridge, a cable to each sandbox, and addresses of the node's range.
//!
//! A sandbox's addresses are reserved and written down before the engine makes it, so that whoever comes after a kill knows of
//! them; its cable is laid when its process runs. What no sandbox of the engine stands for is given back when the engine has
//! listed them. One change is made at a time ([`Native::work`]), so that what is known, what is on disk and what the kernel has
//! agree whenever somebody looks. [`ipam`] and [`links`] are pure; [`bridge`] and [`packets`] talk to the kernel.

mod across;
mod bridge;
mod gate;
mod ipam;
mod keeper;
mod kernel;
mod leftovers;
mod links;
mod netlink;
mod news;
mod nodes;
mod own;
mod packets;
mod range;
mod record;
mod refused;
mod state;

use std::io;
use std::net::IpAddr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use tokio::sync::Notify;

pub use self::across::{Across, Told};
use self::bridge::Bridge;
use self::gate::Gate;
pub use self::keeper::{Cluster, Health, keep};
use self::leftovers::GOES_WITHIN;
use self::netlink::Netlink;
use self::own::Own;
use self::record::{HOSTS, RESOLV, Records};
pub use self::state::Settled;
use self::state::{Key, State};
use super::files;
use crate::disk;
use crate::observed::Sandbox;
use crate::runtime::netns::{self, Namespace};
use crate::runtime::spec::{Dns, Mount};
use crate::runtime::{ContainerSpec, Error, Identity, SandboxSpec, labels};

/// What a node's network is to be.
pub struct Settings {
    /// The node's name.
    pub node: String,
    /// Where its records lie.
    pub directory: PathBuf,
    /// The ranges of addresses, one a family; empty for one that is free here.
    pub ranges: Vec<IpNet>,
    /// The host's own name resolution at this moment.
    pub host_dns: Box<dyn Fn() -> Dns + Send + Sync>,
    /// Where the API servers of its cluster are, as far as that is known.
    pub servers: Box<dyn Fn() -> Vec<IpAddr> + Send + Sync>,
    /// Whether it belongs to a cluster, which says what addresses its pods get.
    pub is_of_cluster: bool,
}

/// The network of one node's pods.
pub struct Native {
    node: String,
    directory: PathBuf,
    /// The ranges that somebody asked for.
    given: Vec<IpNet>,
    bridge: Bridge,
    ranges: Mutex<Arc<Ranges>>,
    across: Mutex<Across>,
    records: Records,
    host_dns: Box<dyn Fn() -> Dns + Send + Sync>,
    servers: Box<dyn Fn() -> Vec<IpAddr> + Send + Sync>,
    gate: Gate,
    state: Mutex<State>,
    /// Told when the last sandbox has given back what it had.
    emptied: Notify,
    /// Held by whoever changes anything; true once the network is closed, after which nobody does.
    work: Mutex<bool>,
    /// Where those wait who want to change something: on a thread, each would have memory of its own.
    turn: tokio::sync::Mutex<()>,
    /// The name of the bridge is this kubelet's for as long as this lives.
    _name: UnixDatagram,
}

/// Which addresses are whose.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranges {
    /// This node's.
    own: Own,
    /// Those of pods of other nodes.
    others: Vec<IpNet>,
}

/// What the network has to say of a sandbox that the engine has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its network is none of ours.
    NotOurs,
    /// It has these addresses, the primary one first, and they are reached.
    Up(Vec<IpAddr>),
    /// It has these addresses and cannot be reached yet.
    Down(Vec<IpAddr>),
    /// Nobody knows of it any more, or its process is another: it is of no use.
    Lost,
}

/// What became of a network that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    /// Nothing is left of it.
    Down,
    /// It stays for pods that have something of it.
    InUse,
    /// It stays for so many pods behind the bridge of which nothing is known.
    Behind { pods: usize },
}

impl Closed {
    /// Tells of what nobody knows.
    fn tell(self, bridge: &str) {
        match self {
            Self::Behind { pods } => {
                tracing::warn!(%bridge, pods, "pods of which nothing is known are behind the bridge, which stays for them");
            }
            Self::Down | Self::InUse => {}
        }
    }
}

/// A sandbox that is being made, until this is dropped.
pub struct Making {
    native: Arc<Native>,
    key: Key,
}

impl Drop for Making {
    fn drop(&mut self) {
        self.native.state().made(&self.key);
    }
}

impl Native {
    /// Opens the network: the range is settled, the bridge is there, and what an earlier kubelet has laid is known. Blocks. Beside it
    /// comes what somebody should know, a sentence each.
    ///
    /// # Errors
    /// When the range is in use by others here, or the kernel refuses; the message says what and what to do. `WouldBlock` when
    /// another node of this machine is choosing its range: it may be tried again.
    fn open(settings: Settings) -> io::Result<(Arc<Self>, Vec<String>)> {
        let mut netlink = Netlink::open()?;
        let name = Bridge::name_of(&settings.node);
        let _name = take(&name, &settings.node)?;
        let Settings { node, directory, ranges: given, host_dns, servers, is_of_cluster } = settings;
        let (records, found) = Records::open(&directory)?;
        if let Err(error) = leftovers::give_back(&directory, &node, true) {
            tracing::warn!(%error, "cannot see or write down what earlier kubelets left of the network of pods");
        }
        // Not before: that waits for networks of pods that are on their way out, and would hold up every other node here.
        let choosing = range::lock()?;
        let across = Across::new(&node);
        let current = range::settle(&mut netlink, &given, &directory, &across, &name, &servers())?;
        // Pods that were there before the range was changed keep their addresses, and the bridge theirs.
        let addresses: Vec<IpAddr> = found.iter().flat_map(|(_, record)| record.addresses.clone()).collect();
        let (former, gone) = range::former(&directory, &current, &addresses);
        let own = Own { current, former };
        let bridge = Bridge::new(&node);
        let (link, _) = bridge.ensure(&mut netlink, &own.all())?;
        for range in gone {
            bridge.let_go(&mut netlink, &range)?;
        }
        range::keep_all(&directory, &own.all())?;
        drop(choosing);
        let cables = bridge.cables(&mut netlink, &link)?;
        let mut state = State::default();
        for (key, record) in found {
            // What is off was left half laid.
            let is_up = cables.get(&bridge.cable(&key)).is_some_and(|cable| cable.is_up);
            state.know(key, record, is_up);
        }
        let ranges = Mutex::new(Arc::new(Ranges { own, others: range::cluster(&directory) }));
        let (across, state) = (Mutex::new(across), Mutex::new(state));
        let (work, turn) = (Mutex::new(false), tokio::sync::Mutex::default());
        let native = Self {
            node,
            directory,
            given,
            bridge,
            ranges,
            across,
            records,
            host_dns,
            servers,
            gate: Gate::new(is_of_cluster),
            state,
            emptied: Notify::new(),
            work,
            turn,
            _name,
        };
        // Nothing stays of what cannot be had.
        let repairs = native.ensure_rules().inspect_err(|_| drop(native.close()))?;
        let notes = native.open_legacy().err().into_iter().chain(packets::closed(&repairs)).collect();
        Ok((Arc::new(native), notes))
    }

    /// The node's ranges at this moment, the primary one first.
    pub fn current(&self) -> Vec<IpNet> {
        self.ranges().own.current.clone()
    }

    fn ranges(&self) -> Arc<Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn across(&self) -> MutexGuard<'_, Across> {
        self.across.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an earlier kubelet of this directory gave pods their network.
    pub fn is_in_use(directory: &Path) -> bool {
        record::is_any(directory)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does one change, when nobody else does any and the network is open. Blocks.
    fn work<T>(&self, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let is_closed = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_closed {
            return Err(io::Error::other("the kubelet is stopping"));
        }
        change()
    }

    /// Does something that blocks, when it is its turn.
    async fn run<T: Send + 'static>(self: &Arc<Self>, what: impl FnOnce(&Self) -> T + Send + 'static) -> T {
        let _turn = self.turn.lock().await;
        let native = self.clone();
        disk::run(move || what(&native)).await
    }

    /// Does one change, as [`Native::work`] does.
    async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&Self) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.run(move |native| native.work(|| change(native))).await
    }

    /// Reserves addresses for a sandbox that is about to be made, and writes what it will find in `/etc`.
    ///
    /// # Errors
    /// When the cluster has none for this node, no address is left, or nothing can be written.
    pub async fn reserve(self: &Arc<Self>, spec: &SandboxSpec) -> Result<Making, Error> {
        self.gate.pass().await.map_err(Error::Network)?;
        // Also of one that is given up meanwhile, or fails: then it is being made no more.
        let making = Making { native: self.clone(), key: key(&spec.identity) };
        packets::check(&spec.host_ports, &self.current()).map_err(Error::Network)?;
        let spec = spec.clone();
        let reserved = self.change(move |native| native.reserve_now(&spec).map(|()| making)).await;
        reserved.map_err(|error| Error::Network(error.to_string()))
    }

    fn reserve_now(&self, spec: &SandboxSpec) -> io::Result<()> {
        let key = key(&spec.identity);
        let pod = format!("{}/{}", spec.identity.namespace, spec.identity.pod);
        let taken = self.state().take(&key, pod, &self.current(), spec.host_ports.clone());
        let record = taken.map_err(io::Error::other)?;
        let aliases = &spec.host_aliases;
        let hosts =
            files::hosts(&record.addresses, spec.hostname.as_deref(), spec.domain.as_deref(), aliases);
        let resolv = if spec.dns == Dns::default() {
            files::resolv(&files::reachable((self.host_dns)()))
        } else {
            files::resolv(&spec.dns)
        };
        self.records.write(&key, &record, &hosts, &resolv).map_err(|error| {
            let directory = self.records.path(&key);
            io::Error::new(error.kind(), format!("cannot write {}: {error}", directory.display()))
        })
    }

    /// What the network has to say of a sandbox with that process, if it runs.
    pub fn standing(&self, identity: &Identity, sandbox: &Sandbox, process: Option<u32>) -> Standing {
        // The number alone: a process that is gone is the engine's to tell of.
        let namespace = process.and_then(|pid| Some((pid, netns::number_of(pid).ok()?)));
        match self.state().standing(&key(identity), &sandbox.id, sandbox.is_bare, namespace) {
            // Another node has its addresses now.
            Standing::Up(addresses) | Standing::Down(addresses) if !self.ranges().own.has(&addresses) => {
                Standing::Lost
            }
            standing => standing,
        }
    }

    /// Whether another node has the addresses of that sandbox by now.
    pub fn is_taken(&self, id: &str) -> bool {
        let addresses = self.state().addresses_of(id);
        addresses.is_some_and(|addresses| !self.ranges().own.has(&addresses))
    }

    /// What a container of a sandbox of ours finds in `/etc`, unless the pod puts something else there.
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

    /// Lays the cable of a sandbox whose process runs; one that has it is fine, and so is one whose network is none of ours.
    ///
    /// # Errors
    /// When the kernel refuses, or a port of the host is somebody else's; it may be tried again.
    pub async fn attach(self: &Arc<Self>, identity: &Identity, pid: u32) -> Result<(), Error> {
        let key = key(identity);
        if self.state().not_up(&key).is_none() {
            return Ok(());
        }
        let laid = self.change(move |native| native.lay(&key, pid)).await;
        laid.map_err(|error| {
            let (pod, namespace, bridge) = (&identity.pod, &identity.namespace, &self.bridge.name);
            Error::Network(format!("cannot connect {namespace}/{pod} to the bridge {bridge}: {error}"))
        })
    }

    fn lay(&self, key: &Key, pid: u32) -> io::Result<()> {
        let Some(record) = self.state().not_up(key) else { return Ok(()) };
        packets::are_free(&record)?;
        let namespace = Namespace::of_pod(pid)?;
        let mut netlink = Netlink::open()?;
        let all = self.ranges().own.all();
        let (bridge, _) = self.bridge.ensure(&mut netlink, &all)?;
        self.bridge.lay(&mut netlink, &bridge, &all, (key, &record), &namespace)?;
        self.state().up(key, pid, namespace.number);
        self.open_ports(&record)
    }

    /// The sandboxes that are made, whether they are still there or not.
    pub fn settled(&self) -> Settled {
        self.state().settled()
    }

    /// Gives back what sandboxes have that were settled and that the engine does not list.
    pub async fn release_all_but(
        self: &Arc<Self>,
        mut settled: Settled,
        listed: impl Iterator<Item = &Identity>,
    ) {
        for found in listed.filter(|found| found.container == labels::SANDBOX_NAME) {
            settled.remove(&key(found));
        }
        for (key, serial) in settled {
            tracing::info!(pod = %key.uid, "the addresses of a sandbox that is gone are free again");
            self.give_back(key, serial).await;
        }
    }

    /// Gives back what a sandbox has had that is gone now.
    pub async fn release(self: &Arc<Self>, id: &str) {
        let known = self.state().known(id);
        if let Some((key, serial)) = known {
            self.give_back(key, serial).await;
        }
    }

    /// The cable went with the sandbox's network.
    async fn give_back(self: &Arc<Self>, key: Key, serial: u64) {
        let pod = key.uid.clone();
        let done = self.change(move |native| {
            let Some(record) = native.state().goes(&key, serial) else { return Ok(()) };
            native.close_ports(&record)?;
            native.records.remove(&key)?;
            native.state().gone(&key);
            if native.state().is_empty() {
                native.emptied.notify_one();
            }
            Ok(())
        });
        if let Err(error) = done.await {
            tracing::warn!(%pod, %error, "what a sandbox had of the network is given back later");
        }
    }

    /// Takes the network down when no pod has any of it, so that nothing stays of a node that is not used any more. Blocks. Nobody changes
    /// any of it afterwards; where it stays it may be closed again.
    ///
    /// # Errors
    /// When the kernel refuses.
    fn close(&self) -> io::Result<Closed> {
        let mut is_closed = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        *is_closed = true;
        if !self.state().is_empty() {
            return Ok(Closed::InUse);
        }
        // Of a pod may be left what nobody has written down.
        let pods = self.bridge.plugged(&mut Netlink::open()?, GOES_WITHIN)?;
        if pods > 0 {
            return Ok(Closed::Behind { pods });
        }
        leftovers::take_down(&mut self.across(), &self.bridge)?;
        // Of a cluster that this node may not come back to.
        range::keep_cluster(&self.directory, &[])?;
        Ok(Closed::Down)
    }
}

/// Sees to it that no other kubelet in this network namespace takes the same bridge for its own: the kernel keeps the name for as long
/// as somebody has it.
fn take(bridge: &str, node: &str) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(bridge)?).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => io::Error::new(
            error.kind(),
            format!(
                "another kubelet on this machine gives pods of a node {node} their network: give one of them another name by \
                 --hostname-override"
            ),
        ),
        _ => error,
    })
}

fn key(identity: &Identity) -> Key {
    Key { uid: identity.uid.clone(), attempt: identity.attempt }
}

/// The name of the bridge of a node, and of its table of packet rules.
pub fn bridge_of(node: &str) -> String {
    Bridge::name_of(node)
}

/// Where a node's network keeps its records.
pub fn directory(root_dir: &Path) -> PathBuf {
    root_dir.join("network")
}

/// [`Native::open`], away from what else goes on.
///
/// # Errors
/// As of that.
pub async fn open(settings: Settings) -> io::Result<(Arc<Native>, Vec<String>)> {
    disk::run(move || Native::open(settings)).await
}

/// Takes down what kubelets of that directory left of the network of pods, of this node and of others that have no pods any more.
///
/// # Errors
/// When the kernel refuses.
pub async fn give_back(directory: PathBuf, node: String) -> io::Result<()> {
    disk::run(move || match directory.exists() {
        true => leftovers::give_back(&directory, &node, false),
        false => Ok(()),
    })
    .await
}

/// [`Native::close`], away from what else goes on.
///
/// # Errors
/// As of that.
pub async fn close(native: Arc<Native>) -> io::Result<()> {
    let closed = native.run(Native::close).await?;
    closed.tell(&native.bridge.name);
    Ok(())
}
