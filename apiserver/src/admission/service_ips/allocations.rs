//! Addresses and node ports that Services have, and those that are allocated to Services being written.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use api::strategy::Json;
use api::strategy::addresses::Allocator;
use serde_json::Value;
use tokio::time::Instant;

use super::range::{self, ServiceRange};

/// How long an allocation is kept while its request may still be rejected.
const PENDING_TTL: Duration = Duration::from_secs(15);
/// How long an allocation is kept for an accepted Service that does not appear. That is longer than any request.
const RESERVATION_TTL: Duration = Duration::from_secs(90);

/// An address or port that can be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A cluster IP.
    Address(IpAddr),
    /// A node port.
    Port(u16),
}

/// A Service: namespace and name.
pub type Owner = (String, String);

#[derive(Debug, Default)]
pub struct Allocations {
    /// The addresses and ports of each Service, with its revision.
    held: HashMap<Owner, (u64, Vec<Resource>)>,
    /// Pending allocations: the Service and the expiry.
    given: HashMap<Resource, (Owner, Instant)>,
}

impl Allocations {
    /// Refreshes the allocations. Unchanged Services are not decoded again.
    pub fn refresh<R: FnOnce() -> Json>(
        &mut self,
        services: impl Iterator<Item = (Owner, u64, R)>,
        now: Instant,
    ) {
        let mut before = std::mem::take(&mut self.held);
        for (owner, revision, read) in services {
            let held = match before.remove(&owner) {
                Some(known) if known.0 == revision => known,
                _ => (revision, resources(&read())),
            };
            self.held.insert(owner, held);
        }
        let held = &self.held;
        let is_there = |owner: &Owner, thing: &Resource| {
            held.get(owner).is_some_and(|(_, resources)| resources.contains(thing))
        };
        self.given.retain(|thing, (owner, until)| now < *until && !is_there(owner, thing));
    }

    /// All addresses and ports that are allocated to other Services.
    fn of_others(&self, own: &Owner) -> HashSet<Resource> {
        let held =
            self.held.iter().filter(|(owner, _)| *owner != own).flat_map(|(_, (_, resources))| resources);
        let given = self.given.iter().filter(|(_, (owner, _))| owner != own).map(|(thing, _)| thing);
        held.chain(given).copied().collect()
    }

    /// Keeps allocations for a Service that is being written.
    pub fn hold(&mut self, owner: &Owner, resources: Vec<Resource>, now: Instant) {
        self.given.extend(resources.into_iter().map(|thing| (thing, (owner.clone(), now + PENDING_TTL))));
    }

    /// Extends the pending allocations of an accepted Service.
    pub fn reserve(&mut self, owner: &Owner, now: Instant) {
        for (_, until) in self.given.values_mut().filter(|(given, _)| given == owner) {
            *until = now + RESERVATION_TTL;
        }
    }
}

/// The cluster IPs of a Service.
pub fn addresses(service: &Json) -> Vec<IpAddr> {
    list(service, "clusterIPs").filter_map(|ip| ip.as_str()?.parse().ok()).collect()
}

/// The cluster IPs and node ports of a Service.
fn resources(service: &Json) -> Vec<Resource> {
    let ports = list(service, "ports").filter_map(|port| u16::try_from(port.get("nodePort")?.as_u64()?).ok());
    addresses(service).into_iter().map(Resource::Address).chain(ports.map(Resource::Port)).collect()
}

fn list<'a>(service: &'a Json, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    let spec = service.get("spec").and_then(|spec| spec.get(field));
    spec.and_then(Value::as_array).into_iter().flatten()
}

/// The addresses and ports of one Service, before and after a write.
pub struct ServiceAllocation<'a> {
    ranges: &'a [ServiceRange],
    taken: HashSet<Resource>,
    seed: u128,
    /// The new allocations.
    pub given: Vec<Resource>,
}

impl<'a> ServiceAllocation<'a> {
    /// Creates the allocation for a Service. It uses only what no other Service has. `seed` selects addresses and
    /// ports.
    pub fn new(owner: &Owner, taken: &Allocations, ranges: &'a [ServiceRange], seed: u128) -> Self {
        Self { ranges, taken: taken.of_others(owner), seed, given: Vec::new() }
    }

    fn take(&mut self, thing: Resource) {
        self.taken.insert(thing);
        self.given.push(thing);
    }
}

impl Allocator for ServiceAllocation<'_> {
    fn address(&mut self, family: &str, wanted: Option<&str>) -> Result<String, String> {
        let missing = || format!("this cluster has no range of {family} addresses");
        let range = *self.ranges.iter().find(|range| range::family(range) == family).ok_or_else(missing)?;
        let Some(wanted) = wanted else {
            let is_free = |ip| !self.taken.contains(&Resource::Address(ip));
            let ip = range::choose_address(&range, self.seed, self.taken.len(), is_free);
            let ip = ip.ok_or_else(|| "failed to allocate a serviceIP: range is full".to_owned())?;
            self.take(Resource::Address(ip));
            return Ok(ip.to_string());
        };
        let failed = |why: String| format!("failed to allocate IP {wanted}: {why}");
        match wanted.parse() {
            Ok(ip) if range::holds(&range, ip) => match self.taken.contains(&Resource::Address(ip)) {
                true => Err(failed("provided IP is already allocated".to_owned())),
                false => {
                    self.take(Resource::Address(ip));
                    Ok(wanted.to_owned())
                }
            },
            _ => Err(failed(format!(
                "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {range}"
            ))),
        }
    }

    fn port(&mut self, _: &str, wanted: Option<u16>) -> Result<u16, String> {
        let port = match wanted {
            None => {
                let is_free = |port| !self.taken.contains(&Resource::Port(port));
                let port = range::choose_port(self.seed, self.taken.len(), is_free);
                port.ok_or_else(|| "failed to allocate a nodePort: range is full".to_owned())?
            }
            Some(port) if !range::holds_port(port) => {
                let shown = range::shown_ports();
                return Err(format!(
                    "provided port is not in the valid range. The range of valid ports is {shown}"
                ));
            }
            Some(port) if self.taken.contains(&Resource::Port(port)) => {
                return Err("provided port is already allocated".to_owned());
            }
            Some(port) => port,
        };
        self.take(Resource::Port(port));
        Ok(port)
    }
}

#[cfg(test)]
mod tests {
    //! Tests of allocation of addresses and node ports.
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
    use serde_json::json;

    use super::*;

    fn owner(name: &str) -> Owner {
        ("shop".to_owned(), name.to_owned())
    }

    fn ranges() -> Vec<ServiceRange> {
        vec![ServiceRange { network: "10.96.0.0".parse().unwrap(), bits: 12 }]
    }

    #[test]
    fn allocated_ips_and_ports_are_not_given_to_other_services() {
        let (mut taken, now, ranges) = (Allocations::default(), Instant::now(), ranges());
        let web = json!({"spec": {"clusterIPs": ["10.96.0.9"], "ports": [{"nodePort": 30001}]}});
        let read = || web.as_object().unwrap().clone();
        taken.refresh([(owner("web"), 3, read)].into_iter(), now);
        let give = |taken: &Allocations, name: &str, ip: Option<&str>, port: Option<u16>| {
            let mut allocation = ServiceAllocation::new(&owner(name), taken, &ranges, 7);
            let owners = (allocation.address("IPv4", ip), allocation.port("TCP", port));
            (owners.0.err().unwrap_or_default(), owners.1.err().unwrap_or_default(), allocation.given)
        };
        for (name, ip, port, expected) in [
            ("db", Some("10.96.0.9"), Some(30001), ["already allocated", "already allocated"]),
            ("web", Some("10.96.0.9"), Some(30001), ["", ""]),
            ("db", Some("10.95.0.9"), Some(80), ["valid IPs is 10.96.0.0/12", "valid ports is 30000-32767"]),
            ("db", Some("x"), None, ["not in the valid range", ""]),
            ("db", None, None, ["", ""]),
        ] {
            let (address, port, _) = give(&taken, name, ip, port);
            assert!(address.contains(expected[0]) && port.contains(expected[1]), "{name}: {address} {port}");
            assert_eq!(
                (address.is_empty(), port.is_empty()),
                (expected[0].is_empty(), expected[1].is_empty())
            );
        }
        assert!(ServiceAllocation::new(&owner("db"), &taken, &ranges, 7).address("IPv6", None).is_err());
        // An allocation is held for a while. It is free again if the service is then stored without it, or was never stored.
        let (_, _, given) = give(&taken, "db", None, None);
        taken.hold(&owner("db"), given.clone(), now);
        assert_ne!(give(&taken, "other", None, None).2, given);
        assert_eq!(give(&taken, "db", None, None).2, given, "a retry gets the same addresses");
        taken.refresh(std::iter::empty::<(Owner, u64, fn() -> Json)>(), now + PENDING_TTL);
        assert_eq!(give(&taken, "other", None, None).2, given);
        assert!(give(&taken, "other", Some("10.96.0.9"), Some(30001)).0.is_empty(), "what is gone is free");
        taken.hold(&owner("slow"), given.clone(), now);
        taken.reserve(&owner("slow"), now);
        for (late, is_kept) in
            [(PENDING_TTL, true), (Duration::from_secs(60), true), (RESERVATION_TTL, false)]
        {
            taken.refresh(std::iter::empty::<(Owner, u64, fn() -> Json)>(), now + late);
            assert_eq!(give(&taken, "other", None, None).2 != given, is_kept, "{late:?}");
        }
        taken.hold(&owner("web"), resources(&read()), now + PENDING_TTL);
        taken.refresh([(owner("web"), 4, read)].into_iter(), now + PENDING_TTL);
        taken.refresh(std::iter::empty::<(Owner, u64, fn() -> Json)>(), now + PENDING_TTL);
        assert!(give(&taken, "other", Some("10.96.0.9"), None).0.is_empty(), "it came and went");
    }
}
