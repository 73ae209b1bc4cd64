//! Answers questions about the cluster's zone from the index, as the Kubernetes DNS specification 1.1.0 defines. Pure.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::index::{Entry, Index, Port, ReverseName, generated_hostname};
use crate::cluster::services::Protocol;

/// The version of the specification, which the record `dns-version` contains.
const SPECIFICATION: &str = "1.1.0";
/// Time to live of all records, in seconds. It is the default of CoreDNS. Answers come from memory, so a longer time
/// saves little and delays changes.
pub(super) const TTL: u32 = 5;
/// Priority of all SRV records.
const PRIORITY: u16 = 0;
/// Weight of all SRV records. They are equal, so that clients distribute requests evenly.
const WEIGHT: u16 = 100;

/// The cluster's zone.
#[derive(Debug)]
pub struct Zone {
    origin: Name,
    /// The name server of the zone, as CoreDNS names it.
    name_server: Name,
    mailbox: Name,
}

/// A question about a name.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    pub name: &'a Name,
    pub kind: RecordType,
    /// The maximum number of records in the answer. A message cannot contain more.
    pub limit: usize,
    /// The index of the record that comes first, modulo their number.
    pub rotation: usize,
}

impl Question<'_> {
    /// Whether records of this type belong to the answer.
    fn wants(&self, kind: RecordType) -> bool {
        self.kind == kind || self.kind == RecordType::ANY
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The records of this name and type, and addresses that the client may need next.
    Records { answers: Vec<Record>, additionals: Vec<Record> },
    /// The name is an alias for the second name.
    Alias(Record, Name),
    /// The name exists, but has no record of this type. The record is the SOA of the zone.
    NoData(Record),
    /// The name does not exist. The record is the SOA of the zone.
    NoName(Record),
    /// The name belongs to another zone.
    OtherZone,
}

/// What an existing name of the zone has for a question.
enum Found {
    Alias(Name),
    /// Records, and addresses of their targets.
    Data(Vec<RData>, Vec<(Name, IpAddr)>),
}

/// The name exists, but has no records of the type.
const NOTHING: Found = Found::Data(Vec::new(), Vec::new());

impl Zone {
    /// The zone of a cluster domain such as `cluster.local`.
    ///
    /// # Errors
    /// If the domain is not a domain name.
    pub fn new(domain: &str) -> Result<Self, String> {
        let origin = absolute(domain).ok_or_else(|| format!("\"{domain}\" is not a domain name"))?;
        let origin = origin.to_lowercase();
        let below = |labels: &[&str]| below(&origin, labels).ok_or_else(|| "it is too long".to_owned());
        Ok(Self { name_server: below(&["ns", "dns"])?, mailbox: below(&["hostmaster"])?, origin })
    }

    /// Whether a name is in the zone.
    pub fn contains(&self, name: &Name) -> bool {
        self.origin.zone_of(name)
    }

    /// Answers a question. `servers` are the addresses of this DNS server.
    pub fn answer(&self, index: &Index, servers: &[IpAddr], question: &Question<'_>) -> Answer {
        if !self.contains(question.name) {
            return self.reverse(index, question);
        }
        let lower = question.name.to_lowercase();
        // Names of objects are ASCII.
        let Some(labels) = self.labels(&lower) else { return Answer::NoName(self.soa(index)) };
        match self.find(index, servers, &labels, question) {
            None => Answer::NoName(self.soa(index)),
            Some(Found::Alias(target)) => {
                Answer::Alias(record(question.name, RData::CNAME(CNAME(target.clone()))), target)
            }
            Some(Found::Data(data, _)) if data.is_empty() => Answer::NoData(self.soa(index)),
            Some(Found::Data(data, targets)) => records(question, data, targets),
        }
    }

    /// The labels below the zone, beginning with the one next to it. `None` if they are not UTF-8.
    fn labels<'a>(&self, name: &'a Name) -> Option<Vec<&'a str>> {
        // `Name::num_labels` does not count a leading `*`.
        let depth = name.iter().count().saturating_sub(self.origin.iter().count());
        let labels: Result<Vec<&str>, _> = name.iter().take(depth).map(std::str::from_utf8).collect();
        labels.ok().map(|labels| labels.into_iter().rev().collect())
    }

    /// Whether the answer for a name of the zone depends on the Services. Clients with search domains also ask for names
    /// that no Service can have, such as `www.example.com.default.svc.cluster.local`.
    pub fn needs_services(&self, name: &Name) -> bool {
        let name = name.to_lowercase();
        match self.labels(&name).as_deref() {
            Some(["svc", _] | ["svc", _, _]) => true,
            Some(["svc", _, _, label]) => !label.starts_with('_') || protocol(label).is_some(),
            Some(["svc", _, _, label, port]) => protocol(label).is_some() && port.starts_with('_'),
            _ => false,
        }
    }

    /// Finds a name. Its labels in lower case begin with the one next to the zone. `None` if it does not exist.
    fn find(
        &self,
        index: &Index,
        servers: &[IpAddr],
        labels: &[&str],
        question: &Question<'_>,
    ) -> Option<Found> {
        match labels {
            [] => Some(self.apex(index, question.kind)),
            ["dns-version"] if question.wants(RecordType::TXT) => {
                Some(found(RData::TXT(TXT::new(vec![SPECIFICATION.to_owned()]))))
            }
            ["dns-version" | "dns" | "svc" | "pod"] => Some(NOTHING),
            ["dns", "ns"] => Some(address_records(servers, question)),
            // Each namespace has names below it, and the index knows only those with Services.
            ["pod", _] => Some(NOTHING),
            ["pod", _, address] => pod_address(address).map(|ip| address_records(&[ip], question)),
            ["svc", namespace, rest @ ..] => {
                let services = index.namespace(namespace)?;
                let Some((name, rest)) = rest.split_first() else { return Some(NOTHING) };
                let lookup = ServiceLookup { zone: self, index, namespace, name, question };
                lookup.find(services.get(*name)?, rest)
            }
            _ => None,
        }
    }

    /// The records of the zone itself.
    fn apex(&self, index: &Index, kind: RecordType) -> Found {
        let name_server = RData::NS(NS(self.name_server.clone()));
        match kind {
            RecordType::SOA => found(self.soa(index).data),
            RecordType::NS => found(name_server),
            RecordType::ANY => Found::Data(vec![self.soa(index).data, name_server], Vec::new()),
            _ => NOTHING,
        }
    }

    /// Answers for the name of an address. Addresses of no Service belong to another zone.
    fn reverse(&self, index: &Index, question: &Question<'_>) -> Answer {
        let Ok(net) = question.name.parse_arpa_name() else { return Answer::OtherZone };
        if net.prefix_len() != net.max_prefix_len() {
            return Answer::OtherZone;
        }
        let names = index.names_of(net.addr());
        if names.is_empty() {
            return Answer::OtherZone;
        }
        if !question.wants(RecordType::PTR) {
            return Answer::NoData(Record::from_rdata(question.name.clone(), TTL, self.soa(index).data));
        }
        let name = |one: &ReverseName| {
            let (service, namespace) = (&*one.service.name, &*one.service.namespace);
            let labels: Vec<&str> =
                one.host.as_deref().into_iter().chain([service, namespace, "svc"]).collect();
            below(&self.origin, &labels).map(|name| RData::PTR(PTR(name)))
        };
        let data = names.iter().take(question.limit).filter_map(name).collect();
        records(question, data, Vec::new())
    }

    /// The SOA record of the zone. Its last field is the time to live of negative answers.
    fn soa(&self, index: &Index) -> Record {
        let (name_server, mailbox) = (self.name_server.clone(), self.mailbox.clone());
        let data = SOA::new(name_server, mailbox, index.serial(), 7200, 1800, 86400, TTL);
        Record::from_rdata(self.origin.clone(), TTL, RData::SOA(data))
    }
}

/// A lookup of a Service, or of a name below one.
struct ServiceLookup<'a> {
    zone: &'a Zone,
    index: &'a Index,
    namespace: &'a str,
    name: &'a str,
    question: &'a Question<'a>,
}

impl ServiceLookup<'_> {
    /// Finds a name. `rest` are its labels below the Service, beginning with the one next to it.
    fn find(&self, entry: &Entry, rest: &[&str]) -> Option<Found> {
        match (entry, rest) {
            (Entry::ExternalName(target), []) => absolute(target).map(Found::Alias),
            (Entry::ExternalName(_), _) => None,
            // The specification wants NXDOMAIN for a headless Service without ready endpoints.
            (Entry::Headless { addresses, .. }, _) if addresses.is_empty() => None,
            // CoreDNS gives all ports, those without a name too.
            (_, []) if self.question.kind == RecordType::SRV => {
                Some(self.ports(entry, |_| true).unwrap_or(NOTHING))
            }
            (Entry::ClusterIp { addresses, .. } | Entry::Headless { addresses, .. }, []) => {
                Some(address_records(addresses, self.question))
            }
            (Entry::ClusterIp { ports, .. }, [label]) if label.starts_with('_') => {
                has_protocol(ports.iter(), label)
            }
            (Entry::Headless { ports, .. }, [label]) if label.starts_with('_') => {
                has_protocol(ports.keys(), label)
            }
            (Entry::ClusterIp { hosts, .. } | Entry::Headless { hosts, .. }, [host]) => {
                match (hosts.get(*host), entry) {
                    (Some(ips), _) => Some(address_records(ips, self.question)),
                    (None, Entry::ClusterIp { .. }) => self.unnamed_endpoint(host),
                    (None, _) => None,
                }
            }
            (_, [protocol, port]) => self.ports(entry, |one| is_named(one, protocol, port)),
            _ => None,
        }
    }

    /// An endpoint of a Service with cluster IP, by its address with dashes.
    fn unnamed_endpoint(&self, host: &str) -> Option<Found> {
        let address = pod_address(host).filter(|address| *generated_hostname(*address) == *host)?;
        let is_there = self.index.has_unnamed_endpoint(self.namespace, self.name, address);
        is_there.then(|| address_records(&[address], self.question))
    }

    /// The SRV records of the matching ports. `None` if there are none.
    fn ports(&self, entry: &Entry, matches: impl Fn(&Port) -> bool) -> Option<Found> {
        let service = below(&self.zone.origin, &[self.name, self.namespace, "svc"])?;
        let (mut data, mut targets) = (Vec::new(), Vec::new());
        match entry {
            Entry::ClusterIp { addresses, ports, .. } => {
                let all: Vec<&Port> = ports.iter().filter(|port| matches(port)).collect();
                data.extend(rotated(&all, self.question).map(|port| srv(port.number, service.clone())));
                targets.extend(addresses.iter().map(|ip| (service.clone(), *ip)));
            }
            Entry::Headless { hosts, ports, .. } => {
                let matching = ports.iter().filter(|(port, _)| matches(port));
                let all: Vec<_> =
                    matching.flat_map(|(port, hosts)| hosts.iter().map(|host| (port.number, host))).collect();
                let mut known = HashSet::new();
                for (number, host) in rotated(&all, self.question) {
                    let Ok(target) = service.prepend_label(host.as_bytes()) else { continue };
                    if known.insert(host) {
                        let ips = hosts.get(*host).into_iter().flatten();
                        targets.extend(ips.map(|ip| (target.clone(), *ip)));
                    }
                    data.push(srv(*number, target));
                }
            }
            Entry::ExternalName(_) => {}
        }
        if data.is_empty() {
            return None;
        }
        Some(if self.question.wants(RecordType::SRV) { Found::Data(data, targets) } else { NOTHING })
    }
}

/// The protocol of a label such as `_tcp`, in lower case.
fn protocol(label: &str) -> Option<Protocol> {
    match label {
        "_tcp" => Some(Protocol::Tcp),
        "_udp" => Some(Protocol::Udp),
        "_sctp" => Some(Protocol::Sctp),
        _ => None,
    }
}

/// `_tcp.<service>` exists if a named port has this protocol: names below it have records.
fn has_protocol<'a>(mut ports: impl Iterator<Item = &'a Port>, label: &str) -> Option<Found> {
    let wanted = protocol(label)?;
    ports.any(|port| port.protocol == wanted && !port.name.is_empty()).then_some(NOTHING)
}

fn is_named(port: &Port, of_protocol: &str, label: &str) -> bool {
    let is_name = label.strip_prefix('_') == Some(&*port.name) && !port.name.is_empty();
    is_name && protocol(of_protocol) == Some(port.protocol)
}

/// The name with these labels in front of the origin. `None` if it is too long.
fn below(origin: &Name, labels: &[&str]) -> Option<Name> {
    let labels = labels.iter().map(|label| label.as_bytes());
    Name::from_labels(labels.chain(origin.iter())).ok()
}

/// A domain name as an absolute name. `None` if it is not valid.
fn absolute(name: &str) -> Option<Name> {
    let name = Name::from_ascii(name.trim_end_matches('.')).ok()?;
    Name::from_labels(name.iter()).ok().filter(|name| !name.is_root())
}

fn found(data: RData) -> Found {
    Found::Data(vec![data], Vec::new())
}

fn srv(port: u16, target: Name) -> RData {
    RData::SRV(SRV::new(PRIORITY, WEIGHT, port, target))
}

/// A record of the name in the question, in its spelling.
fn record(name: &Name, data: RData) -> Record {
    Record::from_rdata(name.clone(), TTL, data)
}

fn records(question: &Question<'_>, data: Vec<RData>, targets: Vec<(Name, IpAddr)>) -> Answer {
    let answers = data.into_iter().map(|data| record(question.name, data)).collect();
    let additionals = targets.into_iter().take(question.limit);
    let additionals = additionals.map(|(name, ip)| Record::from_rdata(name, TTL, address(ip))).collect();
    Answer::Records { answers, additionals }
}

fn address(ip: IpAddr) -> RData {
    match ip {
        IpAddr::V4(ip) => RData::A(A(ip)),
        IpAddr::V6(ip) => RData::AAAA(AAAA(ip)),
    }
}

/// The records of these addresses that answer the question.
fn address_records(ips: &[IpAddr], question: &Question<'_>) -> Found {
    Found::Data(addresses(ips, question), Vec::new())
}

/// The addresses of the family in the question; none for other types.
fn addresses(ips: &[IpAddr], question: &Question<'_>) -> Vec<RData> {
    let is_wanted = |ip: &&IpAddr| match question.kind {
        RecordType::A => ip.is_ipv4(),
        RecordType::AAAA => ip.is_ipv6(),
        RecordType::ANY => true,
        _ => false,
    };
    let wanted: Vec<&IpAddr> = ips.iter().filter(is_wanted).collect();
    rotated(&wanted, question).map(|ip| address(**ip)).collect()
}

/// At most `limit` items, beginning with the one of the rotation.
fn rotated<'a, T>(all: &'a [T], question: &Question<'_>) -> impl Iterator<Item = &'a T> {
    let first = question.rotation.checked_rem(all.len()).unwrap_or(0);
    all[first..].iter().chain(&all[..first]).take(question.limit)
}

/// The address in the first label of a pod's name: `10-1-2-3` or `fd00--1`.
fn pod_address(label: &str) -> Option<IpAddr> {
    let v4 = || label.replace('-', ".").parse::<Ipv4Addr>().map(IpAddr::V4);
    let v6 = || label.replace('-', ":").parse::<Ipv6Addr>().map(IpAddr::V6);
    v4().or_else(|_| v6()).ok()
}

#[cfg(test)]
pub(super) mod tests;
