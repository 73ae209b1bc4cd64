//! The control plane (`master`): creates the cluster's certificates and serves the Kubernetes API over TLS.
//!
//! ARCHITECTURE.md in the top-level directory describes its modules.

pub mod admission;
pub mod api;
pub mod apiservices;
pub mod approval;
pub mod backup;
pub mod bootstrap;
pub mod check;
pub mod cli;
pub mod component_status;
pub mod controllers;
pub mod data_dir;
pub mod flow_control;
pub mod kubeconfig;
pub mod kubernetes_service;
pub mod metrics;
pub mod metrics_api;
pub mod node_proxy;
pub mod objects;
pub mod options;
pub mod owner;
pub mod pki;
pub mod pod_cidrs;
pub mod quota;
pub mod scheduler;
pub mod server;
pub mod server_lease;
pub mod service_addresses;
pub mod store;
pub mod system_config_maps;
pub mod system_namespaces;
pub mod trust;
pub mod wiring;
