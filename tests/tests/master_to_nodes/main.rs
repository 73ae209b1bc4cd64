//! What people ask of nodes through the master: logs, commands, attached terminals and ports of pods that a real kubelet runs,
//! by every kubectl found, and who is not taken for a node, or for a master.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod away;
mod bed;
mod exec;
mod identity;
mod logs;
mod ports;
mod proxy;
mod stats;
mod top;
