//! The pod network of one node and of several, and the simulated machines on which the tests of networks run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bed;
mod pod_network;
mod pod_network_nodes;
