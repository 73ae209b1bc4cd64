//! The words of the command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A lightweight Kubernetes control plane.
#[derive(Debug, Parser)]
#[command(name = "master", version, disable_help_subcommand = true, args_override_self = true)]
pub struct Cli {
    /// State of the master: certificates, store, admin.kubeconfig [default: /var/lib/master]
    #[arg(long, global = true, value_name = "DIR", env = "MASTER_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the control plane (the default)
    Run(Box<RunFlags>),
    /// Run the controllers alone, against a master that runs without them
    Controllers(Controllers),
    /// Run the scheduler alone, beside a master or more; one scheduler works at a time
    Scheduler(Scheduler),
    /// Print a kubeconfig with a new client certificate for a person
    Kubeconfig(Kubeconfig),
    /// Print the one line that a node needs to join
    JoinString,
    /// Print the file from which `master discovery` tells nodes of this cluster; it holds a key
    ClusterInfo(ClusterInfo),
    /// Tell nodes of a cluster from a host outside it, as the master does at /bootstrap/v1/cluster-info
    Discovery(Discovery),
    /// Look whether the cluster is healthy, and say of each finding why it is so and what to do
    Check(Check),
    /// Make a new root authority beside the one there is, which is believed until it is retired
    RotateCa(RotateCa),
    /// Write all objects of the running master into a new file
    Backup(Backup),
    /// Make the store of a master that does not run from a backup
    Restore(Restore),
}

/// Which cluster, and how to tell it.
#[derive(Clone, Debug, Args)]
pub struct Check {
    /// Where the master is, as `master kubeconfig` writes it, by default admin.kubeconfig of the data-dir; with it alone no
    /// directory is looked into
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// How to tell it
    #[arg(long, value_name = "text|json", default_value = "text")]
    pub format: CheckFormat,
}

/// How findings are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// A line a finding, for people.
    Text,
    /// One JSON object.
    Json,
}

/// How far.
#[derive(Clone, Copy, Debug, Args)]
pub struct RotateCa {
    /// Make a new intermediate authority only, below the root there is
    #[arg(long)]
    pub intermediate: bool,
    /// Take away the root of before: what it signed is void from then on
    #[arg(long, conflicts_with = "intermediate")]
    pub retire: bool,
    /// Take it away although nodes would be shut out, or nobody can say whether any would be
    #[arg(long, requires = "retire")]
    pub force: bool,
}

/// Where to.
#[derive(Clone, Debug, Args)]
pub struct Backup {
    /// The file to make
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// From where.
#[derive(Clone, Debug, Args)]
pub struct Restore {
    /// A file that `master backup` made
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Take the place of a store that is there already, which is put aside and kept
    #[arg(long)]
    pub replace: bool,
}

/// Which, and where.
#[derive(Clone, Debug, Args)]
pub struct Controllers {
    /// Where the master is, as `master kubeconfig` writes it
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// Which: all (*), some, or all but some (*,-NAME) [default: *]
    #[arg(long, value_name = "LIST")]
    pub controllers: Option<String>,
    /// How long a node may be silent until its Node says so; 1s and more [default: 50s]
    #[arg(long, value_name = "DURATION")]
    pub node_monitor_grace_period: Option<String>,
    /// How many nodes a second of a zone lose their pods, where nodes are silent; 0 for none [default: 0.1]
    #[arg(long, value_name = "RATE")]
    pub node_eviction_rate: Option<String>,
}

/// Where.
#[derive(Clone, Debug, Args)]
pub struct Scheduler {
    /// Where the master is, as `master kubeconfig --user system:kube-scheduler` writes it
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: PathBuf,
    /// A KubeSchedulerConfiguration: names of schedulers, and how each scores
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// For which host.
#[derive(Clone, Debug, Args)]
pub struct ClusterInfo {
    /// Names and addresses under which nodes reach that host
    #[arg(long, value_name = "NAME,...", required = true)]
    pub tls_san: Vec<String>,
}

/// Of which cluster, and where.
#[derive(Clone, Debug, Args)]
pub struct Discovery {
    /// The file that `master cluster-info` printed; read again when it changes
    #[arg(long, value_name = "FILE")]
    pub cluster_info: PathBuf,
    /// Where to listen, TLS only
    #[arg(long, value_name = "ADDR")]
    pub listen: SocketAddr,
}

/// For whom.
#[derive(Clone, Debug, Args)]
pub struct Kubeconfig {
    /// The user's name
    #[arg(long, value_name = "NAME")]
    pub user: String,
    /// A group the user is in; may be given often
    #[arg(long, value_name = "G")]
    pub group: Vec<String>,
}

/// How to run. Every value is read as text, so that all mistakes are told at once. What has no effect yet is hidden.
#[derive(Clone, Debug, Default, Args)]
pub struct RunFlags {
    /// MasterConfiguration, YAML or JSON: these flags in camel case; flags win over it
    #[arg(long, value_name = "FILE", help_heading = "General")]
    pub config: Option<PathBuf>,
    /// Address of the API [default: 0.0.0.0]
    #[arg(long, value_name = "IP", help_heading = "API")]
    pub bind_address: Option<String>,
    /// Port of the API, TLS only [default: 6443]
    #[arg(long, value_name = "PORT", help_heading = "API")]
    pub secure_port: Option<String>,
    /// Address that nodes and kubeconfigs are told, found out by default
    #[arg(long, value_name = "IP", help_heading = "API")]
    pub advertise_address: Option<String>,
    /// More names and addresses for the serving certificate
    #[arg(long, value_name = "NAME,...", help_heading = "API")]
    pub tls_san: Vec<String>,
    /// Where objects are kept: embedded (a file in the data-dir) or etcd [default: embedded]
    #[arg(long, value_name = "STORE", help_heading = "Store")]
    pub storage: Option<String>,
    /// Where etcd is
    #[arg(long, value_name = "URL,...", help_heading = "Store")]
    pub etcd_servers: Vec<String>,
    /// Authority of etcd's certificate
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    pub etcd_cafile: Option<String>,
    /// Certificate for etcd
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    pub etcd_certfile: Option<String>,
    /// Key for etcd
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    pub etcd_keyfile: Option<String>,
    /// Who becomes a node: always-reject, queue (people decide), insecure-always-approve, allowlist, token or webhook [default: queue]
    #[arg(long, value_name = "POLICY", help_heading = "Nodes")]
    pub csr_approval_policy: Option<String>,
    /// For allowlist: networks that machines ask from, and names of nodes, in which * stands for any letters
    #[arg(long, value_name = "CIDR|NAME,...", help_heading = "Nodes")]
    pub csr_approval_allowlist: Vec<String>,
    /// For webhook: a kubeconfig whose server is asked
    #[arg(long, value_name = "FILE", help_heading = "Nodes")]
    pub csr_approval_webhook: Option<String>,
    /// How long certificates live that are asked for, at most; 60s and more [default: 8760h0m0s]
    #[arg(long, value_name = "DURATION", help_heading = "Nodes")]
    pub cluster_signing_duration: Option<String>,
    /// How long the certificate of the API lives; made anew when a third is left; 60s and more [default: 8760h0m0s]
    #[arg(long, value_name = "DURATION", help_heading = "API")]
    pub serving_cert_duration: Option<String>,
    /// Which address of a node is taken to ask its kubelet for logs and commands [default: InternalIP,ExternalIP,Hostname,InternalDNS,ExternalDNS]
    #[arg(long, value_name = "TYPE,...", help_heading = "Nodes")]
    pub kubelet_preferred_address_types: Vec<String>,
    /// How a node registers: open (whoever has a certificate), allowlist, or certificate (whose key was registered) [default: open]
    #[arg(long, value_name = "HOW", help_heading = "Nodes")]
    pub node_admission: Option<String>,
    /// For allowlist: networks that nodes register from
    #[arg(long, value_name = "CIDR,...", help_heading = "Nodes")]
    pub node_allowlist: Vec<String>,
    /// How long a node may be silent until its Node says so; 1s and more [default: 50s]
    #[arg(long, value_name = "DURATION", help_heading = "Nodes")]
    pub node_monitor_grace_period: Option<String>,
    /// How many nodes a second of a zone lose their pods, where nodes are silent; 0 for none [default: 0.1]
    #[arg(long, value_name = "RATE", help_heading = "Nodes")]
    pub node_eviction_rate: Option<String>,
    /// Addresses of pods, a range a family, of which every node gets a piece [default: 10.244.0.0/16]
    #[arg(long, value_name = "CIDR,...", help_heading = "Cluster")]
    pub cluster_cidr: Vec<String>,
    /// Whether nodes get their pieces from this master; false where a network plug-in gives them [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Cluster")]
    pub allocate_node_cidrs: Option<String>,
    /// Length of the prefix of a node's piece [default: 24, of IPv6 64]
    #[arg(long, value_name = "BITS", help_heading = "Cluster")]
    pub node_cidr_mask_size: Option<String>,
    /// The same of IPv4, where there are both
    #[arg(long, value_name = "BITS", help_heading = "Cluster")]
    pub node_cidr_mask_size_ipv4: Option<String>,
    /// The same of IPv6, where there are both
    #[arg(long, value_name = "BITS", help_heading = "Cluster")]
    pub node_cidr_mask_size_ipv6: Option<String>,
    /// Addresses of services; the first one is the API's own [default: 10.96.0.0/12]
    #[arg(long, value_name = "CIDR,...", help_heading = "Cluster")]
    pub service_cluster_ip_range: Vec<String>,
    /// Domain of the cluster [default: cluster.local]
    #[arg(long, value_name = "NAME", help_heading = "Cluster")]
    pub cluster_domain: Option<String>,
    /// Controllers that run inside: all (*), some, all but some (*,-NAME) or none [default: *]
    #[arg(long, value_name = "LIST|none", help_heading = "Cluster")]
    pub controllers: Option<String>,
    /// Gates that new pods get, one for each finalizer, in the order in which these fill in what is missing (docs/finalizers.md)
    #[arg(long, value_name = "NAME,...", help_heading = "Cluster")]
    pub scheduling_gates: Vec<String>,
    /// Whether the scheduler runs inside: true or false [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Cluster")]
    pub scheduler: Option<String>,
    /// A KubeSchedulerConfiguration for it: names of schedulers, and how each scores
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub scheduler_config: Option<String>,
    /// More detail in the log: 0 warnings, 2 what happens, 4 refused requests and watches cut off, 6 every request; up to 10 [default: 2]
    #[arg(short, long, value_name = "N", help_heading = "Log")]
    pub v: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "Log")]
    pub log_format: Option<String>,
}
