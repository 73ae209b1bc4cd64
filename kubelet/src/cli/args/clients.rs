//! Arguments of the commands that copy, forward, measure and wait: `cp`, `port-forward`, `top` and `wait`.

use clap::{Args, ValueEnum};

use super::InNamespace;

/// Arguments of `kubelet cp`.
#[derive(Clone, Debug, Args)]
pub struct Cp {
    /// File or directory to copy: a local path, or [NAMESPACE/]POD:PATH
    #[arg(value_name = "FROM")]
    pub from: String,
    /// Where to copy to: a local path, or [NAMESPACE/]POD:PATH
    #[arg(value_name = "TO")]
    pub to: String,
    /// The container; required when the pod has several
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Do not preserve owner and permissions in the container
    #[arg(long)]
    pub no_preserve: bool,
    /// Namespace of the pod
    #[command(flatten)]
    pub place: InNamespace,
}

/// Arguments of `kubelet port-forward`.
#[derive(Clone, Debug, Args)]
pub struct PortForward {
    /// The pod, by its full name or by its name in the manifest
    #[arg(value_name = "POD")]
    pub pod: String,
    /// Ports: 8080:80, 80 for the same local port, :80 for any free local port; 80 may be the name of a port
    #[arg(value_name = "[LOCAL:]REMOTE", required = true)]
    pub ports: Vec<String>,
    /// Local addresses to listen on: IP addresses or localhost
    #[arg(long, value_name = "ADDRESS,...", default_value = "localhost", value_delimiter = ',')]
    pub address: Vec<String>,
    /// Namespace of the pod
    #[command(flatten)]
    pub place: InNamespace,
}

/// Arguments of `kubelet wait`.
#[derive(Clone, Debug, Args)]
pub struct Wait {
    /// The objects, such as pod/web, or pod web
    #[arg(value_name = "TYPE/NAME", required = true)]
    pub objects: Vec<String>,
    /// condition=NAME[=STATUS], such as condition=Ready, or delete
    #[arg(long = "for", value_name = "GOAL", required = true)]
    pub goal: String,
    /// How long to wait; a negative value waits for a week
    #[arg(long, value_name = "DURATION", default_value = "30s", allow_hyphen_values = true)]
    pub timeout: String,
    /// Namespace of the objects
    #[command(flatten)]
    pub place: InNamespace,
}

/// Arguments of `kubelet top`.
#[derive(Clone, Debug, Args)]
pub struct Top {
    /// pods (po) or nodes (no)
    #[arg(value_name = "pods|nodes")]
    pub resource: String,
    /// Show only the pod or node with this name
    #[arg(value_name = "NAME", conflicts_with = "selector")]
    pub name: Option<String>,
    /// Namespace of the pods
    #[command(flatten)]
    pub place: InNamespace,
    /// Show the pods of all namespaces
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Show the usage of each container
    #[arg(long)]
    pub containers: bool,
    /// Show only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Sort by usage, highest first
    #[arg(long, value_name = "cpu|memory")]
    pub sort_by: Option<UsageColumn>,
    /// Omit the header line
    #[arg(long)]
    pub no_headers: bool,
    /// Print the sum of all pods below the table
    #[arg(long)]
    pub sum: bool,
}

/// Columns of `kubelet top` by which it sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UsageColumn {
    /// CPU
    Cpu,
    /// Memory
    Memory,
}
