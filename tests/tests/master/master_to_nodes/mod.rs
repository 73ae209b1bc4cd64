//! Node access through the master: logs, commands, attach and port forwarding of pods on a real kubelet, with every
//! kubectl, and mutual authentication.

mod away;
mod bed;
mod exec;
mod identity;
mod logs;
mod ports;
mod proxy;
mod stats;
mod top;
