//! The known state of the sandboxes' networks. Pure.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::policy_gate::PolicyFields;
use super::record::Record;
use super::{NetworkState, ipam};
use crate::observed::PodUid;
use crate::runtime::spec::HostPort;

/// Identifies a sandbox: the pod's UID and the attempt.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The pod's UID.
    pub uid: PodUid,
    /// The number of earlier sandboxes of the pod.
    pub attempt: u32,
}

/// Sandboxes whose creation has finished, with the serial number of their reservation.
pub type KnownSandboxes = HashMap<Key, u64>;

/// A pid, and the number of the process's network namespace.
pub(super) type Process = (u32, u64);

#[derive(Debug)]
struct Entry {
    record: Record,
    /// The serial number of the reservation. It distinguishes reservations of the same key.
    serial: u64,
    /// Whether the creation has finished. Before that, the engine need not list the sandbox.
    is_created: bool,
    /// Whether its veth is up.
    is_up: bool,
    /// Whether it is being released.
    is_releasing: bool,
    /// The process in whose namespace the veth ends, if it is known.
    process: Option<Process>,
}

/// The networks of all sandboxes.
#[derive(Debug, Default)]
pub(super) struct State {
    entries: HashMap<Key, Entry>,
    /// Sandboxes by their ID in the engine.
    ids: HashMap<String, Key>,
    /// The last assigned address of each pod CIDR.
    last: Vec<Option<IpAddr>>,
    serial: u64,
}

impl State {
    fn insert(&mut self, key: Key, record: Record, is_created: bool, is_up: bool) {
        self.serial += 1;
        let entry =
            Entry { record, serial: self.serial, is_created, is_up, is_releasing: false, process: None };
        self.entries.insert(key, entry);
    }

    /// Restores the record of an earlier kubelet.
    pub fn restore(&mut self, key: Key, record: Record, is_up: bool) {
        self.insert(key, record, true, is_up);
    }

    /// Reserves the addresses that the sandbox already has, or free ones, and begins its creation.
    ///
    /// # Errors
    /// If no address is free.
    pub fn reserve(
        &mut self,
        key: &Key,
        pod: String,
        ranges: &[IpNet],
        ports: Vec<HostPort>,
    ) -> Result<Record, String> {
        let addresses = match self.entries.get(key) {
            Some(entry) => entry.record.addresses.clone(),
            None => self.free(ranges)?,
        };
        let record = Record::new(key, pod, addresses, ports);
        self.ids.retain(|_, other| other != key);
        self.insert(key.clone(), record.clone(), false, false);
        Ok(record)
    }

    fn free(&mut self, ranges: &[IpNet]) -> Result<Vec<IpAddr>, String> {
        let taken: HashSet<IpAddr> =
            self.entries.values().flat_map(|entry| entry.record.addresses.iter().copied()).collect();
        let mut all = Vec::new();
        self.last.resize(ranges.len(), None);
        for (range, last) in ranges.iter().zip(&mut self.last) {
            let Some(ip) = ipam::next(*range, &taken, *last) else {
                let count = ipam::count(*range);
                return Err(format!(
                    "no address is free in {range}, all {count} are in use: delete pods, or give the node a larger \
                     --pod-cidr"
                ));
            };
            *last = Some(ip);
            all.push(ip);
        }
        Ok(all)
    }

    /// Ends the creation, whether it succeeded or not.
    pub fn finish_creation(&mut self, key: &Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.is_created = true;
        }
    }

    /// The network state of a sandbox by its ID. `is_bare` means that the engine gave it no network.
    pub fn network_state(
        &mut self,
        key: &Key,
        id: &str,
        is_bare: bool,
        found: Option<Process>,
    ) -> NetworkState {
        let Some(entry) = self.entries.get_mut(key).filter(|_| is_bare) else {
            return if is_bare { NetworkState::Lost } else { NetworkState::NotOurs };
        };
        if !self.ids.contains_key(id) {
            self.ids.retain(|_, other| other != key);
            self.ids.insert(id.to_owned(), key.clone());
        }
        if entry.is_up && entry.process.is_none() {
            entry.process = found;
        }
        let addresses = entry.record.addresses.clone();
        match (entry.is_up, entry.process, found) {
            (true, Some((_, key_and_serial)), Some((_, now))) if key_and_serial != now => NetworkState::Lost,
            (true, ..) => NetworkState::Up(addresses),
            (false, ..) => NetworkState::Down(addresses),
        }
    }

    /// The sandbox with this ID.
    pub fn key_of(&self, id: &str) -> Option<Key> {
        self.ids.get(id).cloned()
    }

    /// The addresses of the sandbox with this ID.
    pub fn addresses_of(&self, id: &str) -> Option<Vec<IpAddr>> {
        Some(self.entries.get(self.ids.get(id)?)?.record.addresses.clone())
    }

    /// The sandbox with this ID, and the serial number of its reservation.
    pub fn key_and_serial(&self, id: &str) -> Option<(Key, u64)> {
        let key = self.ids.get(id)?;
        Some((key.clone(), self.entries.get(key)?.serial))
    }

    /// The serial number of a reservation whose veth is not up yet.
    pub fn serial_if_not_up(&self, key: &Key) -> Option<u64> {
        let entry = self.entries.get(key).filter(|entry| !entry.is_up && !entry.is_releasing)?;
        Some(entry.serial)
    }

    /// Records the fields of a pod on which NetworkPolicies depend, and returns the changed record. `None` if the
    /// reservation has ended.
    pub fn set_policy_fields(&mut self, key: &Key, serial: u64, fields: Arc<PolicyFields>) -> Option<Record> {
        let is_same = |entry: &&mut Entry| entry.serial == serial && !entry.is_releasing;
        let entry = self.entries.get_mut(key).filter(is_same)?;
        entry.record.policy_fields = Some(fields);
        Some(entry.record.clone())
    }

    /// The record of a sandbox whose veth is not up yet.
    pub fn not_up(&self, key: &Key) -> Option<Record> {
        self.entries
            .get(key)
            .filter(|entry| !entry.is_up && !entry.is_releasing)
            .map(|entry| entry.record.clone())
    }

    /// Records that the veth is up.
    pub fn set_up(&mut self, key: &Key, pid: u32, namespace: u64) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.is_up = true;
            entry.process = Some((pid, namespace));
        }
    }

    /// All sandboxes whose veth is up.
    pub fn all_up(&self) -> impl Iterator<Item = (&Key, &Record, Option<Process>)> {
        let attached = self.entries.iter().filter(|(_, entry)| entry.is_up && !entry.is_releasing);
        attached.map(|(key, entry)| (key, &entry.record, entry.process))
    }

    /// All sandboxes with addresses, with the serial number of their reservation.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Record, u64)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.record, entry.serial))
    }

    /// All sandboxes whose creation has finished.
    pub fn known_sandboxes(&self) -> KnownSandboxes {
        let finish_creation = self.entries.iter().filter(|(_, entry)| entry.is_created);
        finish_creation.map(|(key, entry)| (key.clone(), entry.serial)).collect()
    }

    /// Begins the release of a reservation, if its serial number still matches. The addresses are free after
    /// [`State::finish_release`].
    pub fn begin_release(&mut self, key: &Key, serial: u64) -> Option<Record> {
        let entry = self.entries.get_mut(key).filter(|entry| entry.serial == serial && entry.is_created)?;
        entry.is_releasing = true;
        Some(entry.record.clone())
    }

    /// Frees the addresses of a reservation.
    pub fn finish_release(&mut self, key: &Key) {
        self.entries.remove(key);
        self.ids.retain(|_, other| other != key);
    }

    /// All reserved addresses.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.entries.values().flat_map(|entry| entry.record.addresses.iter().copied()).collect()
    }

    /// Whether there are no reservations.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests;
