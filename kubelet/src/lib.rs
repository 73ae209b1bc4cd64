//! The node agent: it runs Pods through a container engine, alone or under a master.
//!
//! ARCHITECTURE.md at the top of the project is the map of these rooms.

pub mod cgroups;
pub mod cli;
pub mod cluster;
pub mod desired;
pub mod disk;
pub mod health;
pub mod identity;
pub mod images;
pub mod metrics;
pub mod network;
pub mod node;
pub mod observe;
pub mod observed;
pub mod options;
pub mod plan;
pub mod probes;
pub mod report;
pub mod runtime;
pub mod server;
pub mod sources;
pub mod spec;
pub mod stats;
pub mod status;
pub mod volumes;
pub mod wiring;
pub mod worker;
