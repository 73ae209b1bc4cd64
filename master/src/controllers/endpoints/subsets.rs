//! The older form of what stands behind a service: subsets of addresses with the same ports, in one object. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::fit::Port;
use super::pod::Pod;
use super::service::{Family, Service};
use crate::controllers::client::Json;

/// Addresses of one object at most; the stock controller's.
pub const MOST: usize = 1000;

/// Where an address stands in a subset: by itself, then by its pod.
type Place = (String, String);

/// Addresses with the same ports.
#[derive(Debug, Default, PartialEq)]
struct Subset {
    ready: BTreeMap<Place, Value>,
    waiting: BTreeMap<Place, Value>,
}

/// The subsets of a service, and whether some addresses had to be left out.
pub fn subsets(service: &Service, pods: &[Json]) -> (Vec<Value>, bool) {
    let mut all: BTreeMap<BTreeSet<Port>, Subset> = BTreeMap::new();
    for pod in pods.iter().map(Pod) {
        // One that ends is none of the older form's, unless all are to be told.
        if !pod.is_there() || (pod.is_ending() && !service.publishes_all) {
            continue;
        }
        let ports: BTreeSet<Port> = pod.ports(service).into_iter().collect();
        if ports.is_empty() && !(service.is_headless && service.ports.is_empty()) {
            continue;
        }
        let Some((key, address)) = address(service, &pod) else { continue };
        let subset = all.entry(ports).or_default();
        let into =
            if service.publishes_all || pod.is_ready() { &mut subset.ready } else { &mut subset.waiting };
        into.insert(key, address);
    }
    let ready: usize = all.values().map(|subset| subset.ready.len()).sum();
    let waiting: usize = all.values().map(|subset| subset.waiting.len()).sum();
    let is_cut = ready + waiting > MOST;
    // Those that are ready come first; each subset keeps its share.
    let (mut ready, mut waiting) = (Room::of(ready, MOST), Room::of(waiting, MOST.saturating_sub(ready)));
    let subsets = all.into_iter().filter_map(|(ports, subset)| {
        let (ready, waiting) = (ready.take(subset.ready), waiting.take(subset.waiting));
        (!ready.is_empty() || !waiting.is_empty()).then(|| told(&ports, ready, waiting))
    });
    (subsets.collect(), is_cut)
}

/// Room for some of so many.
struct Room {
    total: usize,
    most: usize,
    left: usize,
}

impl Room {
    fn of(total: usize, most: usize) -> Self {
        Self { total, most, left: most }
    }

    /// The share of these, rounded up while there is room.
    fn take(&mut self, addresses: BTreeMap<Place, Value>) -> Vec<Value> {
        let share = match self.total {
            total if total <= self.most => addresses.len(),
            total => (addresses.len() * self.most).div_ceil(total).min(self.left),
        };
        self.left = self.left.saturating_sub(share);
        addresses.into_values().take(share).collect()
    }
}

fn told(ports: &BTreeSet<Port>, ready: Vec<Value>, waiting: Vec<Value>) -> Value {
    let mut subset = Map::new();
    let ports: Vec<Value> = ports.iter().map(port).collect();
    for (field, list) in [("addresses", ready), ("notReadyAddresses", waiting), ("ports", ports)] {
        if !list.is_empty() {
            subset.insert(field.to_owned(), list.into());
        }
    }
    subset.into()
}

/// A port as it stands in Endpoints, where a port without a name has none.
fn port(port: &Port) -> Value {
    let mut port = port.json();
    if let Some(port) = port.as_object_mut() {
        port.retain(|field, value| field != "name" || value != "");
    }
    port
}

/// The one address that counts, of the first family of the service, and where it stands among others.
fn address(service: &Service, pod: &Pod<'_>) -> Option<(Place, Value)> {
    let family = service.families.first();
    let ip = pod.addresses().find(|ip| family.is_none_or(|family| *family == Family::of(*ip)))?.to_string();
    let reference = pod.reference();
    let key = (ip.clone(), reference["uid"].to_string());
    let mut address = json!({"ip": ip, "targetRef": reference});
    let node = pod.node();
    if !node.is_empty() {
        address["nodeName"] = node.into();
    }
    if let Some(name) = pod.host_name(service) {
        address["hostname"] = name.into();
    }
    Some((key, address))
}

#[cfg(test)]
mod tests;
