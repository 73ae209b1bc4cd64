//! The network of pods across machines: kubelets of one master, on two segments with a router between.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod asking;
mod cluster;
mod connections;
mod harm;
mod lone;
mod pairs;
mod places;
mod ranges;
mod slow;
