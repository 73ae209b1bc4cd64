//! Test framework for end-to-end tests: a [`World`] runs a real kubelet on the real Docker engine.
//!
//! A test writes manifests into its world, waits for conditions with a deadline, and inspects pods with the `kubelet`
//! command and containers through Docker. Each world is a separate node with its own folder, so tests can run
//! concurrently. Dropping a world removes its containers and mounts. Without an engine a test fails; it is never
//! skipped. Tests that need several machines, or a machine that loses power, use a [`Bed`].

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

pub mod bed;
mod binary;
pub mod browser;
pub mod certificates;
mod chance;
mod clock;
mod disk;
mod engine;
mod etcd;
mod history;
mod hollow;
pub mod host;
mod image;
mod kubectl;
mod lease;
pub mod manifest;
mod master;
pub mod network;
mod pod;
mod private_engine;
mod process;
mod python;
mod registry;
mod report;
mod serve;
mod wait;
mod wire;
mod world;

pub use bed::{Bed, Machine};
pub use binary::{binary, installed};
pub use browser::Browser;
pub use chance::Chance;
pub use clock::Clock;
pub use disk::Disk;
pub use engine::{Container, Engine, IMAGE};
pub use etcd::Etcd;
pub use history::{Event, History};
pub use hollow::{HOLLOW_IMAGE, HollowNodes};
pub use host::Host;
pub use image::Files;
pub use kubectl::{Kubectl, kubectls};
pub use lease::{Port, free_port};
pub use master::{Master, tls_config, trusting};
pub use pod::Pod;
pub use private_engine::{PRIVATE_ADDRESS, PrivateEngine, exported};
pub use process::{Process, output};
pub use python::Python;
pub use registry::{PASSWORD, Registry, USER};
pub use serve::Server;
pub use wait::{DEADLINE, moment, wait_until};
pub use wire::Wire;
pub use world::{Output, World};
