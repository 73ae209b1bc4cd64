//! Nodes of one master on which something goes wrong, and what holds again after it: no pod is lost and none runs twice, nothing that
//! was acknowledged is forgotten, and what the API says is so. How long that took is printed.
//!
//! A family of faults is applied, one after the other, to one bed of three machines.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cluster;
mod kills;
mod oracle;
mod past;
mod paths;
mod power;
mod writer;
