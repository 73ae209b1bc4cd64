//! Command-line arguments of `kubelet`, declared with clap.

mod clients;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use clients::{Cp, PortForward, Top, UsageColumn, Wait};

/// A Kubernetes node agent that runs Pods through a Docker engine.
#[derive(Debug, Parser)]
#[command(name = "kubelet", version, disable_help_subcommand = true)]
pub struct Cli {
    /// Directory of the kubelet's state and of its control socket
    #[arg(long, global = true, value_name = "DIR", env = "KUBELET_ROOT_DIR")]
    pub root_dir: Option<PathBuf>,
    /// The subcommand.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The subcommands of `kubelet`.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the node agent (the default)
    Run(Box<RunFlags>),
    /// Validate manifests as `run` would, and report every problem
    Check(Check),
    /// Print manifests for a Docker Compose file, and report what they do not express
    Import(Import),
    /// Show objects of the running kubelet
    Get(Get),
    /// Show details of a pod, with its events
    Describe(Describe),
    /// Push the objects of manifests to the running kubelet
    Apply(Apply),
    /// Delete pushed objects of the running kubelet
    Delete(Delete),
    /// Print a container's log
    Logs(Logs),
    /// Run a command in a container
    Exec(Exec),
    /// Attach to the streams of a container's main process
    Attach(Attach),
    /// Copy files to and from a container
    Cp(Cp),
    /// Forward local ports to a pod
    PortForward(PortForward),
    /// Show the CPU and memory usage of pods or of the node
    Top(Top),
    /// Wait until objects have a condition, or are deleted
    Wait(Wait),
    /// Print a kubeconfig with which kubectl uses the API of this node
    Kubeconfig(Kubeconfig),
    /// Print the URL of the web page of this node, with a read-only token
    Ui(Ui),
    /// Create a client certificate with which a monitoring system reads the metrics of this node
    MetricsCertificate(MetricsCertificate),
    /// Print a shell completion script for this command
    Completion {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
}

/// Flags of `kubelet run`. Values are kept as text, so that one error report lists all mistakes.
#[derive(Clone, Debug, Default, Args)]
pub struct RunFlags {
    /// KubeletConfiguration (kubelet.config.k8s.io/v1beta1), YAML or JSON; flags take precedence over it
    #[arg(long, value_name = "FILE", help_heading = "General")]
    pub config: Option<PathBuf>,
    /// Name of the node [default: the host name in lower case]
    #[arg(long, value_name = "NAME", help_heading = "General")]
    pub hostname_override: Option<String>,
    /// Endpoint of the Docker engine [default: unix:///var/run/docker.sock]
    #[arg(long, value_name = "ENDPOINT", help_heading = "General")]
    pub docker_endpoint: Option<String>,
    /// File or directory of static pod manifests, watched for changes
    #[arg(long, value_name = "PATH", help_heading = "Sources")]
    pub pod_manifest_path: Option<String>,
    /// URL of static pod manifests, polled
    #[arg(long, value_name = "URL", help_heading = "Sources")]
    pub manifest_url: Option<String>,
    /// Header of requests to the URL, `Name:value`; can be repeated
    #[arg(long, value_name = "K:V", help_heading = "Sources")]
    pub manifest_url_header: Vec<String>,
    /// Interval between scans of the manifest path [default: 20s]
    #[arg(long, value_name = "DURATION", help_heading = "Sources")]
    pub file_check_frequency: Option<String>,
    /// Interval between requests to the manifest URL [default: 20s]
    #[arg(long, value_name = "DURATION", help_heading = "Sources")]
    pub http_check_frequency: Option<String>,
    /// IP address of the node, detected by default
    #[arg(long, value_name = "IP", help_heading = "Node")]
    pub node_ip: Option<String>,
    /// Labels to set on the Node at registration
    #[arg(long, value_name = "K=V,...", help_heading = "Node")]
    pub node_labels: Vec<String>,
    /// Taints of the node
    #[arg(long, value_name = "K=V:EFFECT,...", help_heading = "Node")]
    pub register_with_taints: Vec<String>,
    /// Maximum number of pods on this node [default: 110]
    #[arg(long, value_name = "N", help_heading = "Node")]
    pub max_pods: Option<String>,
    /// Address of the kubelet's HTTPS server [default: 0.0.0.0]
    #[arg(long, value_name = "IP", help_heading = "Ports")]
    pub address: Option<String>,
    /// Port of the kubelet's HTTPS server, 0 to disable it [default: 10250]
    #[arg(long, value_name = "PORT", help_heading = "Ports")]
    pub port: Option<String>,
    /// Serving certificate with its intermediates; by default the one in --cert-dir, or a self-signed one
    #[arg(long, value_name = "FILE", help_heading = "Ports")]
    pub tls_cert_file: Option<String>,
    /// Private key of the serving certificate
    #[arg(long, value_name = "FILE", help_heading = "Ports")]
    pub tls_private_key_file: Option<String>,
    /// CA bundle for client certificates of the kubelet's HTTPS server, beside the CA of `kubelet kubeconfig` [default: the CA of the cluster]
    #[arg(long, value_name = "FILE", help_heading = "Ports")]
    pub client_ca_file: Option<String>,
    /// Idle timeout of exec, attach and port-forward sessions [default: 4h]
    #[arg(long, value_name = "DURATION", help_heading = "Ports")]
    pub streaming_connection_idle_timeout: Option<String>,
    /// Address of /healthz over plain HTTP [default: 127.0.0.1]
    #[arg(long, value_name = "IP", help_heading = "Ports")]
    pub healthz_bind_address: Option<String>,
    /// Port of /healthz, 0 to disable it [default: 10248]
    #[arg(long, value_name = "PORT", help_heading = "Ports")]
    pub healthz_port: Option<String>,
    /// Image of the sandbox (pause) container [default: built into this binary]
    #[arg(long, value_name = "NAME", help_heading = "Pods")]
    pub sandbox_image: Option<String>,
    /// Provider of the pod network: the kubelet (native) or the engine (docker) [default: native where it works]
    #[arg(long, value_name = "native|docker", help_heading = "Pods")]
    pub pod_network: Option<String>,
    /// Pod CIDR of this node in a native network, at most one per IP family [default: a free /24 of 10.244.0.0/16]
    #[arg(long, value_name = "CIDR[,CIDR]", help_heading = "Pods")]
    pub pod_cidr: Option<String>,
    /// Implementation of Services: the kubelet (nftables) or another program (none) [default: nftables with the native pod
    /// network]
    #[arg(long, value_name = "nftables|none", help_heading = "Pods")]
    pub service_proxy: Option<String>,
    /// Range of the cluster IPs of Services on a lone node, at most one per IP family [default: 10.96.0.0/12]
    #[arg(long, value_name = "CIDR[,CIDR]", help_heading = "Pods")]
    pub service_cluster_ip_range: Option<String>,
    /// Serve the Ingresses of the class `coracle` on this node of a cluster
    #[arg(long, help_heading = "Ports")]
    pub ingress: bool,
    /// Address of the Ingress controller [default: all addresses]
    #[arg(long, value_name = "IP", help_heading = "Ports")]
    pub ingress_address: Option<String>,
    /// Port of the Ingress controller for HTTP, 0 to serve none [default: 80]
    #[arg(long, value_name = "PORT", help_heading = "Ports")]
    pub ingress_http_port: Option<String>,
    /// Port of the Ingress controller for HTTPS, 0 to serve none [default: 443]
    #[arg(long, value_name = "PORT", help_heading = "Ports")]
    pub ingress_https_port: Option<String>,
    /// Name servers of pods with dnsPolicy ClusterFirst [default: the DNS server of the node]
    #[arg(long, value_name = "IP,...", help_heading = "Pods")]
    pub cluster_dns: Vec<String>,
    /// DNS domain of the cluster [default: cluster.local with the DNS server of the node]
    #[arg(long, value_name = "NAME", help_heading = "Pods")]
    pub cluster_domain: Option<String>,
    /// File with the name servers for names outside the cluster [default: /etc/resolv.conf]
    #[arg(long, value_name = "FILE", help_heading = "Pods")]
    pub resolv_conf: Option<String>,
    /// Sysctls that pods may set beyond the safe ones; a name, or a prefix followed by `*`
    #[arg(long, value_name = "NAME,...", help_heading = "Pods")]
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Thresholds below which pods are evicted at once [default: memory.available<100Mi,nodefs.available<10%,
    /// nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%]
    #[arg(long, value_name = "SIGNAL<VALUE,...", help_heading = "Eviction")]
    pub eviction_hard: Option<String>,
    /// Thresholds below which pods are evicted after a grace period
    #[arg(long, value_name = "SIGNAL<VALUE,...", help_heading = "Eviction")]
    pub eviction_soft: Option<String>,
    /// Grace periods of the soft thresholds, such as memory.available=1m30s
    #[arg(long, value_name = "SIGNAL=DURATION,...", help_heading = "Eviction")]
    pub eviction_soft_grace_period: Option<String>,
    /// How much more than a threshold must be available before the shortage is over, such as nodefs.available=2Gi
    #[arg(long, value_name = "SIGNAL=VALUE,...", help_heading = "Eviction")]
    pub eviction_minimum_reclaim: Option<String>,
    /// Longest grace period in seconds of pods that a soft threshold evicts [default: 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Eviction")]
    pub eviction_max_pod_grace_period: Option<String>,
    /// How long a pressure condition of the node stays after the shortage [default: 5m]
    #[arg(long, value_name = "DURATION", help_heading = "Eviction")]
    pub eviction_pressure_transition_period: Option<String>,
    /// Log verbosity, 0 to 10 [default: 2]
    #[arg(short, long, value_name = "N", help_heading = "Log")]
    pub v: Option<String>,
    /// Log format, text or json [default: text]
    #[arg(long, value_name = "FORMAT", help_heading = "Log")]
    pub log_format: Option<String>,
    /// Join the cluster with this join string (`master join-string`): https://HOST:PORT#sha256:HASH
    #[arg(long, value_name = "JOIN", help_heading = "Cluster")]
    pub bootstrap: Option<String>,
    /// Accept a join string without #sha256: trust the CA of the first server that answers
    #[arg(long, help_heading = "Cluster")]
    pub bootstrap_insecure_trust_on_first_use: bool,
    /// Join as the stock kubelet does, with a bootstrap token in this kubeconfig
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub bootstrap_kubeconfig: Option<String>,
    /// Kubeconfig of the node, written when it joins [default: ROOT-DIR/kubeconfig]
    #[arg(long, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<String>,
    /// Directory of the node's certificates and keys [default: ROOT-DIR/pki]
    #[arg(long, value_name = "DIR", help_heading = "Cluster")]
    pub cert_dir: Option<String>,
}

/// Arguments of `kubelet check`.
#[derive(Clone, Debug, Args)]
pub struct Check {
    /// Files, directories, URLs, or - for standard input; all are checked as manifests of one node
    #[arg(value_name = "FILE|DIR|URL|-", required = true)]
    pub from: Vec<String>,
    /// Output format
    #[arg(long, value_name = "text|json", default_value = "text")]
    pub format: CheckFormat,
    /// Name of the node the manifests are for [default: this host's name]
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
}

/// Output format of `kubelet check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// One line per problem, in the format of compiler messages.
    Text,
    /// One JSON object.
    Json,
}

/// Arguments of `kubelet import`.
#[derive(Clone, Debug, Args)]
pub struct Import {
    /// The Compose file, or - for standard input
    #[arg(value_name = "FILE|-")]
    pub file: String,
    /// Name of the project and of the pod [default: `name` of the file, or the name of its directory]
    #[arg(short, long, value_name = "NAME")]
    pub project_name: Option<String>,
    /// Activate a profile; can be repeated
    #[arg(long, value_name = "NAME")]
    pub profile: Vec<String>,
    /// File with variables for interpolation [default: .env beside the Compose file]
    #[arg(long, value_name = "FILE")]
    pub env_file: Option<PathBuf>,
    /// Directory of the host for named volumes
    #[arg(long, value_name = "DIR", default_value = "/var/lib/coracle/volumes")]
    pub volumes_dir: PathBuf,
    /// Print a Pod and a Service for each service, for a cluster, instead of one Pod for all
    #[arg(long)]
    pub pod_per_service: bool,
}

/// Arguments of `kubelet kubeconfig`.
#[derive(Clone, Debug, Args)]
pub struct Kubeconfig {
    /// Permit only reading: no Secrets, no exec, attach, cp or port-forward, no changes
    #[arg(long)]
    pub read_only: bool,
    /// URL of the node, https://HOST:PORT [default: the address and port of the running kubelet on this machine]
    #[arg(long, value_name = "URL", value_parser = server_url)]
    pub server: Option<String>,
    /// User name in the certificate [default: node-admin, or node-viewer with --read-only]
    #[arg(long, value_name = "NAME", value_parser = user_name)]
    pub name: Option<String>,
    /// Validity of the certificate in days
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub days: u16,
    /// CA of the serving certificate, if the kubelet runs with --tls-cert-file [default: the CA of this node]
    #[arg(long, value_name = "FILE")]
    pub certificate_authority: Option<PathBuf>,
    /// Write to this new file, readable by its owner only (0600), instead of printing
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `kubelet ui`.
#[derive(Clone, Debug, Args)]
pub struct Ui {
    /// URL of the node, https://HOST:PORT [default: the address and port of the running kubelet on this machine]
    #[arg(long, value_name = "URL", value_parser = server_url)]
    pub server: Option<String>,
    /// Validity of the token in hours
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u8).range(1..=24))]
    pub hours: u8,
}

/// Arguments of `kubelet metrics-certificate`.
#[derive(Clone, Debug, Args)]
pub struct MetricsCertificate {
    /// PEM file to write certificate and key to, with mode 0600; it must not exist
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// User name in the certificate
    #[arg(long, value_name = "NAME", default_value = "prometheus", value_parser = user_name)]
    pub name: String,
    /// Validity of the certificate in days
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub days: u16,
}

/// Parses the user name of a client certificate. The limit is that of X.509 (RFC 5280, ub-common-name).
fn user_name(text: &str) -> Result<String, String> {
    if text.is_empty() || text.chars().count() > 64 || text.chars().any(char::is_control) {
        return Err("a user name has 1 to 64 characters without control characters".to_owned());
    }
    if text.starts_with("system:") || text == "kube-apiserver-kubelet-client" {
        return Err("this name belongs to components of Kubernetes; choose another one".to_owned());
    }
    Ok(text.to_owned())
}

/// Parses the URL of a node.
fn server_url(text: &str) -> Result<String, String> {
    let url = text.parse::<reqwest::Url>().map_err(|error| format!("is not a URL: {error}"))?;
    let is_plain = url.username().is_empty() && url.query().is_none() && url.fragment().is_none();
    if url.scheme() != "https" || !url.has_host() || !is_plain || url.path() != "/" {
        return Err("is not the URL of a node; write https://HOST:PORT".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// The namespace flag that several subcommands share.
#[derive(Clone, Debug, Args)]
pub struct InNamespace {
    /// Namespace of the objects
    #[arg(short, long, value_name = "NS", default_value = "default")]
    pub namespace: String,
}

/// Arguments of `kubelet get`.
#[derive(Clone, Debug, Args)]
pub struct Get {
    /// pods (po), nodes (no), events (ev), configmaps (cm), secrets, services (svc) or endpointslices
    #[arg(value_name = "RESOURCE")]
    pub resource: String,
    /// Show only the objects with these names
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Namespace of the objects
    #[command(flatten)]
    pub place: InNamespace,
    /// Show the objects of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Output format
    #[arg(short, long, value_name = "wide|json|yaml|name")]
    pub output: Option<Output>,
    /// Show only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Show only objects with these field values
    #[arg(long, value_name = "SELECTOR")]
    pub field_selector: Option<String>,
    /// Omit the header line
    #[arg(long)]
    pub no_headers: bool,
    /// Add a column with all labels
    #[arg(long)]
    pub show_labels: bool,
    /// Watch for changes after the first output
    #[arg(short, long)]
    pub watch: bool,
}

/// Arguments of `kubelet describe`.
#[derive(Clone, Debug, Args)]
pub struct Describe {
    /// `pod`, or `pod/NAME`
    #[arg(value_name = "pod")]
    pub resource: String,
    /// Describe only the pods with these names
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Namespace of the pods
    #[command(flatten)]
    pub place: InNamespace,
}

/// Arguments of `kubelet apply`.
#[derive(Clone, Debug, Args)]
pub struct Apply {
    /// Manifest to apply, `-` for the standard input; can be repeated
    #[arg(short, long, value_name = "FILE", required = true)]
    pub filename: Vec<PathBuf>,
    /// Namespace of objects that name none
    #[command(flatten)]
    pub place: InNamespace,
}

/// Arguments of `kubelet delete`.
#[derive(Clone, Debug, Args)]
pub struct Delete {
    /// The resource, such as `pod`, or resource and name, such as `pod/web`
    #[arg(value_name = "RESOURCE")]
    pub resource: Option<String>,
    /// The names of the objects
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Manifest with the objects to delete, `-` for the standard input; can be repeated
    #[arg(short, long, value_name = "FILE", conflicts_with = "resource")]
    pub filename: Vec<PathBuf>,
    /// Namespace of the objects
    #[command(flatten)]
    pub place: InNamespace,
    /// Seconds that the containers get to stop
    #[arg(long, value_name = "SECONDS")]
    pub grace_period: Option<i64>,
    /// Remove the object at once, before its containers have stopped
    #[arg(long)]
    pub force: bool,
}

/// Arguments of `kubelet logs`.
#[derive(Clone, Debug, Args)]
pub struct Logs {
    /// The pod, by its full name or by its name in the manifest
    #[arg(value_name = "POD", required_unless_present = "selector", conflicts_with = "selector")]
    pub pod: Option<String>,
    /// The container; required when the pod has several
    #[arg(value_name = "CONTAINER")]
    pub container_last: Option<String>,
    /// The container; required when the pod has several
    #[arg(short, long, value_name = "NAME", conflicts_with = "all_containers")]
    pub container: Option<String>,
    /// Show the logs of all containers
    #[arg(long)]
    pub all_containers: bool,
    /// Show the logs of the pods with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Prefix each line with its pod and container
    #[arg(long)]
    pub prefix: bool,
    /// Maximum number of logs to follow at once
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub max_log_requests: usize,
    /// Continue with the other logs if one cannot be read
    #[arg(long)]
    pub ignore_errors: bool,
    /// Namespace of the pod
    #[command(flatten)]
    pub place: InNamespace,
    /// Follow the log as the container writes
    #[arg(short, long)]
    pub follow: bool,
    /// Show the log of the container's previous run
    #[arg(short, long)]
    pub previous: bool,
    /// Show only the last N lines; -1 for all [default: all, or 10 with a selector]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub tail: Option<String>,
    /// Show only lines newer than this duration, such as 10s, 5m or 2h
    #[arg(long, value_name = "DURATION")]
    pub since: Option<String>,
    /// Show only lines written after this RFC 3339 time
    #[arg(long, value_name = "TIME", conflicts_with = "since")]
    pub since_time: Option<String>,
    /// Prefix each line with its timestamp
    #[arg(long)]
    pub timestamps: bool,
    /// Stop after this many bytes
    #[arg(long, value_name = "N")]
    pub limit_bytes: Option<String>,
}

/// Arguments that `exec` and `attach` share.
#[derive(Clone, Debug, Args)]
pub struct Session {
    /// The pod, by its full name or by its name in the manifest
    #[arg(value_name = "POD")]
    pub pod: String,
    /// The container; required when the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Namespace of the pod
    #[command(flatten)]
    pub place: InNamespace,
    /// Forward standard input to the container
    #[arg(short = 'i', long)]
    pub stdin: bool,
}

/// Arguments of `kubelet exec`.
#[derive(Clone, Debug, Args)]
pub struct Exec {
    /// The container
    #[command(flatten)]
    pub session: Session,
    /// Allocate a terminal
    #[arg(short, long)]
    pub tty: bool,
    /// The command and its arguments, after `--`
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub command: Vec<String>,
}

/// Arguments of `kubelet attach`.
#[derive(Clone, Debug, Args)]
pub struct Attach {
    /// The container
    #[command(flatten)]
    pub session: Session,
    /// Use the terminal of the container
    #[arg(short, long)]
    pub tty: bool,
}

/// Output format of `kubelet get`.
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
