//! Workloads in models of a cluster: a Deployment with its ReplicaSets and pods, a StatefulSet with its pods, claims and
//! revisions, a Job with its pods, and a CronJob with its Jobs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod cluster;
mod cron_simulation;
mod daemons;
mod job_cluster;
mod job_reconcile;
mod job_simulation;
mod reconcile;
mod simulation;
mod stateful_model;
mod stateful_reconcile;
mod stateful_simulation;
