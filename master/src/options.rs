//! Every setting of a master that has an effect.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use apiserver::storage::etcd::Endpoint;
use ipnet::{IpNet, Ipv4Net};

use crate::pki::Lives;
use crate::pod_ranges::PodRange;

/// Where a master keeps its state when nobody says otherwise.
pub const DATA_DIR: &str = "/var/lib/master";
/// The port of the API when nobody says otherwise.
pub const SECURE_PORT: u16 = 6443;
/// The addresses of services when nobody says otherwise.
pub const SERVICES: ServiceRange =
    ServiceRange { network: IpAddr::V4(Ipv4Addr::new(10, 96, 0, 0)), bits: 12 };

/// The addresses of pods when nobody says otherwise: flannel's and kubeadm's usual ones, which nodes without a cluster take theirs
/// from, too.
pub const PODS: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 16));
/// The length of the prefix of what a node gets of them, as the stock controller manager has it.
const PIECE_V4: u8 = 24;
const PIECE_V6: u8 = 64;

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Certificates, store, admin.kubeconfig.
    pub data_dir: PathBuf,
    /// Where the API is served.
    pub address: SocketAddr,
    /// What nodes and kubeconfigs are told; found out when absent.
    pub advertise_address: Option<IpAddr>,
    /// More names and addresses of the serving certificate.
    pub tls_san: Vec<String>,
    /// The addresses of the cluster's services, a range a family.
    pub service_ranges: Vec<ServiceRange>,
    /// The addresses of the cluster's pods.
    pub pods: PodAddresses,
    /// The domain of the cluster's services.
    pub cluster_domain: String,
    /// Where objects are kept.
    pub storage: Storage,
    /// Where the etcd is, for those who keep them there.
    pub etcd: Etcd,
    /// Who becomes a node.
    pub approval: Approval,
    /// How a node registers.
    pub nodes: NodeAdmission,
    /// When a node that is silent loses its pods.
    pub lifecycle: NodeLifecycle,
    /// How long certificates live.
    pub lives: Lives,
    /// Which address of a node is taken, the first that it has.
    pub kubelet_addresses: Vec<AddressType>,
    /// Which controllers run inside.
    pub controllers: Controllers,
    /// Gates that new pods get, the first to be taken off first.
    pub scheduling_gates: Vec<String>,
    /// Whether the scheduler runs inside.
    pub scheduler: bool,
    /// What is set of it, where that is in a file.
    pub scheduler_config: Option<PathBuf>,
}

/// What an address of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressType {
    /// The name of the machine.
    Hostname,
    /// A name inside the cluster.
    InternalDns,
    /// An address inside the cluster.
    InternalIp,
    /// A name outside.
    ExternalDns,
    /// An address outside.
    ExternalIp,
}

impl AddressType {
    /// All of them, in the order in which the stock server prefers them.
    pub const PREFERRED: [Self; 5] =
        [Self::Hostname, Self::InternalDns, Self::InternalIp, Self::ExternalDns, Self::ExternalIp];

    /// The order when nobody says otherwise, kubeadm's with the rest behind it: a name that a kubelet registers is one of its machine
    /// alone as a rule, which no DNS knows.
    pub const USUAL: [Self; 5] =
        [Self::InternalIp, Self::ExternalIp, Self::Hostname, Self::InternalDns, Self::ExternalDns];

    /// As a Node has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hostname => "Hostname",
            Self::InternalDns => "InternalDNS",
            Self::InternalIp => "InternalIP",
            Self::ExternalDns => "ExternalDNS",
            Self::ExternalIp => "ExternalIP",
        }
    }
}

/// Who becomes a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approval {
    /// Who says it.
    pub policy: ApprovalPolicy,
    /// Whom [`ApprovalPolicy::Allowlist`] lets in.
    pub allowlist: Vec<Allowed>,
    /// A kubeconfig of whom [`ApprovalPolicy::Webhook`] asks.
    pub webhook: Option<PathBuf>,
}

/// Who says what becomes of the requests of machines that want to be nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// Nobody becomes one.
    AlwaysReject,
    /// People.
    #[default]
    Queue,
    /// Everybody becomes one.
    InsecureAlwaysApprove,
    /// A list of networks and names.
    Allowlist,
    /// Whoever gives out bootstrap tokens.
    Token,
    /// Somebody outside the cluster.
    Webhook,
}

/// A line of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Machines that ask from there: an address of the network, and how many of its bits are the network's.
    Network(IpAddr, u8),
    /// Nodes of that name; `*` stands for any letters.
    Name(String),
}

/// When a node that is silent is told so, and when it loses its pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLifecycle {
    /// How long a node may be silent.
    pub grace: Duration,
    /// How long after one node of a zone the next one loses its pods; `None` for never.
    pub eviction_pace: Option<Duration>,
}

/// As the stock controller manager has it: 50 seconds, and a node every ten.
impl Default for NodeLifecycle {
    fn default() -> Self {
        Self { grace: Duration::from_secs(50), eviction_pace: Some(Duration::from_secs(10)) }
    }
}

/// How a node registers, and which nodes are trusted to take work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAdmission {
    /// By what it is decided.
    pub mode: NodeMode,
    /// The networks that [`NodeMode::Allowlist`] lets nodes register from.
    pub allowlist: Vec<(IpAddr, u8)>,
}

/// By what it is decided whether a node registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeMode {
    /// It has a certificate of a node.
    #[default]
    Open,
    /// And it comes from a network on the list.
    Allowlist,
    /// And the key of that certificate is one that was registered for that node.
    Certificate,
}

/// Whether an address is one of a network of so many bits.
pub fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let number = |address: IpAddr| match address {
        IpAddr::V4(ip) => (32_u32, u128::from(u32::from(ip))),
        IpAddr::V6(ip) => (128, u128::from(ip)),
    };
    let ((width, own), (other, network)) = (number(address), number(network));
    let rest = width.saturating_sub(u32::from(bits));
    width == other && own.checked_shr(rest).unwrap_or(0) == network.checked_shr(rest).unwrap_or(0)
}

/// A range of addresses of services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceRange {
    /// An address of the network.
    pub network: IpAddr,
    /// How many of its first bits are the network's.
    pub bits: u8,
}

impl ServiceRange {
    /// The address of the `kubernetes` service.
    pub fn first(&self) -> IpAddr {
        self.nth(1)
    }

    /// The address so far from that of the network.
    pub fn nth(&self, offset: u128) -> IpAddr {
        let (width, number) = match self.network {
            IpAddr::V4(ip) => (32_u32, u128::from(u32::from(ip))),
            IpAddr::V6(ip) => (128, u128::from(ip)),
        };
        let mask = u128::MAX.checked_shl(width.saturating_sub(u32::from(self.bits))).unwrap_or(0);
        let number = (number & mask).wrapping_add(offset);
        match self.network {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(u32::try_from(number).unwrap_or(u32::MAX))),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(number)),
        }
    }
}

/// The addresses of the cluster's pods, and how nodes get theirs of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAddresses {
    /// Whether nodes get any from this master.
    pub are_given: bool,
    /// The ranges, one a family, the primary one first.
    pub ranges: Vec<IpNet>,
    /// The length of the prefix of what a node gets, where that is said without a family.
    pub piece: Option<u8>,
    /// The same of IPv4.
    pub piece_v4: Option<u8>,
    /// The same of IPv6.
    pub piece_v6: Option<u8>,
}

impl PodAddresses {
    /// The ranges that nodes get pieces of.
    pub fn given(&self) -> Vec<PodRange> {
        let ranges = self.ranges.iter().filter(|_| self.are_given);
        ranges.map(|network| PodRange { network: *network, piece: self.piece_of(network) }).collect()
    }

    /// The length of the prefix of a piece of that range.
    pub fn piece_of(&self, range: &IpNet) -> u8 {
        let (own, usual) = match range {
            IpNet::V4(_) => (self.piece_v4, PIECE_V4),
            IpNet::V6(_) => (self.piece_v6, PIECE_V6),
        };
        own.or(self.piece).unwrap_or(usual)
    }
}

impl Default for PodAddresses {
    fn default() -> Self {
        Self { are_given: true, ranges: vec![PODS], piece: None, piece_v4: None, piece_v6: None }
    }
}

/// As people write it: `10.96.0.0/12`.
impl fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.nth(0), self.bits)
    }
}

/// A kind of store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// A file in the directory of the master.
    #[default]
    Embedded,
    /// An etcd.
    Etcd,
}

/// The way to an etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Etcd {
    /// Its members.
    pub servers: Vec<Endpoint>,
    /// The authority of their certificates.
    pub authority: Option<PathBuf>,
    /// The certificate that is shown to them.
    pub certificate: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

/// Which controllers are to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    /// All of them.
    #[default]
    All,
    /// None.
    None,
    /// These.
    Only(Vec<String>),
    /// All but these.
    Without(Vec<String>),
}

impl Controllers {
    /// True when the one of that name is to run.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::None => false,
            Self::Only(names) => names.iter().any(|own| own == name),
            Self::Without(names) => names.iter().all(|other| other != name),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from(DATA_DIR),
            address: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), SECURE_PORT),
            advertise_address: None,
            tls_san: Vec::new(),
            service_ranges: vec![SERVICES],
            pods: PodAddresses::default(),
            cluster_domain: "cluster.local".to_owned(),
            storage: Storage::default(),
            etcd: Etcd::default(),
            approval: Approval::default(),
            nodes: NodeAdmission::default(),
            lifecycle: NodeLifecycle::default(),
            lives: Lives::default(),
            kubelet_addresses: AddressType::USUAL.to_vec(),
            controllers: Controllers::All,
            scheduling_gates: Vec::new(),
            scheduler: true,
            scheduler_config: None,
        }
    }
}
