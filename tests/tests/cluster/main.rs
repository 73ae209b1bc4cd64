//! Nodes and their masters together: joining, pods of the API server, whole clusters and their faults, stock components,
//! upgrades.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cluster_bootstrap;
mod cluster_faults;
mod cluster_pods;
mod hollow;
mod kubelet_joining;
mod master_joining;
mod pod_initializers;
mod stock_apiserver;
mod stock_components;
mod upgrade;
