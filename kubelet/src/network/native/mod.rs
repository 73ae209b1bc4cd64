//! The kubelet's own network of pods: a bridge, a cable to each sandbox, and addresses of the node's range.
//!
//! A sandbox's addresses are reserved and written down before the engine makes it, so that whoever comes after a kill knows of
//! them; its cable is laid when its process runs. What no sandbox of the engine stands for is given back when the engine has
//! listed them. [`ipam`] and [`links`] are pure; [`bridge`] talks to the kernel.

mod bridge;
mod ipam;
mod keeper;
mod links;
mod netlink;
mod netns;
mod packets;
mod range;
mod record;

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;

use self::bridge::Bridge;
pub use self::keeper::keep;
use self::netlink::Netlink;
use self::netns::Namespace;
pub use self::record::Key;
use self::record::{HOSTS, RESOLV, Record, Records};
use super::{files, nft};
use crate::disk;
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
}

/// The network of one node's pods.
pub struct Native {
    bridge: Bridge,
    packets: nft::Node,
    ranges: Vec<IpNet>,
    records: Records,
    host_dns: Box<dyn Fn() -> Dns + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    sandboxes: HashMap<Key, Sandbox>,
    /// Which sandbox bears which id in the engine.
    ids: HashMap<String, Key>,
    /// The address given last of each range.
    last: Vec<Option<IpAddr>>,
}

struct Sandbox {
    record: Record,
    /// It is being made: that the engine does not list it says nothing.
    is_made: bool,
    /// Its cable is laid.
    is_up: bool,
    /// Whose network its cable leads into: a process and the number of its namespace.
    leads_to: Option<(u32, u64)>,
}

/// What a sandbox has of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Has {
    /// Its addresses, the primary one first.
    pub addresses: Vec<IpAddr>,
    /// Whether they can be reached.
    pub is_up: bool,
}

/// A sandbox that is being made, until this is dropped.
pub struct Making<'a> {
    native: &'a Native,
    key: Key,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        if let Some(sandbox) = self.native.state().sandboxes.get_mut(&self.key) {
            sandbox.is_made = true;
        }
    }
}

impl Native {
    /// Opens the network: the range is settled, the bridge is there, and what an earlier kubelet has laid is known.
    ///
    /// # Errors
    /// When the range is in use by others here, or the kernel refuses; the message says what and what to do.
    pub fn open(settings: Settings) -> io::Result<Arc<Self>> {
        let mut netlink = Netlink::open()?;
        let name = Bridge::name_of(&settings.node);
        let _choosing = range::lock();
        let ranges = range::settle(&mut netlink, &settings.ranges, &settings.directory, &name)?;
        let bridge = Bridge::new(&settings.node, ranges.clone());
        let (link, _) = bridge.ensure(&mut netlink)?;
        let (records, found) = Records::open(&settings.directory)?;
        let mut cables = bridge.cables(&mut netlink, &link)?;
        let mut sandboxes = HashMap::new();
        for (key, record) in found {
            let laid = cables.remove(&bridge.cable(&key));
            let is_up = laid.is_some();
            sandboxes.insert(key, Sandbox { record, is_made: true, is_up, leads_to: None });
        }
        for stray in cables.values().filter(|cable| cable.bridge.is_some()) {
            tracing::info!(cable = stray.name, "a cable of no sandbox is taken away");
            bridge.cut(&mut netlink, &stray.name)?;
        }
        let state = State { sandboxes, last: vec![None; ranges.len()], ..State::default() };
        let host_dns = settings.host_dns;
        let packets = packets::node(&bridge.name, &ranges);
        let native = Arc::new(Self { bridge, packets, ranges, records, host_dns, state: Mutex::new(state) });
        native.ensure_rules()?;
        Ok(native)
    }

    /// The node's ranges, the primary one first.
    pub fn ranges(&self) -> &[IpNet] {
        &self.ranges
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves addresses for a sandbox that is about to be made, and writes what it will find in `/etc`.
    ///
    /// # Errors
    /// When no address is left, or nothing can be written.
    pub async fn reserve(self: &Arc<Self>, spec: &SandboxSpec) -> Result<Making<'_>, Error> {
        let key = key(&spec.identity);
        let record = self.take_addresses(&key, spec)?;
        let making = Making { native: self, key: key.clone() };
        let aliases = &spec.host_aliases;
        let hosts =
            files::hosts(&record.addresses, spec.hostname.as_deref(), spec.domain.as_deref(), aliases);
        let resolv = match &spec.dns {
            of_host if *of_host == Dns::default() => files::resolv(&(self.host_dns)()),
            dns => files::resolv(dns),
        };
        let native = self.clone();
        let written = disk::run(move || native.records.write(&key, &record, &hosts, &resolv)).await;
        written.map_err(|error| {
            let directory = self.records.path(&making.key);
            Error::Network(format!("cannot write {}: {error}", directory.display()))
        })?;
        Ok(making)
    }

    /// Those it has already, or free ones.
    fn take_addresses(&self, key: &Key, spec: &SandboxSpec) -> Result<Record, Error> {
        let mut state = self.state();
        let has = state.sandboxes.get(key).map(|sandbox| sandbox.record.addresses.clone());
        let addresses = match has {
            Some(addresses) => addresses,
            None => self.free_addresses(&mut state)?,
        };
        let record = Record::new(key, addresses, spec.host_ports.clone());
        let reserved = Sandbox { record: record.clone(), is_made: false, is_up: false, leads_to: None };
        let sandbox = state.sandboxes.entry(key.clone()).or_insert(reserved);
        sandbox.is_made = false;
        sandbox.record = record.clone();
        Ok(record)
    }

    fn free_addresses(&self, state: &mut State) -> Result<Vec<IpAddr>, Error> {
        let sandboxes = state.sandboxes.values();
        let taken: HashSet<IpAddr> =
            sandboxes.flat_map(|sandbox| sandbox.record.addresses.iter().copied()).collect();
        let mut all = Vec::new();
        for (range, last) in self.ranges.iter().zip(&mut state.last) {
            let Some(ip) = ipam::next(*range, &taken, *last) else {
                let count = ipam::count(*range);
                return Err(Error::Network(format!(
                    "no address is left in {range}, all {count} are taken: end pods, or give the node a larger --pod-cidr"
                )));
            };
            *last = Some(ip);
            all.push(ip);
        }
        Ok(all)
    }

    /// Notes which id the engine gave to a sandbox, and which process it has.
    pub fn met(&self, identity: &Identity, id: &str, process: Option<u32>) {
        let key = key(identity);
        let mut state = self.state();
        let State { sandboxes, ids, .. } = &mut *state;
        let Some(sandbox) = sandboxes.get_mut(&key) else { return };
        if let (true, None, Some(pid)) = (sandbox.is_up, sandbox.leads_to, process) {
            sandbox.leads_to = Namespace::of(pid).ok().map(|namespace| (pid, namespace.number));
        }
        if !ids.contains_key(id) {
            ids.retain(|_, other| *other != key);
            ids.insert(id.to_owned(), key);
        }
    }

    /// What a sandbox has; `None` for one whose network is not ours.
    pub fn network(&self, identity: &Identity) -> Option<Has> {
        let state = self.state();
        let sandbox = state.sandboxes.get(&key(identity))?;
        Some(Has { addresses: sandbox.record.addresses.clone(), is_up: sandbox.is_up })
    }

    /// What a container of a sandbox of ours finds in `/etc`, unless the pod puts something else there.
    pub fn mounts(&self, spec: &ContainerSpec) -> Vec<Mount> {
        let Some(key) = self.state().ids.get(&spec.sandbox_id).cloned() else { return Vec::new() };
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

    /// Lays the cable of a sandbox whose process runs; one that has it is fine.
    ///
    /// # Errors
    /// When the kernel refuses; it may be tried again.
    pub async fn attach(self: &Arc<Self>, identity: &Identity, pid: u32) -> Result<(), Error> {
        let key = key(identity);
        let (native, sandbox) = (self.clone(), key.clone());
        let laid = disk::run(move || native.lay(&sandbox, pid)).await;
        laid.map_err(|error| {
            let (pod, namespace, bridge) = (&identity.pod, &identity.namespace, &self.bridge.name);
            Error::Network(format!("cannot connect {namespace}/{pod} to the bridge {bridge}: {error}"))
        })
    }

    fn lay(&self, key: &Key, pid: u32) -> io::Result<()> {
        let record = match self.state().sandboxes.get(key) {
            Some(sandbox) if !sandbox.is_up => sandbox.record.clone(),
            _ => return Ok(()),
        };
        let namespace = Namespace::of(pid)?;
        let mut netlink = Netlink::open()?;
        let (bridge, _) = self.bridge.ensure(&mut netlink)?;
        self.bridge.lay(&mut netlink, &bridge, key, &record, pid, &namespace)?;
        self.open_ports(&record)?;
        if let Some(sandbox) = self.state().sandboxes.get_mut(key) {
            sandbox.is_up = true;
            sandbox.leads_to = Some((pid, namespace.number));
        }
        Ok(())
    }

    /// The sandboxes that are made, whether they are still there or not.
    pub fn settled(&self) -> Vec<Key> {
        let state = self.state();
        state.sandboxes.iter().filter(|(_, sandbox)| sandbox.is_made).map(|(key, _)| key.clone()).collect()
    }

    /// Gives back what sandboxes have that were settled and that the engine does not list.
    pub async fn release_all_but(
        self: &Arc<Self>,
        settled: Vec<Key>,
        listed: impl Iterator<Item = &Identity>,
    ) {
        if settled.is_empty() {
            return;
        }
        let there: HashSet<Key> =
            listed.filter(|found| found.container == labels::SANDBOX_NAME).map(key).collect();
        for key in settled.into_iter().filter(|key| !there.contains(key)) {
            tracing::info!(pod = %key.uid, "the addresses of a sandbox that is gone are free again");
            self.give_back(key).await;
        }
    }

    /// Gives back what a sandbox has had that is gone now.
    pub async fn release(self: &Arc<Self>, id: &str) {
        let key = self.state().ids.get(id).cloned();
        if let Some(key) = key {
            self.give_back(key).await;
        }
    }

    /// Takes the network down when no pod has any of it, so that nothing stays of a node that is not used any more.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn close(&self) -> io::Result<()> {
        if !self.state().sandboxes.is_empty() {
            return Ok(());
        }
        self.remove_rules()?;
        self.bridge.remove(&mut Netlink::open()?)
    }

    /// The cable went with the sandbox's network.
    async fn give_back(self: &Arc<Self>, key: Key) {
        let (native, gone) = (self.clone(), key.clone());
        let had = self.state().sandboxes.get(&key).map(|sandbox| sandbox.record.clone());
        let removed = disk::run(move || {
            had.map_or(Ok(()), |had| native.close_ports(&had))?;
            native.records.remove(&gone)
        })
        .await;
        if let Err(error) = removed {
            tracing::warn!(pod = %key.uid, %error, "the record of a sandbox's network stays behind until the next start");
        }
        let mut state = self.state();
        state.sandboxes.remove(&key);
        state.ids.retain(|_, other| *other != key);
    }
}

fn key(identity: &Identity) -> Key {
    Key { uid: identity.uid.clone(), attempt: identity.attempt }
}

/// Where a node's network keeps its records.
pub fn directory(root_dir: &Path) -> PathBuf {
    root_dir.join("network")
}
