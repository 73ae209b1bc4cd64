//! Who is in the cluster, as far as the network of pods goes by it. Pure.
//!
//! Nothing is taken away on doubt: a list without this node itself is of a master that has lost something, and says nothing of the others
//! either. The node registers again then, as all others do, and until they have had the time, those that were known before are kept.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use tokio::time::Instant;

use super::follow::Told;
use crate::network::{Member, Members, meet};

/// Most addresses of one kind and ranges of one node that are looked at: one a family, and a few for whoever writes more.
const MOST: usize = 8;
/// How long others that were known are waited for after this node had to register again: nodes look for their master every half
/// minute.
pub(super) const RETURN: Duration = Duration::from_secs(5 * 60);

/// What is read of a Node.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Line {
    metadata: Metadata,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    uid: String,
    creation_timestamp: Option<String>,
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
    #[serde(rename = "conditions", deserialize_with = "is_unknown")]
    is_unheard: bool,
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

/// Whether it is not known if the node is ready, as a master writes it of one that it does not hear; others write conditions of their own.
fn is_unknown<'de, D: Deserializer<'de>>(conditions: D) -> Result<bool, D::Error> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Condition {
        #[serde(rename = "type")]
        kind: String,
        status: String,
    }
    let all = Option::<Vec<Condition>>::deserialize(conditions)?;
    let is_it = |condition: &Condition| condition.kind == "Ready" && condition.status == "Unknown";
    Ok(all.iter().flatten().any(is_it))
}

/// Whether the master says that it does not hear a node, where this tells anything of it.
pub fn is_unheard(told: &Told<Line>, node: &str) -> Option<bool> {
    let found = match told {
        Told::All(lines, _) => lines.iter().find(|line| line.metadata.name == node),
        Told::Put(line) => Some(line).filter(|line| line.metadata.name == node),
        Told::Gone(_) => None,
    };
    Some(found?.status.as_ref().is_some_and(|status| status.is_unheard))
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

/// What is kept of it.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    uid: String,
    /// As it is written, which sorts as times do.
    created: String,
    addresses: Vec<IpAddr>,
    port: u16,
    ranges: Vec<IpNet>,
}

/// What was new in what was heard, as far as it is looked at here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing.
    None,
    /// Something of other nodes.
    OfOthers,
    /// Something of the own node, or of all.
    OfOwn,
}

/// All nodes that were heard of.
#[derive(Debug)]
pub struct Roster {
    own: String,
    nodes: BTreeMap<String, Seen>,
    /// The identity of the own Node when it was there last.
    known_as: Option<String>,
    /// Until when those are waited for that were known before.
    waits_until: Option<Instant>,
    /// Those of them that have gone since, as somebody has said.
    gone: BTreeSet<String>,
    /// Whether what is heard is of all nodes.
    sees_all: bool,
}

impl Roster {
    /// Nobody, for the node of that name.
    pub fn new(own: &str) -> Self {
        Self {
            own: own.to_owned(),
            nodes: BTreeMap::new(),
            known_as: None,
            waits_until: None,
            gone: BTreeSet::new(),
            sees_all: true,
        }
    }

    /// From now on what is heard is of all nodes, or of the own one alone and says nothing of others.
    pub fn sees(&mut self, all: bool) {
        self.sees_all = all;
    }

    /// Takes in what is heard.
    pub fn hear(&mut self, told: Told<Line>) -> News {
        match told {
            Told::All(lines, _) if !self.sees_all => {
                self.nodes.remove(&self.own);
                self.nodes.extend(lines.into_iter().map(seen));
                News::OfOwn
            }
            Told::All(lines, _) => {
                self.nodes = lines.into_iter().map(seen).collect();
                News::OfOwn
            }
            Told::Put(line) => {
                let (name, seen) = seen(line);
                if self.nodes.get(&name) == Some(&seen) {
                    return News::None;
                }
                let news = self.news_of(&name);
                self.nodes.insert(name, seen);
                news
            }
            Told::Gone(line) => {
                let name = line.metadata.name;
                let news = self.news_of(&name);
                self.nodes.remove(&name);
                if self.waits_until.is_some() {
                    self.gone.insert(name);
                }
                news
            }
        }
    }

    fn news_of(&self, name: &str) -> News {
        if name == self.own { News::OfOwn } else { News::OfOthers }
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether that node is there.
    pub fn has(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }
}

impl Roster {
    /// What the network goes by, given what it has gone by so far; `None` when nothing sensible is known.
    pub fn members(&mut self, before: Option<&Members>, now: Instant) -> Option<Members> {
        let own = self.nodes.get(&self.own)?;
        if self.known_as.as_ref() != Some(&own.uid) {
            // Also at the first word after a start: what was kept on the disk may be of a master that has lost it since.
            self.waits_until = Some(now + RETURN);
            self.known_as = Some(own.uid.clone());
            self.gone.clear();
        }
        if self.waits_until.is_some_and(|until| now >= until) {
            self.waits_until = None;
            self.gone.clear();
        }
        let by_age = |one: &(&String, &Seen), other: &(&String, &Seen)| {
            one.1.created.cmp(&other.1.created).then_with(|| one.0.cmp(other.0))
        };
        let me = (&self.own, own);
        let mut others: Vec<(&String, &Seen)> =
            self.nodes.iter().filter(|(name, _)| **name != self.own).collect();
        others.sort_unstable_by(by_age);
        let mut others: Vec<Member> = others
            .into_iter()
            .map(|(name, seen)| Member {
                name: name.clone(),
                is_older: by_age(&(name, seen), &me) == Ordering::Less,
                addresses: seen.addresses.clone(),
                port: seen.port,
                ranges: seen.ranges.clone(),
            })
            .collect();
        if self.waits_until.is_some() || !self.sees_all {
            let missing = before.into_iter().flat_map(|before| &before.others);
            let is_missing =
                |one: &&Member| !self.nodes.contains_key(&one.name) && !self.gone.contains(&one.name);
            let missing = missing.filter(is_missing).filter(|one| self.is_free(one));
            // Whoever is not there claims nothing against those who are.
            others.extend(missing.map(|one| Member { is_older: false, ..one.clone() }));
        }
        Some(Members { own: own.ranges.clone(), others })
    }

    /// Whether nobody who is there has anything of what one has that is not.
    fn is_free(&self, one: &Member) -> bool {
        let mut taken = self.nodes.values().flat_map(|seen| &seen.ranges);
        let is_taken = |ip: &IpAddr| {
            self.nodes.values().any(|seen| seen.addresses.contains(ip) && one.collides(seen.port))
        };
        !taken.any(|range| one.ranges.iter().any(|own| meet(range, own)))
            && !one.addresses.iter().any(is_taken)
    }
}

/// What is kept of a Node, by its name. What does not read is not there.
fn seen(line: Line) -> (String, Seen) {
    let Line { metadata, spec, status } = line;
    let spec = spec.unwrap_or_default();
    let ranges = match spec.ranges.filter(|all| !all.is_empty()) {
        Some(all) => all,
        None => spec.range.into_iter().collect(),
    };
    let status = status.unwrap_or_default();
    let port = status.endpoints.and_then(|endpoints| endpoints.kubelet).unwrap_or_default().port;
    let addresses = status.addresses.unwrap_or_default();
    let internal = addresses.iter().filter(|address| address.kind == "InternalIP");
    let seen = Seen {
        uid: metadata.uid,
        created: metadata.creation_timestamp.unwrap_or_default(),
        addresses: internal.filter_map(|address| address.address.parse().ok()).take(MOST).collect(),
        port: u16::try_from(port).unwrap_or_default(),
        ranges: ranges
            .iter()
            .filter_map(|text| text.parse::<IpNet>().ok())
            .map(|net| net.trunc())
            .take(MOST)
            .collect(),
    };
    (metadata.name, seen)
}
