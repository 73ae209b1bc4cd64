//! Tests of the etcd store beyond the contract.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bed;
mod endpoint;
mod grpc;
mod real;
mod translate;
mod watcher;
