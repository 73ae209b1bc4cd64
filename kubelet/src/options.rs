//! The settings of a kubelet, after flags and configuration file were read.

mod eviction;
mod image_gc;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use apiserver::admission::ServiceRange;
use ipnet::IpNet;
use serde_json::{Map, Value, json};

pub use eviction::{Eviction, EvictionTexts, Signal, Texts, Threshold, ThresholdValue};
pub use image_gc::ImageGc;

/// The file in `cert_dir` with the CA bundle of the cluster.
pub const CLUSTER_AUTHORITIES: &str = "ca.crt";
/// The group of read-only users (`kubelet kubeconfig --read-only`).
pub const VIEWERS: &str = "coracle:node-viewers";

/// The resolv.conf of the host.
pub const RESOLV_CONF: &str = "/etc/resolv.conf";

/// A taint of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    /// The value; may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

/// A join string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// URLs of the servers, `https://HOST:PORT`. The kubelet uses the first one that answers.
    pub servers: Vec<String>,
    /// The SHA-256 of the CA's public key, in hex. `None` to trust the CA on first use.
    pub pin: Option<String>,
}

/// How a machine joins a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bootstrap {
    /// The node joins with a join string.
    Join(Join),
    /// The node joins with a bootstrap kubeconfig that has a bootstrap token or a certificate, as the stock kubelet.
    Kubeconfig(PathBuf),
}

/// The cluster of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// How to join, if the node has not joined yet.
    pub bootstrap: Option<Bootstrap>,
    /// The kubeconfig of a joined node.
    pub kubeconfig: PathBuf,
    /// Whether the node also requests a serving certificate.
    pub serving: bool,
}

/// The component that provides the pod network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodNetwork {
    /// The kubelet provides the pod network.
    Native,
    /// The engine provides the pod network.
    Docker,
}

/// The component that makes Services work on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceProxyMode {
    /// The kubelet, by rules of nftables.
    Nftables,
    /// Another program, such as a stock kube-proxy.
    None,
}

/// The settings of one kubelet.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name, lower case.
    pub node_name: String,
    /// The node's address. `None` to detect it.
    pub node_ip: Option<IpAddr>,
    /// The directory with all state.
    pub root_dir: PathBuf,
    /// The directory of certificates and keys.
    pub cert_dir: PathBuf,
    /// The cluster to join, or `None` for a lone node.
    pub cluster: Option<Cluster>,
    /// URL of the engine: `unix:///...` or `tcp://...`.
    pub docker_endpoint: String,
    /// File or directory of manifests.
    pub pod_manifest_path: Option<PathBuf>,
    pub manifest_url: Option<String>,
    /// Extra headers for the URL.
    pub manifest_url_headers: Vec<(String, String)>,
    /// Interval between scans of the directory.
    pub file_check_frequency: Duration,
    /// Interval between requests to the URL.
    pub http_check_frequency: Duration,
    /// Address of the kubelet's HTTPS API; `None` disables it.
    pub api_address: Option<SocketAddr>,
    /// Certificate and key of the HTTPS API, if the user provides them.
    pub tls_files: Option<(PathBuf, PathBuf)>,
    /// The CA for client certificates of the HTTPS API. Clients with a certificate of the node's own CA are accepted too.
    pub client_ca_file: Option<PathBuf>,
    /// Idle timeout of streaming sessions and port forwards.
    pub streaming_idle: Duration,
    /// Address of `/healthz` over plain HTTP; `None` disables it.
    pub healthz_address: Option<SocketAddr>,
    /// Image of the sandbox, or `None` for the built-in one.
    pub sandbox_image: Option<String>,
    /// The component that provides the pod network; `None` to select one.
    pub pod_network: Option<PodNetwork>,
    /// The pod CIDRs, one per family, the primary one first; empty to select a free one.
    pub pod_cidrs: Vec<IpNet>,
    /// The component that makes Services work; `None` to select one.
    pub service_proxy: Option<ServiceProxyMode>,
    /// The cluster IPs of Services on a lone node, one range per IP family, the primary one first.
    pub service_ranges: Vec<ServiceRange>,
    /// The addresses of the Ingress controller; `None` if the node does not serve Ingresses.
    pub ingress: Option<IngressAddresses>,
    /// Maximum number of pods on this node.
    pub max_pods: usize,
    /// Name servers for pods with the policy ClusterFirst.
    pub cluster_dns: Vec<IpAddr>,
    /// Domain of the cluster; may be empty.
    pub cluster_domain: String,
    /// Whether the DNS server of the node serves pods. This is no setting: the kubelet decides it at its start, when it
    /// knows its pod network.
    pub node_dns: bool,
    /// The resolv.conf with the name servers for names outside the cluster.
    pub resolv_conf: PathBuf,
    /// Maximum number of parallel image pulls.
    pub max_parallel_image_pulls: usize,
    pub node_labels: Vec<(String, String)>,
    /// Taints of the node.
    pub register_with_taints: Vec<Taint>,
    /// Allowed unsafe sysctls: names, or prefixes that end in `*`.
    pub allowed_unsafe_sysctls: Vec<String>,
    /// Maximum number of processes per pod, or `None` for no limit.
    pub pod_pids_limit: Option<i64>,
    /// Maximum size of a log file of a container, in bytes.
    pub container_log_max_bytes: u64,
    /// Maximum number of log files per container.
    pub container_log_max_files: u32,
    /// Thresholds and periods of the eviction manager.
    pub eviction: Eviction,
    /// When unused images are removed.
    pub image_gc: ImageGc,
}

/// The addresses of the Ingress controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IngressAddresses {
    /// The address and port for HTTP; `None` to serve no HTTP.
    pub http: Option<SocketAddr>,
    /// The address and port for HTTPS; `None` to serve no HTTPS.
    pub https: Option<SocketAddr>,
}

impl Options {
    /// The defaults of the stock kubelet (KubeletConfiguration v1beta1) for a node of this name.
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
            service_proxy: None,
            service_ranges: vec![ServiceRange::DEFAULT],
            ingress: None,
            max_pods: 110,
            cluster_dns: Vec::new(),
            cluster_domain: String::new(),
            node_dns: false,
            resolv_conf: PathBuf::from(RESOLV_CONF),
            max_parallel_image_pulls: 5,
            node_labels: Vec::new(),
            register_with_taints: Vec::new(),
            allowed_unsafe_sysctls: Vec::new(),
            pod_pids_limit: None,
            container_log_max_bytes: 10 * 1024 * 1024,
            container_log_max_files: 5,
            eviction: Eviction::default(),
            image_gc: ImageGc::default(),
        }
    }
}

impl Options {
    /// The settings as a KubeletConfiguration.
    pub fn kubelet_configuration(&self) -> Value {
        let seconds = |duration: Duration| format!("{}s", duration.as_secs());
        let ip = |address: Option<SocketAddr>| address.map(|address| address.ip().to_string());
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| address.port());
        let mut headers = Map::new();
        for (name, value) in &self.manifest_url_headers {
            // A header may contain a password.
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
            "resolvConf": self.resolv_conf,
            "ingress": self.ingress.is_some(),
            "maxPods": self.max_pods,
            "podPidsLimit": self.pod_pids_limit.unwrap_or(-1),
            "serializeImagePulls": self.max_parallel_image_pulls == 1,
            "maxParallelImagePulls": self.max_parallel_image_pulls,
            "allowedUnsafeSysctls": self.allowed_unsafe_sysctls,
            "containerLogMaxSize": self.container_log_max_bytes.to_string(),
            "containerLogMaxFiles": self.container_log_max_files,
            "imageGCHighThresholdPercent": self.image_gc.high_percent,
            "imageGCLowThresholdPercent": self.image_gc.low_percent,
            "imageMinimumGCAge": seconds(self.image_gc.min_age),
            "imageMaximumGCAge": seconds(self.image_gc.max_age),
            "evictionHard": self.eviction.to_map(|t| t.is_hard().then(|| t.value.to_text(t.signal))),
            "evictionSoft": self.eviction.to_map(|t| (!t.is_hard()).then(|| t.value.to_text(t.signal))),
            "evictionSoftGracePeriod": self.eviction.to_map(|t| (!t.is_hard()).then(|| seconds(t.grace))),
            "evictionMinimumReclaim": self.eviction.to_map(|t| Some(t.minimum_reclaim?.to_text(t.signal))),
            "evictionMaxPodGracePeriod": self.eviction.max_pod_grace.as_secs(),
            "evictionPressureTransitionPeriod": seconds(self.eviction.transition_period),
        })
    }
}

fn without_password(url: &str) -> String {
    let Ok(mut parsed) = reqwest::Url::parse(url) else { return url.to_owned() };
    let is_hidden = parsed.password().is_some() && parsed.set_password(Some("hidden")).is_ok();
    if is_hidden { parsed.to_string() } else { url.to_owned() }
}
