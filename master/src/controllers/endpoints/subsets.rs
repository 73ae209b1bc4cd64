//! Computes the subsets of a legacy Endpoints object. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::packing::Port;
use super::pod::Pod;
use super::service::{Family, Service};
use crate::objects;

/// Maximum number of addresses in an Endpoints object, as in stock Kubernetes.
pub const MAX_ADDRESSES: usize = 1000;

/// Sort key of an address: the address, then the pod UID.
type AddressKey = (String, String);

/// Addresses that share the same ports.
#[derive(Debug, Default, PartialEq)]
struct Subset {
    ready: BTreeMap<AddressKey, Value>,
    not_ready: BTreeMap<AddressKey, Value>,
}

/// Returns the subsets of a service, and whether addresses were truncated.
pub fn subsets(service: &Service, pods: &[objects::Pod]) -> (Vec<Value>, bool) {
    let mut all: BTreeMap<BTreeSet<Port>, Subset> = BTreeMap::new();
    for pod in pods.iter().map(Pod) {
        // Terminating pods are left out unless the service publishes all addresses.
        if !pod.has_endpoint() || (pod.is_terminating() && !service.publishes_all) {
            continue;
        }
        let ports: BTreeSet<Port> = pod.ports(service).into_iter().collect();
        if ports.is_empty() && !(service.is_headless && service.ports.is_empty()) {
            continue;
        }
        let Some((key, address)) = address(service, &pod) else { continue };
        let subset = all.entry(ports).or_default();
        let into =
            if service.publishes_all || pod.is_ready() { &mut subset.ready } else { &mut subset.not_ready };
        into.insert(key, address);
    }
    let ready: usize = all.values().map(|subset| subset.ready.len()).sum();
    let not_ready: usize = all.values().map(|subset| subset.not_ready.len()).sum();
    let is_cut = ready + not_ready > MAX_ADDRESSES;
    // Ready addresses take precedence; each subset keeps its share.
    let (mut ready, mut not_ready) = (
        AddressLimit::of(ready, MAX_ADDRESSES),
        AddressLimit::of(not_ready, MAX_ADDRESSES.saturating_sub(ready)),
    );
    let subsets = all.into_iter().filter_map(|(ports, subset)| {
        let (ready, not_ready) = (ready.take(subset.ready), not_ready.take(subset.not_ready));
        (!ready.is_empty() || !not_ready.is_empty()).then(|| subset_object(&ports, ready, not_ready))
    });
    (subsets.collect(), is_cut)
}

/// Distributes a limited number of addresses over the subsets.
struct AddressLimit {
    total: usize,
    most: usize,
    left: usize,
}

impl AddressLimit {
    fn of(total: usize, most: usize) -> Self {
        Self { total, most, left: most }
    }

    /// Takes the share of the next subset, rounded up while the limit lasts.
    fn take(&mut self, addresses: BTreeMap<AddressKey, Value>) -> Vec<Value> {
        let share = match self.total {
            total if total <= self.most => addresses.len(),
            total => (addresses.len() * self.most).div_ceil(total).min(self.left),
        };
        self.left = self.left.saturating_sub(share);
        addresses.into_values().take(share).collect()
    }
}

fn subset_object(ports: &BTreeSet<Port>, ready: Vec<Value>, not_ready: Vec<Value>) -> Value {
    let mut subset = Map::new();
    let ports: Vec<Value> = ports.iter().map(port).collect();
    for (field, list) in [("addresses", ready), ("notReadyAddresses", not_ready), ("ports", ports)] {
        if !list.is_empty() {
            subset.insert(field.to_owned(), list.into());
        }
    }
    subset.into()
}

/// Returns a port of an Endpoints object, without an empty name.
fn port(port: &Port) -> Value {
    let mut port = port.json();
    if let Some(port) = port.as_object_mut() {
        port.retain(|field, value| field != "name" || value != "");
    }
    port
}

/// Returns the pod's address in the primary family of the service, with its sort key.
fn address(service: &Service, pod: &Pod<'_>) -> Option<(AddressKey, Value)> {
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
