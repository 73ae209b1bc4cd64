//! Packet rules of single pods: host ports and allowed source addresses. They are set and deleted together with the
//! pod.

use std::collections::BTreeSet;
use std::io;

use super::record::Record;
use super::state::Key;
use super::{Native, links, packet_rules};
use crate::network::nft::{Error, PodPort, Rules};

impl Native {
    /// The bridge ports of the attached pods, with the addresses of each pod.
    pub(super) fn pod_ports(&self) -> BTreeSet<PodPort> {
        self.state().all_up().filter_map(|(key, record, _)| self.pod_port(key, record)).collect()
    }

    /// The bridge port of a sandbox. `None` if it has no address and therefore no veth pair.
    fn pod_port(&self, key: &Key, record: &Record) -> Option<PodPort> {
        let primary = record.addresses.first()?;
        Some(PodPort {
            name: self.bridge.veth(key),
            mac: links::mac(*primary),
            addresses: record.addresses.clone(),
        })
    }

    /// Sets the rules of a pod: its host ports and its allowed source addresses. Afterwards the caller attaches the
    /// veth to the bridge, so that the rules exist before the first packet.
    ///
    /// # Errors
    /// If the kernel rejects the rules.
    pub(super) fn set_rules_of(&self, key: &Key, record: &Record) -> io::Result<()> {
        let (name, ports) = (&self.bridge.name, packet_rules::ports(record));
        let mut pods = self.pod_ports();
        pods.extend(self.pod_port(key, record));
        let set = || Rules::open().and_then(|mut rules| rules.change_pods(name, &pods, &ports, &[]));
        match set() {
            Err(Error::Gone { .. }) => {
                self.ensure_rules()?;
                set().map_err(io::Error::other)
            }
            done => done.map_err(io::Error::other),
        }
    }

    /// Deletes the rules of a pod that is no longer attached.
    ///
    /// # Errors
    /// If the kernel rejects the change.
    pub(super) fn delete_rules_of(&self, record: &Record) -> io::Result<()> {
        let (name, ports, pods) = (&self.bridge.name, packet_rules::ports(record), self.pod_ports());
        let delete = |ports| Rules::open().and_then(|mut rules| rules.change_pods(name, &pods, &[], ports));
        let done = match delete(&ports) {
            // The host ports were deleted with the table.
            Err(Error::Gone { .. }) => delete(&[]),
            done => done,
        };
        done.map_err(io::Error::other)
    }

    /// The reason why pods of this machine can use source addresses of others, or `None` if they cannot.
    ///
    /// # Errors
    /// If the kernel fails for a reason other than its configuration.
    pub(super) fn lacks_antispoofing(&self) -> io::Result<Option<String>> {
        let lacks = Rules::open().and_then(|mut rules| rules.lacks_antispoofing(&self.bridge.name));
        let lacks = lacks.map_err(io::Error::other)?;
        Ok(lacks
            .map(|why| format!("pods with NET_RAW can send packets with source addresses of others: {why}")))
    }
}
