//! A Deployment, its ReplicaSets and pods in a model of a cluster.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cluster;
mod daemons;
mod reconcile;
mod simulation;
