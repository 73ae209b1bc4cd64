//! The control plane: it makes its certificates, and serves the Kubernetes API over TLS alone.
//!
//! ARCHITECTURE.md at the top of the project is the map of these rooms.

pub mod admission;
pub mod api;
pub mod apiservices;
pub mod approval;
pub mod backup;
pub mod bootstrap;
pub mod check;
pub mod cli;
pub mod controllers;
pub mod data_dir;
pub mod kubeconfig;
pub mod kubernetes;
pub mod metrics;
pub mod namespaces;
pub mod nodes;
pub mod options;
pub mod owner;
pub mod pki;
pub mod pod_ranges;
pub mod quota;
pub mod scheduler;
pub mod server;
pub mod store;
pub mod trust;
pub mod usage;
pub mod wiring;
