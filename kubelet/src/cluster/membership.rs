//! Cluster membership: which peer nodes exist, as the pod network needs it. Pure.
//!
//! If a list lacks this node, the API server has lost data, and the list says nothing about the other nodes either.
//! All nodes then register again. Known peers are kept until they have had time to register.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use client::{Delta, Versioned};
use ipnet::IpNet;
use serde::Deserialize;
use tokio::time::Instant;

use crate::network::{Member, Members, meet};

/// Maximum number of addresses per type, and of pod CIDRs, that are read from one Node. One per family is normal.
const MAX_ADDRESSES: usize = 8;
/// How long known peers are kept after this node had to register again. Nodes contact the API server at least every
/// half minute.
pub(super) const RETURN_GRACE: Duration = Duration::from_secs(5 * 60);

/// The fields of a Node that are read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PartialNode {
    metadata: Metadata,
    spec: Option<Spec>,
    status: Option<Status>,
}

impl Versioned for PartialNode {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    creation_timestamp: Option<String>,
    resource_version: String,
    labels: Option<Labels>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Labels {
    #[serde(rename = "topology.kubernetes.io/zone")]
    zone: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "podCIDR")]
    range: Option<String>,
    #[serde(rename = "podCIDRs")]
    ranges: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Status {
    addresses: Option<Vec<Address>>,
    #[serde(rename = "daemonEndpoints")]
    endpoints: Option<Endpoints>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Endpoints {
    #[serde(rename = "kubeletEndpoint")]
    kubelet: Option<Endpoint>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Endpoint {
    #[serde(rename = "Port")]
    port: i64,
}

/// The `resourceVersion` and the zone of the Node named `node`, if the delta contains that Node. The zone is empty
/// without a label.
pub fn own_node<'a>(delta: &'a Delta<PartialNode>, node: &str) -> Option<(&'a str, &'a str)> {
    let found = match delta {
        Delta::Replaced(nodes, _) => nodes.iter().find(|object| object.metadata.name == node),
        Delta::Applied(object) => Some(object).filter(|object| object.metadata.name == node),
        Delta::Deleted(_) => None,
    };
    let Metadata { resource_version, labels, .. } = &found?.metadata;
    Some((resource_version, labels.as_ref().map_or("", |labels| &labels.zone)))
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

/// The fields of a Node that the membership keeps.
#[derive(Clone, Debug, PartialEq)]
struct NodeEntry {
    uid: String,
    /// The creation timestamp as text. RFC 3339 texts sort by time.
    created: String,
    addresses: Vec<IpAddr>,
    port: u16,
    ranges: Vec<IpNet>,
}

/// What a delta changed in the fields that the membership keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing changed.
    None,
    /// Another node changed.
    OfOthers,
    /// This node changed, or a list replaced all nodes.
    OfOwn,
}

/// All nodes that the reflector reported.
#[derive(Debug)]
pub struct Membership {
    own: String,
    nodes: BTreeMap<String, NodeEntry>,
    /// The UID of this node's Node when it was last seen.
    last_uid: Option<String>,
    /// The end of the period in which known peers are kept although the list lacks them.
    grace_until: Option<Instant>,
    /// The peers whose deletion the watch reported in the grace period.
    deleted: BTreeSet<String>,
    /// Whether the reflector lists all nodes or only this one.
    sees_all: bool,
}

impl Membership {
    /// Creates an empty membership for the node named `own`.
    pub fn new(own: &str) -> Self {
        Self {
            own: own.to_owned(),
            nodes: BTreeMap::new(),
            last_uid: None,
            grace_until: None,
            deleted: BTreeSet::new(),
            sees_all: true,
        }
    }

    /// Sets whether the next deltas cover all nodes or only this one.
    pub fn set_sees_all(&mut self, all: bool) {
        self.sees_all = all;
    }

    /// Applies a delta of the reflector.
    pub fn apply(&mut self, delta: Delta<PartialNode>) -> Change {
        match delta {
            Delta::Replaced(nodes, _) if !self.sees_all => {
                self.nodes.remove(&self.own);
                self.nodes.extend(nodes.into_iter().map(node_entry));
                Change::OfOwn
            }
            Delta::Replaced(nodes, _) => {
                self.nodes = nodes.into_iter().map(node_entry).collect();
                Change::OfOwn
            }
            Delta::Applied(node) => {
                let (name, node_entry) = node_entry(node);
                if self.nodes.get(&name) == Some(&node_entry) {
                    return Change::None;
                }
                let change = self.change_of(&name);
                self.nodes.insert(name, node_entry);
                change
            }
            Delta::Deleted(node) => {
                let name = node.metadata.name;
                let change = self.change_of(&name);
                self.nodes.remove(&name);
                if self.grace_until.is_some() {
                    self.deleted.insert(name);
                }
                change
            }
        }
    }

    fn change_of(&self, name: &str) -> Change {
        if name == self.own { Change::OfOwn } else { Change::OfOthers }
    }

    /// The number of known nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether a node with the given name is known.
    pub fn contains(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }
}

impl Membership {
    /// Computes the members for the pod network from the known nodes and the previous members. Returns `None` while
    /// this node is not known.
    pub fn members(&mut self, before: Option<&Members>, now: Instant) -> Option<Members> {
        let own = self.nodes.get(&self.own)?;
        if self.last_uid.as_ref() != Some(&own.uid) {
            // This also applies to the first list after a start: the members on disk may be newer than an API server
            // that lost data.
            self.grace_until = Some(now + RETURN_GRACE);
            self.last_uid = Some(own.uid.clone());
            self.deleted.clear();
        }
        if self.grace_until.is_some_and(|until| now >= until) {
            self.grace_until = None;
            self.deleted.clear();
        }
        let by_age = |one: &(&String, &NodeEntry), other: &(&String, &NodeEntry)| {
            one.1.created.cmp(&other.1.created).then_with(|| one.0.cmp(other.0))
        };
        let me = (&self.own, own);
        let mut others: Vec<(&String, &NodeEntry)> =
            self.nodes.iter().filter(|(name, _)| **name != self.own).collect();
        others.sort_unstable_by(by_age);
        let mut others: Vec<Member> = others
            .into_iter()
            .map(|(name, node_entry)| Member {
                name: name.clone(),
                is_older: by_age(&(name, node_entry), &me) == Ordering::Less,
                addresses: node_entry.addresses.clone(),
                port: node_entry.port,
                ranges: node_entry.ranges.clone(),
            })
            .collect();
        if self.grace_until.is_some() || !self.sees_all {
            let missing = before.into_iter().flat_map(|before| &before.others);
            let is_missing =
                |one: &&Member| !self.nodes.contains_key(&one.name) && !self.deleted.contains(&one.name);
            let missing = missing.filter(is_missing).filter(|one| self.has_no_conflict(one));
            // A peer that is missing from the list does not win a conflict with a listed one.
            others.extend(missing.map(|one| Member { is_older: false, ..one.clone() }));
        }
        Some(Members { own: own.ranges.clone(), others })
    }

    /// Whether no listed node has a pod CIDR or an address of a missing member.
    fn has_no_conflict(&self, one: &Member) -> bool {
        let mut taken = self.nodes.values().flat_map(|node_entry| &node_entry.ranges);
        let is_taken = |ip: &IpAddr| {
            self.nodes
                .values()
                .any(|node_entry| node_entry.addresses.contains(ip) && one.collides(node_entry.port))
        };
        !taken.any(|range| one.ranges.iter().any(|own| meet(range, own)))
            && !one.addresses.iter().any(is_taken)
    }
}

/// The fields of a Node to keep, with its name. Values that cannot be parsed are ignored.
fn node_entry(node: PartialNode) -> (String, NodeEntry) {
    let PartialNode { metadata, spec, status } = node;
    let spec = spec.unwrap_or_default();
    let ranges = match spec.ranges.filter(|all| !all.is_empty()) {
        Some(all) => all,
        None => spec.range.into_iter().collect(),
    };
    let status = status.unwrap_or_default();
    let port = status.endpoints.and_then(|endpoints| endpoints.kubelet).unwrap_or_default().port;
    let addresses = status.addresses.unwrap_or_default();
    let internal = addresses.iter().filter(|address| address.kind == "InternalIP");
    let node_entry = NodeEntry {
        uid: metadata.uid,
        created: metadata.creation_timestamp.unwrap_or_default(),
        addresses: internal.filter_map(|address| address.address.parse().ok()).take(MAX_ADDRESSES).collect(),
        port: u16::try_from(port).unwrap_or_default(),
        ranges: ranges
            .iter()
            .filter_map(|text| text.parse::<IpNet>().ok())
            .map(|net| net.trunc())
            .take(MAX_ADDRESSES)
            .collect(),
    };
    (metadata.name, node_entry)
}
