//! Workloads in models of a cluster: a Deployment with its ReplicaSets and pods, and a StatefulSet with its pods, claims
//! and revisions.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cluster;
mod daemons;
mod reconcile;
mod simulation;
mod stateful_model;
mod stateful_reconcile;
mod stateful_simulation;
