//! Answers questions about the cluster's zone from the index, as the Kubernetes DNS specification 1.1.0 defines. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_proto::rr::rdata::{A, AAAA, CNAME, NS, PTR, SOA, SRV, TXT};
use hickory_proto::rr::{Name, RData, Record, RecordType};

use super::index::{Entry, Index, NamedPort, ReverseName};
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
        let depth = usize::from(lower.num_labels()).saturating_sub(usize::from(self.origin.num_labels()));
        let labels: Result<Vec<&str>, _> = lower.iter().take(depth).map(std::str::from_utf8).collect();
        // Names of objects are ASCII.
        let Ok(mut labels) = labels else { return Answer::NoName(self.soa(index)) };
        labels.reverse();
        match self.find(index, servers, &labels, question) {
            None => Answer::NoName(self.soa(index)),
            Some(Found::Alias(target)) => {
                Answer::Alias(record(question.name, RData::CNAME(CNAME(target.clone()))), target)
            }
            Some(Found::Data(data, _)) if data.is_empty() => Answer::NoData(self.soa(index)),
            Some(Found::Data(data, targets)) => records(question, data, targets),
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
        let of_addresses = |ips: &[IpAddr]| Found::Data(addresses(ips, question), Vec::new());
        match labels {
            [] => Some(self.apex(index, question.kind)),
            ["dns-version"] if question.kind == RecordType::TXT => {
                Some(found(RData::TXT(TXT::new(vec![SPECIFICATION.to_owned()]))))
            }
            ["dns-version" | "dns" | "svc" | "pod"] => Some(NOTHING),
            ["dns", "ns"] => Some(of_addresses(servers)),
            ["pod", namespace] => index.namespace(namespace).map(|_| NOTHING),
            ["pod", _, address] => pod_address(address).map(|ip| of_addresses(&[ip])),
            ["svc", namespace, rest @ ..] => {
                let services = index.namespace(namespace)?;
                let Some((name, rest)) = rest.split_first() else { return Some(NOTHING) };
                let of_entry = OfEntry { zone: self, namespace, name, question };
                of_entry.find(services.get(*name)?, rest)
            }
            _ => None,
        }
    }

    /// The records of the zone itself.
    fn apex(&self, index: &Index, kind: RecordType) -> Found {
        match kind {
            RecordType::SOA => found(self.soa(index).data),
            RecordType::NS => found(RData::NS(NS(self.name_server.clone()))),
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
        if question.kind != RecordType::PTR {
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

/// A question about a Service, or about a name below one.
struct OfEntry<'a> {
    zone: &'a Zone,
    namespace: &'a str,
    name: &'a str,
    question: &'a Question<'a>,
}

impl OfEntry<'_> {
    /// Finds a name. `rest` are its labels below the Service, beginning with the one next to it.
    fn find(&self, entry: &Entry, rest: &[&str]) -> Option<Found> {
        let of_addresses = |ips: &[IpAddr]| Some(Found::Data(addresses(ips, self.question), Vec::new()));
        match (entry, rest) {
            (Entry::ExternalName(target), []) => absolute(target).map(Found::Alias),
            (Entry::ExternalName(_), _) => None,
            // The specification wants NXDOMAIN for a headless Service without ready endpoints.
            (Entry::Headless { addresses, .. }, _) if addresses.is_empty() => None,
            (Entry::ClusterIp { addresses, .. } | Entry::Headless { addresses, .. }, []) => {
                of_addresses(addresses)
            }
            (Entry::ClusterIp { ports, .. }, [label]) if label.starts_with('_') => {
                has_protocol(ports.iter(), label)
            }
            (Entry::Headless { ports, .. }, [label]) if label.starts_with('_') => {
                has_protocol(ports.keys(), label)
            }
            (Entry::ClusterIp { hosts, .. } | Entry::Headless { hosts, .. }, [host]) => {
                of_addresses(hosts.get(*host)?)
            }
            (Entry::ClusterIp { addresses, ports, .. }, [protocol, port]) => {
                let port = ports.iter().find(|one| is_named(one, protocol, port))?;
                if self.question.kind != RecordType::SRV {
                    return Some(NOTHING);
                }
                let target = self.service()?;
                let of_target = addresses.iter().map(|ip| (target.clone(), *ip)).collect();
                Some(Found::Data(vec![srv(port.number, target)], of_target))
            }
            (Entry::Headless { hosts, ports, .. }, [protocol, port]) => {
                let with_name = ports.iter().filter(|(one, _)| is_named(one, protocol, port));
                let all: Vec<_> = with_name
                    .flat_map(|(port, hosts)| hosts.iter().map(|host| (port.number, host)))
                    .collect();
                if all.is_empty() {
                    return None;
                }
                if self.question.kind != RecordType::SRV {
                    return Some(NOTHING);
                }
                let parent = self.service()?;
                let (mut data, mut targets) = (Vec::new(), Vec::new());
                for (number, host) in rotated(&all, self.question) {
                    let Ok(target) = parent.prepend_label(host.as_bytes()) else { continue };
                    let ips = hosts.get(*host).into_iter().flatten();
                    targets.extend(ips.map(|ip| (target.clone(), *ip)));
                    data.push(srv(*number, target));
                }
                Some(Found::Data(data, targets))
            }
            _ => None,
        }
    }

    /// The name of the Service.
    fn service(&self) -> Option<Name> {
        below(&self.zone.origin, &[self.name, self.namespace, "svc"])
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
fn has_protocol<'a>(mut ports: impl Iterator<Item = &'a NamedPort>, label: &str) -> Option<Found> {
    let wanted = protocol(label)?;
    ports.any(|port| port.protocol == wanted).then_some(NOTHING)
}

fn is_named(port: &NamedPort, of_protocol: &str, label: &str) -> bool {
    protocol(of_protocol) == Some(port.protocol) && label.strip_prefix('_') == Some(&*port.name)
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

/// The addresses of the family in the question; none for other types.
fn addresses(ips: &[IpAddr], question: &Question<'_>) -> Vec<RData> {
    let is_wanted = |ip: &&IpAddr| match question.kind {
        RecordType::A => ip.is_ipv4(),
        RecordType::AAAA => ip.is_ipv6(),
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
