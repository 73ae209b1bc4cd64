//! Command-line arguments.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A lightweight Kubernetes control plane.
#[derive(Debug, Parser)]
#[command(name = "master", version, disable_help_subcommand = true, args_override_self = true)]
pub struct Cli {
    /// Data directory: certificates, store, admin.kubeconfig [default: /var/lib/master]
    #[arg(long, global = true, value_name = "DIR", env = "MASTER_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// The subcommand.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Subcommands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the control plane (the default)
    Run(Box<RunFlags>),
    /// Run only the controllers, for a master that runs without them
    Controllers(Controllers),
    /// Run only the scheduler, beside one or more masters; leader election lets one schedule at a time
    Scheduler(Scheduler),
    /// Print a kubeconfig with a new client certificate for a user
    Kubeconfig(Kubeconfig),
    /// Print the join string for nodes
    JoinString,
    /// Print the file that `master discovery` serves to joining nodes; it contains a private key
    ClusterInfo(ClusterInfo),
    /// Serve cluster-info to joining nodes from a host outside the cluster, as the master does at
    /// /bootstrap/v1/cluster-info
    Discovery(Discovery),
    /// Check the health of the cluster and print each finding with its cause and remedy
    Check(Check),
    /// Create a new root CA beside the current one, which stays trusted until it is retired
    RotateCa(RotateCa),
    /// Write all objects of the running master to a new file
    Backup(Backup),
    /// Create the store of a stopped master from a backup
    Restore(Restore),
}

/// Arguments of `check`.
#[derive(Clone, Debug, Args)]
pub struct Check {
    /// What to check, by default the whole cluster
    #[command(subcommand)]
    pub what: Option<CheckWhat>,
    /// Kubeconfig of the master, by default admin.kubeconfig in the data directory; with this flag alone no data
    /// directory is read
    #[arg(long, value_name = "FILE", global = true)]
    pub kubeconfig: Option<PathBuf>,
    /// Output format
    #[arg(long, value_name = "text|json", default_value = "text")]
    pub format: CheckFormat,
}

/// What `check` examines instead of the whole cluster.
#[derive(Clone, Debug, Subcommand)]
pub enum CheckWhat {
    /// Print which NetworkPolicies allow or block a connection; exit 1 if it is blocked
    Connection(CheckConnection),
}

/// Arguments of `check connection`.
#[derive(Clone, Debug, Args)]
pub struct CheckConnection {
    /// Client: a pod or an address
    #[arg(long, value_name = "NAMESPACE/POD")]
    pub from: String,
    /// Server, with the number or name of its port; the protocol is TCP by default
    #[arg(long, value_name = "NAMESPACE/POD:PORT[/PROTOCOL]")]
    pub to: String,
}

/// Output formats of `check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// One line per finding.
    Text,
    /// One JSON object.
    Json,
}

/// Arguments of `rotate-ca`.
#[derive(Clone, Copy, Debug, Args)]
pub struct RotateCa {
    /// Only create a new intermediate CA below the current root
    #[arg(long)]
    pub intermediate: bool,
    /// Retire the old root CA: certificates that it signed become invalid
    #[arg(long, conflicts_with = "intermediate")]
    pub retire: bool,
    /// Retire it even if this locks nodes out, or if that is unknown
    #[arg(long, requires = "retire")]
    pub force: bool,
}

/// Arguments of `backup`.
#[derive(Clone, Debug, Args)]
pub struct Backup {
    /// The file to create
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Arguments of `restore`.
#[derive(Clone, Debug, Args)]
pub struct Restore {
    /// A file created by `master backup`
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Replace an existing store, which is moved aside
    #[arg(long)]
    pub replace: bool,
}

/// Arguments of `controllers`.
#[derive(Clone, Debug, Args)]
pub struct Controllers {
    /// Kubeconfig of the master, as `master kubeconfig` prints it
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// Controllers to run: all (*), some, or all but some (*,-NAME) [default: *]
    #[arg(long, value_name = "LIST")]
    pub controllers: Option<String>,
    /// Time without heartbeats after which a node is marked as unreachable; at least 1s [default: 50s]
    #[arg(long, value_name = "DURATION")]
    pub node_monitor_grace_period: Option<String>,
    /// Nodes per second and zone whose pods are evicted when nodes are unreachable; 0 for none [default: 0.1]
    #[arg(long, value_name = "RATE")]
    pub node_eviction_rate: Option<String>,
}

/// Arguments of `scheduler`.
#[derive(Clone, Debug, Args)]
pub struct Scheduler {
    /// Kubeconfig of the master, as `master kubeconfig --user system:kube-scheduler` prints it
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// A KubeSchedulerConfiguration: profiles with their scoring, and extenders
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Arguments of `cluster-info`.
#[derive(Clone, Debug, Args)]
pub struct ClusterInfo {
    /// DNS names and IP addresses of that host
    #[arg(long, value_name = "NAME,...", required = true)]
    pub tls_san: Vec<String>,
    /// Write to this file, readable by its owner only (0600), instead of printing
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `discovery`.
#[derive(Clone, Debug, Args)]
pub struct Discovery {
    /// The file that `master cluster-info` printed; it is reloaded when it changes
    #[arg(long, value_name = "FILE")]
    pub cluster_info: PathBuf,
    /// Address to listen on, TLS only
    #[arg(long, value_name = "ADDR")]
    pub listen: SocketAddr,
}

/// Arguments of `kubeconfig`.
#[derive(Clone, Debug, Args)]
pub struct Kubeconfig {
    /// User name
    #[arg(long, value_name = "NAME")]
    pub user: String,
    /// Group of the user; can be repeated
    #[arg(long, value_name = "G")]
    pub group: Vec<String>,
    /// Write to this file, readable by its owner only (0600), instead of printing
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `run`. All values are strings, so that all errors can be reported at once.
#[derive(Clone, Debug, Default, Args)]
pub struct RunFlags {
    /// MasterConfiguration file, YAML or JSON, with these flags in camel case; flags take precedence
    #[arg(long, value_name = "FILE", help_heading = "General")]
    pub config: Option<PathBuf>,
    /// Address of the API server [default: 0.0.0.0]
    #[arg(long, value_name = "IP", help_heading = "API")]
    pub bind_address: Option<String>,
    /// Port of the API server, TLS only [default: 6443]
    #[arg(long, value_name = "PORT", help_heading = "API")]
    pub secure_port: Option<String>,
    /// Address of the API server for nodes and kubeconfigs; detected by default
    #[arg(long, value_name = "IP", help_heading = "API")]
    pub advertise_address: Option<String>,
    /// Additional DNS names and IP addresses of the serving certificate
    #[arg(long, value_name = "NAME,...", help_heading = "API")]
    pub tls_san: Vec<String>,
    /// Admission plugins to run in addition to the default set (docs/access.md)
    #[arg(long, value_name = "NAME,...", help_heading = "API")]
    pub enable_admission_plugins: Vec<String>,
    /// Admission plugins of the default set that do not run
    #[arg(long, value_name = "NAME,...", help_heading = "API")]
    pub disable_admission_plugins: Vec<String>,
    /// Storage backend: embedded (a file in the data directory) or etcd [default: embedded]
    #[arg(long, value_name = "STORE", help_heading = "Store")]
    pub storage: Option<String>,
    /// URLs of the etcd members
    #[arg(long, value_name = "URL,...", help_heading = "Store")]
    pub etcd_servers: Vec<String>,
    /// CA certificate of etcd
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    pub etcd_cafile: Option<String>,
    /// Client certificate for etcd
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    pub etcd_certfile: Option<String>,
    /// Client key for etcd
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    pub etcd_keyfile: Option<String>,
    /// Approval of node CSRs: always-reject, queue (administrators decide), insecure-always-approve, allowlist, token
    /// or webhook [default: queue]
    #[arg(long, value_name = "POLICY", help_heading = "Nodes")]
    pub csr_approval_policy: Option<String>,
    /// For allowlist: networks of the requesting machines, and node names, in which * matches any characters
    #[arg(long, value_name = "CIDR|NAME,...", help_heading = "Nodes")]
    pub csr_approval_allowlist: Vec<String>,
    /// For webhook: kubeconfig of the webhook server
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    pub csr_approval_webhook: Option<String>,
    /// Longest lifetime of certificates requested by a CSR; at least 60s [default: 8760h0m0s]
    #[arg(long, value_name = "DURATION", help_heading = "Nodes")]
    pub cluster_signing_duration: Option<String>,
    /// Lifetime of the serving certificate, which is renewed when a third is left; at least 60s [default: 8760h0m0s]
    #[arg(long, value_name = "DURATION", help_heading = "API")]
    pub serving_cert_duration: Option<String>,
    /// Preferred address types for connections to kubelets [default:
    /// InternalIP,ExternalIP,Hostname,InternalDNS,ExternalDNS]
    #[arg(long, value_name = "TYPE,...", help_heading = "Nodes")]
    pub kubelet_preferred_address_types: Vec<String>,
    /// Which nodes may register: open (any with a certificate), allowlist, or certificate (registered keys only)
    /// [default: open]
    #[arg(long, value_name = "HOW", help_heading = "Nodes")]
    pub node_admission: Option<String>,
    /// For allowlist: networks that nodes may register from
    #[arg(long, value_name = "CIDR,...", help_heading = "Nodes")]
    pub node_allowlist: Vec<String>,
    /// Time without heartbeats after which a node is marked as unreachable; at least 1s [default: 50s]
    #[arg(long, value_name = "DURATION", help_heading = "Nodes")]
    pub node_monitor_grace_period: Option<String>,
    /// Nodes per second and zone whose pods are evicted when nodes are unreachable; 0 for none [default: 0.1]
    #[arg(long, value_name = "RATE", help_heading = "Nodes")]
    pub node_eviction_rate: Option<String>,
    /// Pod CIDR of the cluster, one per IP family, from which every node gets a part [default: 10.244.0.0/16]
    #[arg(long, value_name = "CIDR,...", help_heading = "Cluster")]
    pub cluster_cidr: Vec<String>,
    /// Allocate a pod CIDR to every node; false if a network plugin does so [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Cluster")]
    pub allocate_node_cidrs: Option<String>,
    /// Prefix length of a node's pod CIDR [default: 24, for IPv6 64]
    #[arg(long, value_name = "BITS", help_heading = "Cluster")]
    pub node_cidr_mask_size: Option<String>,
    /// Prefix length of a node's IPv4 pod CIDR in a dual-stack cluster
    #[arg(long, value_name = "BITS", help_heading = "Cluster")]
    pub node_cidr_mask_size_ipv4: Option<String>,
    /// Prefix length of a node's IPv6 pod CIDR in a dual-stack cluster
    #[arg(long, value_name = "BITS", help_heading = "Cluster")]
    pub node_cidr_mask_size_ipv6: Option<String>,
    /// Service CIDR; its first address belongs to the API server [default: 10.96.0.0/12]
    #[arg(long, value_name = "CIDR,...", help_heading = "Cluster")]
    pub service_cluster_ip_range: Vec<String>,
    /// DNS domain of the cluster [default: cluster.local]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub cluster_domain: Option<String>,
    /// Controllers to run in this process: all (*), some, all but some (*,-NAME) or none [default: *]
    #[arg(long, value_name = "LIST|none", help_heading = "Cluster")]
    pub controllers: Option<String>,
    /// Scheduling gates that new pods get, one for each pod initializer, in the order in which the initializers run (docs/pod-initializers.md)
    #[arg(long, value_name = "NAME,...", help_heading = "Cluster")]
    pub scheduling_gates: Vec<String>,
    /// Run the scheduler in this process: true or false [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Cluster")]
    pub scheduler: Option<String>,
    /// KubeSchedulerConfiguration of that scheduler: profiles with their scoring, and extenders
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub scheduler_config: Option<String>,
    /// Directory with manifests to apply; objects that leave it are deleted (docs/addons.md)
    #[arg(long, value_name = "DIR", help_heading = "Cluster")]
    pub addons: Option<String>,
    /// Log verbosity: 0 warnings, 2 changes, 4 rejected requests and interrupted watches, 6 every request; up to 10
    /// [default: 2]
    #[arg(short, long, value_name = "N", help_heading = "Log")]
    pub v: Option<String>,
    /// Log format: text or json [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "Log")]
    pub log_format: Option<String>,
}
