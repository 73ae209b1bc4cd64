//! Chains, rules and sets of the service proxy's table. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::super::Family;
use super::super::expression::{self as on, Expression, FIRST};
use super::super::host_ports::address_bytes;
use super::super::table::{FORWARD, Hook, Layout, MAP, OUTPUT, POSTROUTING, PREROUTING, SetSpec, labelled};
use super::affinity::{AFFINITY_SIZE, Pin, sticky_rules};
use super::sources::Sources;
use super::{BRIDGE_PREFIX, SERVICE_MARK, ServiceAddress, ServiceNode, ServiceRules, Side, Target};

/// The priority of DNAT to endpoints. It precedes host ports of pods (-105) and Docker's rules (-100), because the
/// first DNAT rule that matches wins.
const BEFORE_HOST_PORTS: i32 = -108;
/// The priority of masquerading. It precedes that of the pod network (95).
const BEFORE_POD_NETWORK: i32 = 94;
/// The priority of marking forwarded packets. It precedes filters (0), and follows rules that may replace the mark
/// (`NF_IP_PRI_MANGLE`, -150).
const AFTER_MANGLE: i32 = -149;

const IN: &str = "prerouting";
const OWN: &str = "output";
const OUT: &str = "postrouting";
const THROUGH: &str = "forward";
/// The chain that rejects connections to Services without endpoints.
pub const REJECT: &str = "reject";

/// Data types by which `nft` prints keys and values: `inet_proto`, `inet_service`, `mark`.
const PROTOCOL: u32 = 12;
const PORT: u32 = 13;
const NUMBER: u32 = 19;
/// The data type of verdicts, `NFT_DATA_VERDICT`.
const VERDICT: u32 = 0xffff_ff00;
/// Length of a verdict as the kernel reports it, in bytes.
const VERDICT_BYTES: u32 = 16;
/// Length of the number of an endpoint in a key, in bytes.
const NUMBER_BYTES: u32 = 4;
/// Length of a port in a key or value: one register.
const PORT_BYTES: u32 = 4;

/// The flag `NFT_SET_TIMEOUT`.
const TIMEOUT: u32 = 0x10;
/// The flag `NFT_SET_EVAL`: rules add elements.
const DYNAMIC: u32 = 0x20;

/// A kind of set or map. Each exists once per family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetKind {
    /// From address, protocol and port to the chain of a Service.
    Services(Side),
    /// From address, protocol, port and number to an endpoint.
    Endpoints(Side),
    /// From the same key to the chain of an endpoint, with session affinity.
    Pinned(Side),
    /// Clients with session affinity, by their address and that of the Service. The rules add and renew elements.
    Clients,
    /// From the same key to the endpoint of the client. The rules add elements.
    Affinity,
    /// Addresses of Services.
    Addresses,
    /// Addresses of Services with masqueraded clients.
    Masqueraded,
    /// Cluster IPs.
    ClusterIps,
    /// Pairs of equal addresses: endpoints of this node that reach themselves.
    Hairpin,
}

/// A set or map of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Set {
    /// The kind.
    pub kind: SetKind,
    /// The family of its addresses.
    pub family: Family,
}

impl Set {
    /// All sets of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        let kinds = [
            SetKind::Services(Side::Inside),
            SetKind::Services(Side::Outside),
            SetKind::Endpoints(Side::Inside),
            SetKind::Endpoints(Side::Outside),
            SetKind::Pinned(Side::Inside),
            SetKind::Pinned(Side::Outside),
            SetKind::Clients,
            SetKind::Affinity,
            SetKind::Addresses,
            SetKind::Masqueraded,
            SetKind::ClusterIps,
            SetKind::Hairpin,
        ];
        Family::BOTH.into_iter().flat_map(move |family| kinds.map(|kind| Self { kind, family }))
    }

    /// The name.
    pub fn name(self) -> &'static str {
        let v4 = self.family == Family::V4;
        let of = |four, six| if v4 { four } else { six };
        match self.kind {
            SetKind::Services(Side::Inside) => of("services_inside", "services_inside6"),
            SetKind::Services(Side::Outside) => of("services_outside", "services_outside6"),
            SetKind::Endpoints(Side::Inside) => of("endpoints", "endpoints6"),
            SetKind::Endpoints(Side::Outside) => of("endpoints_outside", "endpoints_outside6"),
            SetKind::Pinned(Side::Inside) => of("pinned", "pinned6"),
            SetKind::Pinned(Side::Outside) => of("pinned_outside", "pinned_outside6"),
            SetKind::Clients => of("clients", "clients6"),
            SetKind::Affinity => of("affinity", "affinity6"),
            SetKind::Addresses => of("addresses", "addresses6"),
            SetKind::Masqueraded => of("masqueraded", "masqueraded6"),
            SetKind::ClusterIps => of("cluster_ips", "cluster_ips6"),
            SetKind::Hairpin => of("hairpin", "hairpin6"),
        }
    }

    /// The specification, and the types by which `nft` prints keys and values.
    pub fn spec(self, capacity: Capacity) -> (SetSpec, (u32, u32)) {
        let (address, bytes) = (self.family.nft_type(), u32::from(self.family.address_length()));
        let types = |all: &[u32]| all.iter().fold(0, |types, one| (types << 6) | one);
        let (at, at_bytes) = (types(&[address, PROTOCOL, PORT]), bytes + 2 * PORT_BYTES);
        let (to, to_bytes) = (types(&[address, PORT]), bytes + PORT_BYTES);
        let numbered = types(&[address, PROTOCOL, PORT, NUMBER]);
        let client = types(&[address, address, PROTOCOL, PORT]);
        let Capacity { services, endpoints } = capacity;
        let spec = |flags, key, value, most| SetSpec { flags, key, value, most };
        match self.kind {
            SetKind::Services(_) => (spec(MAP, at_bytes, VERDICT_BYTES, services), (at, VERDICT)),
            SetKind::Endpoints(_) => {
                (spec(MAP, at_bytes + NUMBER_BYTES, to_bytes, endpoints), (numbered, to))
            }
            SetKind::Pinned(_) => {
                (spec(MAP, at_bytes + NUMBER_BYTES, VERDICT_BYTES, endpoints), (numbered, VERDICT))
            }
            SetKind::Clients => (spec(TIMEOUT | DYNAMIC, bytes + at_bytes, 0, AFFINITY_SIZE), (client, 0)),
            SetKind::Affinity => {
                let flags = MAP | TIMEOUT | DYNAMIC;
                (spec(flags, bytes + at_bytes, to_bytes, AFFINITY_SIZE), (client, to))
            }
            SetKind::Addresses => (spec(0, at_bytes, 0, services), (at, 0)),
            SetKind::Masqueraded => (spec(0, at_bytes, 0, services), (at, 0)),
            SetKind::ClusterIps => (spec(0, bytes, 0, services), (address, 0)),
            SetKind::Hairpin => (spec(0, 2 * bytes, 0, endpoints), (types(&[address, address]), 0)),
        }
    }
}

/// The sizes of the sets. The kernel does not grow them: it lists a set without a size incorrectly while it grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Size of sets with addresses of Services, in elements.
    pub services: u32,
    /// Size of sets with endpoints, in elements.
    pub endpoints: u32,
}

impl Capacity {
    /// Smallest sizes. An empty table takes less than 2 MiB of kernel memory with these.
    const LEAST: Self = Self { services: 1024, endpoints: 4096 };

    /// The number of elements that the rules need in the largest set.
    fn needed(rules: &ServiceRules) -> Self {
        let of_targets = rules.targets.iter().map(|((side, at), target)| {
            let group = rules.group_of(*side, *at, target).filter(|(map, _)| map == side);
            group.map_or(0, |(_, group)| group.endpoints.len())
        });
        let endpoints: usize = of_targets.sum();
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let services = count(rules.targets.len().max(rules.cluster_ips.len()));
        Self { services, endpoints: count(endpoints + rules.own_endpoints.len()) }
    }

    /// Sizes for the rules, with room to double.
    pub fn of(rules: &ServiceRules) -> Self {
        let needed = Self::needed(rules);
        let double = |count: u32| count.saturating_mul(2).checked_next_power_of_two().unwrap_or(u32::MAX);
        Self {
            services: double(needed.services).max(Self::LEAST.services),
            endpoints: double(needed.endpoints).max(Self::LEAST.endpoints),
        }
    }

    /// Whether the rules fit.
    pub fn fits(self, rules: &ServiceRules) -> bool {
        let needed = Self::needed(rules);
        // A change may briefly need the old and the new elements.
        needed.services <= self.services && needed.endpoints <= self.endpoints
    }
}

/// A chain that sends a connection to one of `count` endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Picker {
    /// The maps in which it looks up the group.
    pub side: Side,
    /// Whether the key in these maps is that of a node port.
    pub is_node_port: bool,
    /// The family.
    pub family: Family,
    /// The number of endpoints.
    pub count: u32,
    /// The timeout of session affinity in seconds; 0 without it.
    pub affinity_seconds: u32,
}

impl Picker {
    /// The name of the chain.
    pub fn name(&self) -> String {
        let side = if self.side == Side::Inside { "inside" } else { "outside" };
        let port = if self.is_node_port { "_port" } else { "" };
        let six = if self.family == Family::V6 { "6" } else { "" };
        let affinity = match self.affinity_seconds {
            0 => String::new(),
            seconds => format!("_for_{seconds}s"),
        };
        format!("{side}{port}{six}_{}{affinity}", self.count)
    }

    /// The rules of the chain.
    pub fn rules(&self) -> Vec<(&'static str, Vec<Expression>)> {
        let words = on::words(self.family);
        if self.affinity_seconds > 0 {
            return sticky_rules(self);
        }
        let set = Set { kind: SetKind::Endpoints(self.side), family: self.family };
        let mut pick = self.numbered_key();
        pick.push(on::lookup_at(set.name(), FIRST, Some(FIRST)));
        pick.push(on::dnat(self.family, FIRST, FIRST + words));
        vec![("to an endpoint", pick)]
    }

    /// Loads the address of the Service and a random number below the number of endpoints to the first registers.
    pub fn numbered_key(&self) -> Vec<Expression> {
        let mut all = on::family_is(self.family);
        all.extend(on::service_key(self.family, self.is_node_port, FIRST));
        all.push(on::random(self.count, FIRST + on::words(self.family) + 2));
        all
    }
}

/// A chain of the table that exists while Services need it. Each one leads only to earlier ones of this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chain {
    /// Chooses an endpoint.
    Picker(Picker),
    /// Leads to one endpoint, and keeps the client there.
    Pin(Pin),
    /// Admits some sources.
    Sources(Sources),
}

impl Chain {
    /// The name of the chain.
    pub fn name(&self) -> String {
        match self {
            Self::Picker(picker) => picker.name(),
            Self::Pin(pin) => pin.name(),
            Self::Sources(sources) => sources.name(),
        }
    }

    /// The rules of the chain, each with its comment.
    pub fn rules(&self) -> Vec<(String, Vec<Expression>)> {
        let rules = match self {
            Self::Picker(picker) => picker.rules(),
            Self::Pin(pin) => pin.rules(),
            Self::Sources(sources) => sources.rules(),
        };
        rules.into_iter().map(|(says, rule)| labelled(says, rule)).collect()
    }
}

/// The chain for a target of an address. `None` if it is no group.
pub fn picker(rules: &ServiceRules, side: Side, at: ServiceAddress, target: &Target) -> Option<Picker> {
    let (side, group) = rules.group_of(side, at, target)?;
    Some(Picker {
        side,
        is_node_port: at.is_node_port(),
        family: Family::of(at.ip),
        count: u32::try_from(group.endpoints.len()).unwrap_or(u32::MAX),
        affinity_seconds: group.affinity_seconds.unwrap_or(0),
    })
}

/// All chains that the rules need.
pub fn service_chains(rules: &ServiceRules) -> BTreeSet<Chain> {
    let mut all = BTreeSet::new();
    for ((side, at), target) in &rules.targets {
        all.extend(picker(rules, *side, *at, target).map(Chain::Picker));
        all.extend(Sources::of(rules, *side, *at, target).map(Chain::Sources));
        if let Some((_, group)) = rules.group_of(*side, *at, target)
            && let Some(seconds) = group.affinity_seconds
        {
            let pin = |endpoint: &SocketAddr| Chain::Pin(Pin::new(*endpoint, at.is_node_port(), seconds));
            all.extend(group.endpoints.iter().map(pin));
        }
    }
    all
}

/// The chains that do not depend on Services, with the hook of base chains.
pub fn chains() -> [(&'static str, Option<Hook>); 5] {
    [
        (REJECT, None),
        (IN, Some(Hook::new("nat", PREROUTING, BEFORE_HOST_PORTS))),
        (OWN, Some(Hook::new("nat", OUTPUT, BEFORE_HOST_PORTS))),
        (OUT, Some(Hook::new("nat", POSTROUTING, BEFORE_POD_NETWORK))),
        (THROUGH, Some(Hook::new("filter", FORWARD, AFTER_MANGLE))),
    ]
}

/// The rules of these chains, each with its chain and comment.
pub fn rules(node: &ServiceNode) -> Vec<(&'static str, String, Vec<Expression>)> {
    let mut all = Vec::new();
    let mut rule = |chain, says: &str, parts: &[Vec<Expression>]| {
        let (comment, expressions) = labelled(says, parts.concat());
        all.push((chain, comment, expressions));
    };
    rule(REJECT, "no endpoints", &[on::is_tcp(), vec![on::reject_with_reset()]]);
    rule(REJECT, "no endpoints", &[vec![on::reject_as_unreachable()]]);
    for family in Family::BOTH {
        let (loopback, bits) = family.loopback();
        let to_loopback = on::destination_in(family, &loopback, bits);
        rule(OWN, "to localhost", &[on::family_is(family), to_loopback, vec![on::accept()]]);
    }
    rule(IN, "from pods of another kubelet", &[from_other_bridge(node), vec![on::accept()]]);
    for is_node_port in [false, true] {
        let to_host = || if is_node_port { on::is_to_local_address() } else { Vec::new() };
        for family in Family::BOTH {
            let go = |side| {
                let set = Set { kind: SetKind::Services(side), family };
                let mut go = on::service_key(family, is_node_port, FIRST);
                go.push(on::lookup_verdict(set.name(), FIRST));
                go
            };
            let (inside, outside) = (go(Side::Inside), go(Side::Outside));
            let says = if is_node_port { "to a node port" } else { "to a Service" };
            let from_pod = on::iif_is(&node.bridge);
            rule(IN, says, &[on::family_is(family), from_pod, to_host(), inside.clone()]);
            let from_other = on::iif_is_not(&node.bridge);
            rule(IN, says, &[on::family_is(family), from_other, to_host(), outside]);
            rule(OWN, says, &[on::family_is(family), to_host(), inside]);
        }
    }
    for chain in [IN, OWN] {
        for family in Family::BOTH {
            let set = Set { kind: SetKind::ClusterIps, family };
            let to_cluster_ip = vec![on::destination(family, FIRST), on::lookup_at(set.name(), FIRST, None)];
            rule(
                chain,
                "to no port of a Service",
                &[on::family_is(family), to_cluster_ip, vec![on::jump(REJECT)]],
            );
        }
    }
    masquerade(node, &mut rule);
    rule(THROUGH, "no DNAT", &[on::is_not_dnat(), vec![on::accept()]]);
    for family in Family::BOTH {
        for is_node_port in [false, true] {
            let redirected = has_key(Set { kind: SetKind::Addresses, family }, is_node_port);
            rule(THROUGH, "to a Service", &[on::family_is(family), redirected, on::add_mark(SERVICE_MARK)]);
        }
    }
    all
}

/// Matches packets from the bridge of another kubelet on this machine, which serves its own pods.
fn from_other_bridge(node: &ServiceNode) -> Vec<Expression> {
    [on::iif_begins_with(BRIDGE_PREFIX), on::iif_is_not(&node.bridge)].concat()
}

/// Matches connections whose original destination is an element of the set.
fn has_key(set: Set, is_node_port: bool) -> Vec<Expression> {
    let mut all = on::original_service_key(set.family, is_node_port, FIRST);
    all.push(on::lookup_at(set.name(), FIRST, None));
    all
}

fn masquerade(node: &ServiceNode, rule: &mut impl FnMut(&'static str, &str, &[Vec<Expression>])) {
    let masquerade = || vec![on::masquerade()];
    rule(OUT, "no DNAT", &[on::is_not_dnat(), vec![on::accept()]]);
    rule(OUT, "within this node", &[on::oif_is("lo"), vec![on::accept()]]);
    // Kernels before 5.7 do not know the input interface here. There this rule has no effect.
    rule(OUT, "from pods of another kubelet", &[from_other_bridge(node), vec![on::accept()]]);
    // Frames between two pods on its bridge have no input interface here.
    let to_other_bridge = [on::oif_begins_with(BRIDGE_PREFIX), on::oif_is_not(&node.bridge)].concat();
    rule(OUT, "to pods of another kubelet", &[to_other_bridge, vec![on::accept()]]);
    for family in Family::BOTH {
        let set = Set { kind: SetKind::Hairpin, family };
        let itself = vec![on::source(family, FIRST), on::destination(family, FIRST + on::words(family))];
        let itself = [itself, vec![on::lookup_at(set.name(), FIRST, None)]].concat();
        rule(OUT, "a pod reaches itself", &[on::family_is(family), itself, masquerade()]);
    }
    for cidr in &node.cidrs {
        let family = Family::of(cidr.addr());
        let from_pod = on::source_in(family, &address_bytes(cidr.network()), cidr.prefix_len());
        let from_pod = [on::family_is(family), from_pod].concat();
        if !node.filters_bridged {
            for is_node_port in [false, true] {
                let redirected = has_key(Set { kind: SetKind::Addresses, family }, is_node_port);
                let to_pod = on::oif_is(&node.bridge);
                rule(OUT, "replies on the bridge", &[from_pod.clone(), to_pod, redirected, masquerade()]);
            }
        }
        rule(OUT, "a pod keeps its address", &[from_pod, vec![on::accept()]]);
    }
    for family in Family::BOTH {
        for is_node_port in [false, true] {
            let set = Set { kind: SetKind::Masqueraded, family };
            let redirected = has_key(set, is_node_port);
            rule(OUT, "from outside", &[on::family_is(family), redirected, masquerade()]);
            let redirected = has_key(Set { kind: SetKind::Addresses, family }, is_node_port);
            let from_host = on::is_from_local_address();
            rule(OUT, "from this node", &[on::family_is(family), from_host, redirected, masquerade()]);
        }
    }
}

/// The layout of the table with these chains.
pub fn layout(node: &ServiceNode, of_services: &BTreeSet<Chain>, capacity: Capacity) -> Layout {
    let mut by_chain: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (chain, comment, _) in rules(node) {
        by_chain.entry(chain.to_owned()).or_default().push(comment);
    }
    let mut hooks: BTreeMap<String, Option<Hook>> =
        chains().into_iter().map(|(name, hook)| (name.to_owned(), hook)).collect();
    for chain in of_services {
        hooks.insert(chain.name(), None);
        by_chain.insert(chain.name(), chain.rules().into_iter().map(|(comment, _)| comment).collect());
    }
    let sets = Set::all().map(|set| (set.name().to_owned(), set.spec(capacity).0)).collect();
    Layout { chains: hooks, rules: by_chain, sets, ..Layout::default() }
}
