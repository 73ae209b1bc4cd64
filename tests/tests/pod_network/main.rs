//! Pods on the network that the kubelet gives them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod addresses;
mod faults;
mod machine;
