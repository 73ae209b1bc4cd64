//! What is known of the sandboxes' networks. Pure.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;

use super::record::Record;
use super::{Standing, ipam};
use crate::observed::PodUid;
use crate::runtime::spec::HostPort;

/// Which sandbox: a pod's UID and how many it had before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The pod.
    pub uid: PodUid,
    /// Sandboxes it had before.
    pub attempt: u32,
}

/// Sandboxes that are not being made, each with the number of its reservation.
pub type Settled = HashMap<Key, u64>;

/// A process and the number of the network namespace it is in.
pub(super) type Process = (u32, u64);

#[derive(Debug)]
struct Entry {
    record: Record,
    /// Which reservation it is: a sandbox may come again under the same key.
    serial: u64,
    /// It is being made: that the engine does not list it says nothing.
    is_made: bool,
    /// Its cable is laid.
    is_up: bool,
    /// It is being given back.
    is_going: bool,
    /// Where its cable leads to, as far as that is known.
    leads_to: Option<Process>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct State {
    entries: HashMap<Key, Entry>,
    /// Which sandbox bears which id in the engine.
    ids: HashMap<String, Key>,
    /// The address given last of each range.
    last: Vec<Option<IpAddr>>,
    serial: u64,
}

impl State {
    fn enter(&mut self, key: Key, record: Record, is_made: bool, is_up: bool) {
        self.serial += 1;
        let entry = Entry { record, serial: self.serial, is_made, is_up, is_going: false, leads_to: None };
        self.entries.insert(key, entry);
    }

    /// Takes in what an earlier kubelet wrote down.
    pub fn know(&mut self, key: Key, record: Record, is_up: bool) {
        self.enter(key, record, true, is_up);
    }

    /// Reserves the addresses that a sandbox has already, or free ones; it is being made from now on. `pod` is for people.
    ///
    /// # Errors
    /// When none is left.
    pub fn take(
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
        self.enter(key.clone(), record.clone(), false, false);
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
                    "no address is left in {range}, all {count} are taken: end pods, or give the node a larger --pod-cidr"
                ));
            };
            *last = Some(ip);
            all.push(ip);
        }
        Ok(all)
    }

    /// It is not being made any more, whatever came of it.
    pub fn made(&mut self, key: &Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.is_made = true;
        }
    }

    /// What there is to say of a sandbox that the engine shows under that id. `is_bare`: the engine gave it no network.
    pub fn standing(&mut self, key: &Key, id: &str, is_bare: bool, process: Option<Process>) -> Standing {
        let Some(entry) = self.entries.get_mut(key).filter(|_| is_bare) else {
            return if is_bare { Standing::Lost } else { Standing::NotOurs };
        };
        if !self.ids.contains_key(id) {
            self.ids.retain(|_, other| other != key);
            self.ids.insert(id.to_owned(), key.clone());
        }
        if entry.is_up && entry.leads_to.is_none() {
            entry.leads_to = process;
        }
        let addresses = entry.record.addresses.clone();
        match (entry.is_up, entry.leads_to, process) {
            (true, Some((_, known)), Some((_, now))) if known != now => Standing::Lost,
            (true, ..) => Standing::Up(addresses),
            (false, ..) => Standing::Down(addresses),
        }
    }

    /// The sandbox of that id.
    pub fn key_of(&self, id: &str) -> Option<Key> {
        self.ids.get(id).cloned()
    }

    /// The addresses of the sandbox of that id.
    pub fn addresses_of(&self, id: &str) -> Option<Vec<IpAddr>> {
        Some(self.entries.get(self.ids.get(id)?)?.record.addresses.clone())
    }

    /// The sandbox of that id, with the number of its reservation.
    pub fn known(&self, id: &str) -> Option<(Key, u64)> {
        let key = self.ids.get(id)?;
        Some((key.clone(), self.entries.get(key)?.serial))
    }

    /// What a sandbox has whose cable is still to be laid.
    pub fn not_up(&self, key: &Key) -> Option<Record> {
        self.entries
            .get(key)
            .filter(|entry| !entry.is_up && !entry.is_going)
            .map(|entry| entry.record.clone())
    }

    /// Its cable is laid.
    pub fn up(&mut self, key: &Key, pid: u32, namespace: u64) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.is_up = true;
            entry.leads_to = Some((pid, namespace));
        }
    }

    /// All whose cable is laid.
    pub fn all_up(&self) -> impl Iterator<Item = (&Key, &Record, Option<Process>)> {
        let up = self.entries.iter().filter(|(_, entry)| entry.is_up && !entry.is_going);
        up.map(|(key, entry)| (key, &entry.record, entry.leads_to))
    }

    /// All that are made.
    pub fn settled(&self) -> Settled {
        let made = self.entries.iter().filter(|(_, entry)| entry.is_made);
        made.map(|(key, entry)| (key.clone(), entry.serial)).collect()
    }

    /// It is to be given back, if it is still the one that was meant; what it has is free after [`State::gone`].
    pub fn goes(&mut self, key: &Key, serial: u64) -> Option<Record> {
        let entry = self.entries.get_mut(key).filter(|entry| entry.serial == serial && entry.is_made)?;
        entry.is_going = true;
        Some(entry.record.clone())
    }

    /// It is given back.
    pub fn gone(&mut self, key: &Key) {
        self.entries.remove(key);
        self.ids.retain(|_, other| other != key);
    }

    /// All addresses that are reserved.
    pub fn addresses(&self) -> Vec<IpAddr> {
        self.entries.values().flat_map(|entry| entry.record.addresses.iter().copied()).collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests;
