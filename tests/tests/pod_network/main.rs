//! The network that the kubelet gives pods: of real nodes, and its rules for packets in network namespaces of the tests' own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod across;
mod addresses;
mod faults;
mod machine;
mod moves;
mod rules;
