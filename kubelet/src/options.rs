//! Everything a person can set about a running kubelet, after flags and file have been read.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

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

/// The settings of one kubelet.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's name, lower case.
    pub node_name: String,
    /// The node's address; found out when `None`.
    pub node_ip: Option<IpAddr>,
    /// State on disk.
    pub root_dir: PathBuf,
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
    /// `/healthz` over plain HTTP; `None` turns it off.
    pub healthz_address: Option<SocketAddr>,
    /// Image of the sandbox; the built-in one when `None`.
    pub sandbox_image: Option<String>,
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
            docker_endpoint: "unix:///var/run/docker.sock".to_owned(),
            pod_manifest_path: None,
            manifest_url: None,
            manifest_url_headers: Vec::new(),
            file_check_frequency: Duration::from_secs(20),
            http_check_frequency: Duration::from_secs(20),
            api_address: Some(SocketAddr::from(([0, 0, 0, 0], 10250))),
            healthz_address: Some(SocketAddr::from(([127, 0, 0, 1], 10248))),
            sandbox_image: None,
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
