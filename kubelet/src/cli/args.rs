//! The words of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A Kubernetes node agent that runs Pods through a Docker engine.
#[derive(Debug, Parser)]
#[command(name = "kubelet", version, disable_help_subcommand = true)]
pub struct Cli {
    /// State of the kubelet, and the socket through which it is reached
    #[arg(long, global = true, value_name = "DIR", env = "KUBELET_ROOT_DIR")]
    pub root_dir: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the node agent (the default)
    Run(Box<RunFlags>),
    /// Read manifests as `run` would and tell what is wrong with them
    Check(Check),
    /// Show objects of the running kubelet
    Get(Get),
    /// Show a pod and what happened to it
    Describe(Describe),
    /// Print a container's log
    Logs(Logs),
    /// Run a command in a container
    Exec(Exec),
    /// Attach to a container's own streams
    Attach(Attach),
    /// Print a script that teaches a shell to complete this command
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// How to run. Every value is read as text, so that all mistakes are told at once.
#[derive(Clone, Debug, Default, Args)]
pub struct RunFlags {
    /// KubeletConfiguration (kubelet.config.k8s.io/v1beta1), YAML or JSON; flags win over it
    #[arg(long, value_name = "FILE", help_heading = "General")]
    pub config: Option<PathBuf>,
    /// The node's name, by default the host name in lower case
    #[arg(long, value_name = "NAME", help_heading = "General")]
    pub hostname_override: Option<String>,
    /// Container engine [default: unix:///var/run/docker.sock]
    #[arg(long, value_name = "ENDPOINT", help_heading = "General")]
    pub docker_endpoint: Option<String>,
    /// File or directory of manifests, watched
    #[arg(long, value_name = "PATH", help_heading = "Sources")]
    pub pod_manifest_path: Option<String>,
    /// URL of manifests, polled
    #[arg(long, value_name = "URL", help_heading = "Sources")]
    pub manifest_url: Option<String>,
    /// Header for the URL, `Name:value`; may be given often
    #[arg(long, value_name = "K:V", help_heading = "Sources")]
    pub manifest_url_header: Vec<String>,
    /// How often the path is read again [default: 20s]
    #[arg(long, value_name = "DURATION", help_heading = "Sources")]
    pub file_check_frequency: Option<String>,
    /// How often the URL is read [default: 20s]
    #[arg(long, value_name = "DURATION", help_heading = "Sources")]
    pub http_check_frequency: Option<String>,
    /// The node's address, found out by default
    #[arg(long, value_name = "IP", help_heading = "Node")]
    pub node_ip: Option<String>,
    /// Labels of the node
    #[arg(long, value_name = "K=V,...", help_heading = "Node")]
    pub node_labels: Vec<String>,
    /// Taints of the node
    #[arg(long, value_name = "K=V:EFFECT,...", help_heading = "Node")]
    pub register_with_taints: Vec<String>,
    /// Most pods on this node [default: 110]
    #[arg(long, value_name = "N", help_heading = "Node")]
    pub max_pods: Option<String>,
    /// Address of the node's API over HTTPS [default: 0.0.0.0]
    #[arg(long, value_name = "IP", help_heading = "Ports")]
    pub address: Option<String>,
    /// Port of the node's API over HTTPS, 0 for none [default: 10250]
    #[arg(long, value_name = "PORT", help_heading = "Ports")]
    pub port: Option<String>,
    /// Certificate of the node's API, with those that lead to its authority; by default the one in --cert-dir, or one of the
    /// node's own making
    #[arg(long, value_name = "FILE", help_heading = "Ports")]
    pub tls_cert_file: Option<String>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = "Ports")]
    pub tls_private_key_file: Option<String>,
    /// Who signs the certificates of clients of the node's API; without it nobody may ask anything
    #[arg(long, value_name = "FILE", help_heading = "Ports")]
    pub client_ca_file: Option<String>,
    /// How long an exec, attach or port-forward goes on in which nothing moves [default: 4h]
    #[arg(long, value_name = "DURATION", help_heading = "Ports")]
    pub streaming_connection_idle_timeout: Option<String>,
    /// Address of /healthz over plain HTTP [default: 127.0.0.1]
    #[arg(long, value_name = "IP", help_heading = "Ports")]
    pub healthz_bind_address: Option<String>,
    /// Port of /healthz, 0 for none [default: 10248]
    #[arg(long, value_name = "PORT", help_heading = "Ports")]
    pub healthz_port: Option<String>,
    /// Image that holds a pod's namespaces, by default built into this binary
    #[arg(long, value_name = "NAME", help_heading = "Pods")]
    pub sandbox_image: Option<String>,
    /// Who gives pods their network: the kubelet itself (native), the engine (docker) [default: native where it works]
    #[arg(long, value_name = "native|docker", help_heading = "Pods")]
    pub pod_network: Option<String>,
    /// Addresses of this node's pods in a native network, one range a family [default: a free /24 of 10.244.0.0/16]
    #[arg(long, value_name = "CIDR[,CIDR]", help_heading = "Pods")]
    pub pod_cidr: Option<String>,
    /// Name servers of pods with dnsPolicy ClusterFirst
    #[arg(long, value_name = "IP,...", help_heading = "Pods")]
    pub cluster_dns: Vec<String>,
    /// Domain of the cluster
    #[arg(long, value_name = "NAME", help_heading = "Pods")]
    pub cluster_domain: Option<String>,
    /// Sysctls pods may set beyond the safe ones; a name or a prefix and `*`
    #[arg(long, value_name = "NAME,...", help_heading = "Pods")]
    pub allowed_unsafe_sysctls: Vec<String>,
    /// More detail in the log: 0 to 10 [default: 2]
    #[arg(short, long, value_name = "N", help_heading = "Log")]
    pub v: Option<String>,
    /// text or json [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "Log")]
    pub log_format: Option<String>,
    /// Join the cluster of this line (`master join-string`): https://HOST:PORT#sha256:HASH
    #[arg(long, value_name = "JOIN", help_heading = "Cluster")]
    pub bootstrap: Option<String>,
    /// Join by a line without #sha256: believe whoever answers first
    #[arg(long, help_heading = "Cluster")]
    pub bootstrap_insecure_trust_on_first_use: bool,
    /// Join as the stock kubelet does: by a kubeconfig with a bootstrap token
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub bootstrap_kubeconfig: Option<String>,
    /// How the node reaches its cluster; written on joining [default: ROOT-DIR/kubeconfig]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<String>,
    /// Certificates and keys of the node [default: ROOT-DIR/pki]
    #[arg(long, value_name = "DIR", help_heading = "Cluster")]
    pub cert_dir: Option<String>,
}

/// Read manifests.
#[derive(Clone, Debug, Args)]
pub struct Check {
    /// Files, directories, URLs, or - for standard input; all of them together are one node's
    #[arg(value_name = "FILE|DIR|URL|-", required = true)]
    pub from: Vec<String>,
    /// How to tell it
    #[arg(long, value_name = "text|json", default_value = "text")]
    pub format: CheckFormat,
    /// The node they are for, by default this one
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
}

/// How findings are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// One line each, as compilers do.
    Text,
    /// One JSON object.
    Json,
}

/// Which namespace is meant.
#[derive(Clone, Debug, Args)]
pub struct InNamespace {
    /// The namespace
    #[arg(short, long, value_name = "NS", default_value = "default")]
    pub namespace: String,
}

/// Show objects.
#[derive(Clone, Debug, Args)]
pub struct Get {
    /// pods (po), nodes (no), events (ev), configmaps (cm) or secrets
    #[arg(value_name = "RESOURCE")]
    pub resource: String,
    /// Only these
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Where
    #[command(flatten)]
    pub place: InNamespace,
    /// All namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// How
    #[arg(short, long, value_name = "wide|json|yaml|name")]
    pub output: Option<Output>,
    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Only objects with these fields
    #[arg(long, value_name = "SELECTOR")]
    pub field_selector: Option<String>,
    /// No line of column heads
    #[arg(long)]
    pub no_headers: bool,
    /// A column of labels
    #[arg(long)]
    pub show_labels: bool,
    /// Go on as things change
    #[arg(short, long)]
    pub watch: bool,
}

/// Show a pod and what happened to it.
#[derive(Clone, Debug, Args)]
pub struct Describe {
    /// `pod`, or `pod/NAME`
    #[arg(value_name = "pod")]
    pub resource: String,
    /// Only these
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Where
    #[command(flatten)]
    pub place: InNamespace,
}

/// Print a container's log.
#[derive(Clone, Debug, Args)]
pub struct Logs {
    /// The pod, by its name here or in its manifest
    #[arg(value_name = "POD")]
    pub pod: String,
    /// The container, when the pod has several
    #[arg(value_name = "CONTAINER")]
    pub container_last: Option<String>,
    /// The container, when the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Where
    #[command(flatten)]
    pub place: InNamespace,
    /// Go on as it grows
    #[arg(short, long)]
    pub follow: bool,
    /// That of the container before its last restart
    #[arg(short, long)]
    pub previous: bool,
    /// Only the last N lines; -1 for all
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub tail: Option<String>,
    /// Only what is younger, like 10s, 5m or 2h
    #[arg(long, value_name = "DURATION")]
    pub since: Option<String>,
    /// Only what was written after, in RFC 3339
    #[arg(long, value_name = "TIME", conflicts_with = "since")]
    pub since_time: Option<String>,
    /// Each line with its time
    #[arg(long)]
    pub timestamps: bool,
    /// No more than so many bytes
    #[arg(long, value_name = "N")]
    pub limit_bytes: Option<String>,
}

/// A container to talk to.
#[derive(Clone, Debug, Args)]
pub struct Session {
    /// The pod, by its name here or in its manifest
    #[arg(value_name = "POD")]
    pub pod: String,
    /// The container, when the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Where
    #[command(flatten)]
    pub place: InNamespace,
    /// Pass standard input on
    #[arg(short = 'i', long)]
    pub stdin: bool,
}

/// Run a command in a container.
#[derive(Clone, Debug, Args)]
pub struct Exec {
    /// Whom
    #[command(flatten)]
    pub session: Session,
    /// Give it a terminal
    #[arg(short, long)]
    pub tty: bool,
    /// The command, after `--`
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<String>,
}

/// Attach to a container's own streams.
#[derive(Clone, Debug, Args)]
pub struct Attach {
    /// Whom
    #[command(flatten)]
    pub session: Session,
    /// The container has a terminal
    #[arg(short, long)]
    pub tty: bool,
}

/// How objects are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// kind/name
    Name,
}
