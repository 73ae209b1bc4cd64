//! The kubelet: runs pods through a container engine, with or without a cluster.
//!
//! ARCHITECTURE.md in the top-level directory describes its modules.

pub mod cgroups;
pub mod cli;
pub mod cluster;
pub mod desired;
pub mod disk;
pub mod dns;
pub mod eviction;
pub mod file_watch;
pub mod health;
pub mod identity;
pub mod images;
pub mod ingress;
pub mod local_ca;
pub mod local_services;
pub mod metrics;
pub mod network;
pub mod network_policy;
pub mod node;
pub mod observed;
pub mod options;
pub mod plan;
pub mod pleg;
pub mod pod_workers;
pub mod probes;
pub mod report;
pub mod runtime;
pub mod server;
pub mod service_proxy;
pub mod sources;
pub mod spec;
pub mod startup;
pub mod stats;
pub mod status;
pub mod volumes;
