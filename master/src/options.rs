//! Options of the master.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub use apiserver::admission::ServiceRange;
use apiserver::storage::etcd::Endpoint;
use ipnet::{IpNet, Ipv4Net};

use crate::pki::Lifetimes;
use crate::pod_cidrs::ClusterCidr;

/// Default data directory.
pub const DATA_DIR: &str = "/var/lib/master";
/// Default port of the API server.
pub const SECURE_PORT: u16 = 6443;
/// Default service CIDR.
pub const SERVICES: ServiceRange = ServiceRange::DEFAULT;

/// Default pod CIDR, as in flannel and kubeadm. Nodes without a cluster use it too.
pub const PODS: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 244, 0, 0), 16));
/// Default prefix length of a node's IPv4 pod CIDR, as in the stock controller manager.
const PIECE_V4: u8 = 24;
/// Default prefix length of a node's IPv6 pod CIDR, as in the stock controller manager.
const PIECE_V6: u8 = 64;

/// The options of `master run`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Directory for certificates, the embedded store and kubeconfigs.
    pub data_dir: PathBuf,
    /// Listen address of the API server.
    pub address: SocketAddr,
    /// Address for nodes and kubeconfigs. `None` to detect it.
    pub advertise_address: Option<IpAddr>,
    /// Additional names and addresses of the serving certificate.
    pub tls_san: Vec<String>,
    /// Service CIDRs, one per IP family.
    pub service_ranges: Vec<ServiceRange>,
    /// Pod CIDRs and their allocation.
    pub pods: PodAddresses,
    /// DNS domain of the cluster.
    pub cluster_domain: String,
    /// Storage backend.
    pub storage: Storage,
    /// Connection to etcd.
    pub etcd: Etcd,
    /// Approval of node CSRs.
    pub approval: Approval,
    /// Admission plugins that users enable and disable.
    pub admission_plugins: AdmissionPlugins,
    /// Which nodes may register.
    pub nodes: NodeAdmission,
    /// Grace period and eviction rate for unreachable nodes.
    pub lifecycle: NodeLifecycle,
    /// Lifetimes of certificates.
    pub lifetimes: Lifetimes,
    /// Node address types for kubelet connections, in order of preference.
    pub kubelet_addresses: Vec<AddressType>,
    /// Controllers that run in this process.
    pub controllers: Controllers,
    /// Scheduling gates that are added to new pods, in the order of their removal.
    pub scheduling_gates: Vec<String>,
    /// Whether the scheduler runs in this process.
    pub scheduler: bool,
    /// KubeSchedulerConfiguration file.
    pub scheduler_config: Option<PathBuf>,
    /// Directory with manifests that are applied. `None` for none.
    pub addons: Option<PathBuf>,
}

/// Admission plugins that differ from the default set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdmissionPlugins {
    /// Plugins to run in addition to the default set.
    pub enabled: Vec<String>,
    /// Plugins of the default set that do not run.
    pub disabled: Vec<String>,
}

/// The type of a node address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressType {
    /// The type `Hostname`.
    Hostname,
    /// The type `InternalDNS`.
    InternalDns,
    /// The type `InternalIP`.
    InternalIp,
    /// The type `ExternalDNS`.
    ExternalDns,
    /// The type `ExternalIP`.
    ExternalIp,
}

impl AddressType {
    /// All types, in the default order of the stock API server.
    pub const PREFERRED: [Self; 5] =
        [Self::Hostname, Self::InternalDns, Self::InternalIp, Self::ExternalDns, Self::ExternalIp];

    /// The default of `--kubelet-preferred-address-types` here: the types of kubeadm, then the other types. `Hostname`
    /// is not first, because the host name of a node usually does not resolve on other machines.
    pub const USUAL: [Self; 5] =
        [Self::InternalIp, Self::ExternalIp, Self::Hostname, Self::InternalDns, Self::ExternalDns];

    /// The name in Node objects.
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

/// Approval of node CSRs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Approval {
    pub policy: ApprovalPolicy,
    /// Entries for [`ApprovalPolicy::Allowlist`].
    pub allowlist: Vec<Allowed>,
    /// Kubeconfig for [`ApprovalPolicy::Webhook`].
    pub webhook: Option<PathBuf>,
}

/// How the CSRs of new nodes are approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalPolicy {
    /// All CSRs are denied.
    AlwaysReject,
    /// Administrators decide.
    #[default]
    Queue,
    InsecureAlwaysApprove,
    /// CSRs that match a list are approved.
    Allowlist,
    /// CSRs with a bootstrap token are approved.
    Token,
    /// A webhook decides.
    Webhook,
}

/// An entry of the allowlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// CSRs from this network (address and prefix length).
    Network(IpAddr, u8),
    /// Nodes with this name. `*` matches any characters.
    Name(String),
}

/// Settings of the node lifecycle controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLifecycle {
    /// Time without heartbeats after which a node is marked as unreachable.
    pub grace: Duration,
    /// Interval between the evictions of two nodes of a zone. `None` disables evictions.
    pub eviction_pace: Option<Duration>,
}

/// The stock defaults: 50 s, and the pods of one node every 10 s.
impl Default for NodeLifecycle {
    fn default() -> Self {
        Self { grace: Duration::from_secs(50), eviction_pace: Some(Duration::from_secs(10)) }
    }
}

/// Which nodes may register and are trusted to run pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAdmission {
    /// The criterion that nodes must meet.
    pub mode: NodeMode,
    /// Networks for [`NodeMode::Allowlist`].
    pub allowlist: Vec<(IpAddr, u8)>,
}

/// Criterion for node registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeMode {
    /// The node needs a valid node certificate.
    #[default]
    Open,
    /// The node also needs an address in the allowlist.
    Allowlist,
    /// The node also needs a registered public key.
    Certificate,
}

/// Whether an address is in a network.
pub fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    ServiceRange { network, bits }.contains(address)
}

/// Pod CIDRs, and their allocation to nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAddresses {
    /// Whether this master allocates pod CIDRs to nodes.
    pub are_given: bool,
    /// Pod CIDRs, one per IP family, the primary one first.
    pub ranges: Vec<IpNet>,
    /// Prefix length of node pod CIDRs, for either family.
    pub piece: Option<u8>,
    /// Prefix length of IPv4 node pod CIDRs.
    pub piece_v4: Option<u8>,
    /// Prefix length of IPv6 node pod CIDRs.
    pub piece_v6: Option<u8>,
}

impl PodAddresses {
    /// The cluster CIDRs from which pod CIDRs are allocated.
    pub fn given(&self) -> Vec<ClusterCidr> {
        let ranges = self.ranges.iter().filter(|_| self.are_given);
        ranges
            .map(|network| ClusterCidr { network: *network, node_mask_size: self.piece_of(network) })
            .collect()
    }

    /// Prefix length of the node pod CIDRs in a range.
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

/// Storage backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// A database file in the data directory.
    #[default]
    Embedded,
    /// An etcd cluster.
    Etcd,
}

/// Connection to etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Etcd {
    /// URLs of the members.
    pub servers: Vec<Endpoint>,
    /// CA certificate.
    pub authority: Option<PathBuf>,
    /// Client certificate.
    pub certificate: Option<PathBuf>,
    /// Client key.
    pub key: Option<PathBuf>,
}

/// The controllers that run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    #[default]
    All,
    None,
    Only(Vec<String>),
    /// All except the listed ones.
    Without(Vec<String>),
}

impl Controllers {
    /// True if the controller is selected.
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
            admission_plugins: AdmissionPlugins::default(),
            nodes: NodeAdmission::default(),
            lifecycle: NodeLifecycle::default(),
            lifetimes: Lifetimes::default(),
            kubelet_addresses: AddressType::USUAL.to_vec(),
            controllers: Controllers::All,
            scheduling_gates: Vec::new(),
            scheduler: true,
            scheduler_config: None,
            addons: None,
        }
    }
}
