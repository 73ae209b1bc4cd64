//! Machines with a kubelet become nodes: one line or one kubeconfig, one decision, and certificates that renew themselves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod across;
mod hosts;
mod machine;
mod overlap;
mod policies;
mod reached;
mod refused;
mod registered;
mod roots;
mod rotation;
mod stage;
mod stock;
mod trust;
mod waiting;
