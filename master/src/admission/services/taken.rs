//! Which addresses and ports services have, and which were given to those that are about to be written.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

use api::strategy::Json;
use api::strategy::addresses::Allocator;
use serde_json::Value;
use tokio::time::Instant;

use super::range;
use crate::options::ServiceRange;

/// How long what was given is kept for a service that may be refused yet: longer than that is decided.
const KEPT: Duration = Duration::from_secs(15);
/// How long it is kept for a service that is being written and does not appear: no request takes longer, nor a store that
/// is asked by one and answers after it.
const PROMISED: Duration = Duration::from_secs(90);

/// What can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thing {
    /// An address of a service.
    Address(IpAddr),
    /// A port of the nodes.
    Port(u16),
}

/// A service: its namespace and name.
pub type Owner = (String, String);

/// What is taken.
#[derive(Debug, Default)]
pub struct Taken {
    /// What each service has, and the revision in which it was seen.
    held: HashMap<Owner, (u64, Vec<Thing>)>,
    /// What was given, to whom, and until when it is kept.
    given: HashMap<Thing, (Owner, Instant)>,
}

impl Taken {
    /// Takes in all services there are; those that are as they were are not read again.
    pub fn see<R: FnOnce() -> Json>(
        &mut self,
        services: impl Iterator<Item = (Owner, u64, R)>,
        now: Instant,
    ) {
        let mut before = std::mem::take(&mut self.held);
        for (owner, revision, read) in services {
            let held = match before.remove(&owner) {
                Some(known) if known.0 == revision => known,
                _ => (revision, things(&read())),
            };
            self.held.insert(owner, held);
        }
        let held = &self.held;
        let is_there =
            |owner: &Owner, thing: &Thing| held.get(owner).is_some_and(|(_, things)| things.contains(thing));
        self.given.retain(|thing, (owner, until)| now < *until && !is_there(owner, thing));
    }

    /// What nobody else may have than this one.
    fn of_others(&self, own: &Owner) -> HashSet<Thing> {
        let held = self.held.iter().filter(|(owner, _)| *owner != own).flat_map(|(_, (_, things))| things);
        let given = self.given.iter().filter(|(_, (owner, _))| owner != own).map(|(thing, _)| thing);
        held.chain(given).copied().collect()
    }

    /// Keeps things for a service that is about to be written.
    pub fn keep(&mut self, owner: &Owner, things: Vec<Thing>, now: Instant) {
        self.given.extend(things.into_iter().map(|thing| (thing, (owner.clone(), now + KEPT))));
    }

    /// Keeps what was given to a service until it is written, for it is not refused any more.
    pub fn promise(&mut self, owner: &Owner, now: Instant) {
        for (_, until) in self.given.values_mut().filter(|(given, _)| given == owner) {
            *until = now + PROMISED;
        }
    }
}

/// The addresses in a service.
pub fn addresses(service: &Json) -> Vec<IpAddr> {
    list(service, "clusterIPs").filter_map(|ip| ip.as_str()?.parse().ok()).collect()
}

/// The addresses and ports in a service.
fn things(service: &Json) -> Vec<Thing> {
    let ports = list(service, "ports").filter_map(|port| u16::try_from(port.get("nodePort")?.as_u64()?).ok());
    addresses(service).into_iter().map(Thing::Address).chain(ports.map(Thing::Port)).collect()
}

fn list<'a>(service: &'a Json, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    let spec = service.get("spec").and_then(|spec| spec.get(field));
    spec.and_then(Value::as_array).into_iter().flatten()
}

/// Gives to one service.
pub struct Giving<'a> {
    ranges: &'a [ServiceRange],
    taken: HashSet<Thing>,
    seed: u128,
    /// What was given.
    pub given: Vec<Thing>,
}

impl<'a> Giving<'a> {
    /// Gives what nobody else has; `seed` chooses.
    pub fn to(owner: &Owner, taken: &Taken, ranges: &'a [ServiceRange], seed: u128) -> Self {
        Self { ranges, taken: taken.of_others(owner), seed, given: Vec::new() }
    }

    fn give(&mut self, thing: Thing) {
        self.taken.insert(thing);
        self.given.push(thing);
    }
}

impl Allocator for Giving<'_> {
    fn address(&mut self, family: &str, wanted: Option<&str>) -> Result<String, String> {
        let missing = || format!("this cluster has no range of {family} addresses");
        let range = *self.ranges.iter().find(|range| range::family(range) == family).ok_or_else(missing)?;
        let Some(wanted) = wanted else {
            let is_free = |ip| !self.taken.contains(&Thing::Address(ip));
            let ip = range::pick(&range, self.seed, self.taken.len(), is_free);
            let ip = ip.ok_or_else(|| "failed to allocate a serviceIP: range is full".to_owned())?;
            self.give(Thing::Address(ip));
            return Ok(ip.to_string());
        };
        let failed = |why: String| format!("failed to allocate IP {wanted}: {why}");
        match wanted.parse() {
            Ok(ip) if range::holds(&range, ip) => match self.taken.contains(&Thing::Address(ip)) {
                true => Err(failed("provided IP is already allocated".to_owned())),
                false => {
                    self.give(Thing::Address(ip));
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
                let is_free = |port| !self.taken.contains(&Thing::Port(port));
                let port = range::pick_port(self.seed, self.taken.len(), is_free);
                port.ok_or_else(|| "failed to allocate a nodePort: range is full".to_owned())?
            }
            Some(port) if !range::holds_port(port) => {
                let shown = range::shown_ports();
                return Err(format!(
                    "provided port is not in the valid range. The range of valid ports is {shown}"
                ));
            }
            Some(port) if self.taken.contains(&Thing::Port(port)) => {
                return Err("provided port is already allocated".to_owned());
            }
            Some(port) => port,
        };
        self.give(Thing::Port(port));
        Ok(port)
    }
}

#[cfg(test)]
mod tests {
    //! Who gets what.
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
    fn what_one_has_no_other_gets() {
        let (mut taken, now, ranges) = (Taken::default(), Instant::now(), ranges());
        let web = json!({"spec": {"clusterIPs": ["10.96.0.9"], "ports": [{"nodePort": 30001}]}});
        let read = || web.as_object().unwrap().clone();
        taken.see([(owner("web"), 3, read)].into_iter(), now);
        let give = |taken: &Taken, name: &str, ip: Option<&str>, port: Option<u16>| {
            let mut giving = Giving::to(&owner(name), taken, &ranges, 7);
            let told = (giving.address("IPv4", ip), giving.port("TCP", port));
            (told.0.err().unwrap_or_default(), told.1.err().unwrap_or_default(), giving.given)
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
        assert!(Giving::to(&owner("db"), &taken, &ranges, 7).address("IPv6", None).is_err());
        // What is given is kept a while, and free once the service is there without it or never came.
        let (_, _, given) = give(&taken, "db", None, None);
        taken.keep(&owner("db"), given.clone(), now);
        assert_ne!(give(&taken, "other", None, None).2, given);
        assert_eq!(give(&taken, "db", None, None).2, given, "whoever tries again gets the same");
        taken.see(std::iter::empty::<(Owner, u64, fn() -> Json)>(), now + KEPT);
        assert_eq!(give(&taken, "other", None, None).2, given);
        assert!(give(&taken, "other", Some("10.96.0.9"), Some(30001)).0.is_empty(), "what is gone is free");
        taken.keep(&owner("slow"), given.clone(), now);
        taken.promise(&owner("slow"), now);
        for (late, is_kept) in [(KEPT, true), (Duration::from_secs(60), true), (PROMISED, false)] {
            taken.see(std::iter::empty::<(Owner, u64, fn() -> Json)>(), now + late);
            assert_eq!(give(&taken, "other", None, None).2 != given, is_kept, "{late:?}");
        }
        taken.keep(&owner("web"), things(&read()), now + KEPT);
        taken.see([(owner("web"), 4, read)].into_iter(), now + KEPT);
        taken.see(std::iter::empty::<(Owner, u64, fn() -> Json)>(), now + KEPT);
        assert!(give(&taken, "other", Some("10.96.0.9"), None).0.is_empty(), "it came and went");
    }
}
