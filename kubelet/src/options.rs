//! Everything a person can set about a running kubelet, after flags and file have been read.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde_json::{Map, Value, json};

/// What keeps pods away that do not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its name.
    pub key: String,
    /// Its value, empty for none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// Where a cluster is, and which one it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Who tells of it, `https://HOST:PORT`; the first that answers will do.
    pub servers: Vec<String>,
    /// The SHA-256 of its authority's public key, in hex; `None` for whichever is there at first.
    pub pin: Option<String>,
}

/// How a machine becomes a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// By a line that leads to the cluster.
    Join(Join),
    /// As the stock kubelet does: by a kubeconfig with a bootstrap token or a certificate.
    Kubeconfig(PathBuf),
}

/// The cluster of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// How to get in, for a node that is not in.
    pub bootstrap: Option<Bootstrap>,
    /// How a node that is in reaches it.
    pub kubeconfig: PathBuf,
    /// Whether the node asks for its serving certificate, too.
    pub serving: bool,
}

/// Who gives pods their network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodNetwork {
    /// The kubelet.
    Native,
    /// The engine.
    Docker,
}

/// The settings of one kubelet.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name, lower case.
    pub node_name: String,
    /// The node's address; found out when `None`.
    pub node_ip: Option<IpAddr>,
    /// State on disk.
    pub root_dir: PathBuf,
    /// Certificates and keys of the node.
    pub cert_dir: PathBuf,
    /// The cluster that the node belongs to, or is to belong to; `None` for a node of its own.
    pub cluster: Option<Cluster>,
    /// `unix:///...` or `tcp://...`.
    pub docker_endpoint: String,
    /// File or directory of manifests.
    pub pod_manifest_path: Option<PathBuf>,
    /// URL of manifests.
    pub manifest_url: Option<String>,
    /// Extra headers for the URL.
    pub manifest_url_headers: Vec<(String, String)>,
    /// Rescan of the directory.
    pub file_check_frequency: Duration,
    /// Poll of the URL.
    pub http_check_frequency: Duration,
    /// The node's API over HTTPS; `None` turns it off.
    pub api_address: Option<SocketAddr>,
    /// The certificate that API shows and its key, where somebody made them.
    pub tls_files: Option<(PathBuf, PathBuf)>,
    /// Who signs the certificates of clients of that API; without it nobody may ask anything.
    pub client_ca_file: Option<PathBuf>,
    /// How long a session over that API, or a connection to a port, goes on in which nothing moves.
    pub streaming_idle: Duration,
    /// `/healthz` over plain HTTP; `None` turns it off.
    pub healthz_address: Option<SocketAddr>,
    /// Image of the sandbox; the built-in one when `None`.
    pub sandbox_image: Option<String>,
    /// Who gives pods their network; what works best here when `None`.
    pub pod_network: Option<PodNetwork>,
    /// The ranges of their addresses, one a family, the primary one first; empty for one that is free here.
    pub pod_cidrs: Vec<IpNet>,
    /// Most pods on this node.
    pub max_pods: usize,
    /// Name servers for pods of policy ClusterFirst.
    pub cluster_dns: Vec<IpAddr>,
    /// Domain of the cluster, empty for none.
    pub cluster_domain: String,
    /// Images pulled at once.
    pub max_parallel_image_pulls: usize,
    /// Labels of the node.
    pub node_labels: Vec<(String, String)>,
    /// Taints of the node.
    pub register_with_taints: Vec<Taint>,
    /// Sysctls pods may set beyond the safe ones, names or prefixes ending in `*`.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Processes a pod may have, `None` for no limit.
    pub pod_pids_limit: Option<i64>,
    /// Largest log file of a container, bytes.
    pub container_log_max_bytes: u64,
    /// Log files kept a container.
    pub container_log_max_files: u32,
}

impl Options {
    /// The stock kubelet's defaults (KubeletConfiguration v1beta1) for a node of that name.
    pub fn new(node_name: &str) -> Self {
        Self {
            node_name: node_name.to_owned(),
            node_ip: None,
            root_dir: PathBuf::from("/var/lib/kubelet"),
            cert_dir: PathBuf::from("/var/lib/kubelet/pki"),
            cluster: None,
            docker_endpoint: "unix:///var/run/docker.sock".to_owned(),
            pod_manifest_path: None,
            manifest_url: None,
            manifest_url_headers: Vec::new(),
            file_check_frequency: Duration::from_secs(20),
            http_check_frequency: Duration::from_secs(20),
            api_address: Some(SocketAddr::from(([0, 0, 0, 0], 10250))),
            tls_files: None,
            client_ca_file: None,
            streaming_idle: Duration::from_secs(4 * 60 * 60),
            healthz_address: Some(SocketAddr::from(([127, 0, 0, 1], 10248))),
            sandbox_image: None,
            pod_network: None,
            pod_cidrs: Vec::new(),
            max_pods: 110,
            cluster_dns: Vec::new(),
            cluster_domain: String::new(),
            max_parallel_image_pulls: 5,
            node_labels: Vec::new(),
            register_with_taints: Vec::new(),
            allowed_unsafe_sysctls: Vec::new(),
            pod_pids_limit: None,
            container_log_max_bytes: 10 * 1024 * 1024,
            container_log_max_files: 5,
        }
    }
}

impl Options {
    /// The settings as the KubeletConfiguration that would give them.
    pub fn kubelet_configuration(&self) -> Value {
        let seconds = |duration: Duration| format!("{}s", duration.as_secs());
        let ip = |address: Option<SocketAddr>| address.map(|address| address.ip().to_string());
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| address.port());
        let mut headers = Map::new();
        for (name, value) in &self.manifest_url_headers {
            // What a header holds may be a password.
            let hidden = if value.is_empty() { "" } else { "<hidden>" };
            let values = headers.entry(name.as_str()).or_insert_with(|| json!([]));
            values.as_array_mut().into_iter().for_each(|values| values.push(hidden.into()));
        }
        let taints = self.register_with_taints.iter();
        let taints: Vec<Value> =
            taints.map(|t| json!({"key": t.key, "value": t.value, "effect": t.effect})).collect();
        json!({
            "kind": "KubeletConfiguration",
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "staticPodPath": self.pod_manifest_path,
            "staticPodURL": self.manifest_url.as_deref().map(without_password),
            "staticPodURLHeader": headers,
            "fileCheckFrequency": seconds(self.file_check_frequency),
            "httpCheckFrequency": seconds(self.http_check_frequency),
            "enableServer": self.api_address.is_some(),
            "address": ip(self.api_address),
            "port": port(self.api_address),
            "tlsCertFile": self.tls_files.as_ref().map(|(certificate, _)| certificate),
            "tlsPrivateKeyFile": self.tls_files.as_ref().map(|(_, key)| key),
            "authentication": {"x509": {"clientCAFile": self.client_ca_file}, "anonymous": {"enabled": false}},
            "streamingConnectionIdleTimeout": seconds(self.streaming_idle),
            "healthzBindAddress": ip(self.healthz_address),
            "healthzPort": port(self.healthz_address),
            "rotateCertificates": self.cluster.is_some(),
            "serverTLSBootstrap": self.cluster.as_ref().is_some_and(|cluster| cluster.serving),
            "registerWithTaints": taints,
            "clusterDomain": self.cluster_domain,
            "clusterDNS": self.cluster_dns,
            "maxPods": self.max_pods,
            "podPidsLimit": self.pod_pids_limit.unwrap_or(-1),
            "serializeImagePulls": self.max_parallel_image_pulls == 1,
            "maxParallelImagePulls": self.max_parallel_image_pulls,
            "allowedUnsafeSysctls": self.allowed_unsafe_sysctls,
            "containerLogMaxSize": self.container_log_max_bytes.to_string(),
            "containerLogMaxFiles": self.container_log_max_files,
        })
    }
}

/// The URL without the password in it, if there is one.
fn without_password(url: &str) -> String {
    let Ok(mut parsed) = reqwest::Url::parse(url) else { return url.to_owned() };
    let is_hidden = parsed.password().is_some() && parsed.set_password(Some("hidden")).is_ok();
    if is_hidden { parsed.to_string() } else { url.to_owned() }
}
