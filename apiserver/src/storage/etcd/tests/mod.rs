//! What is true of the store in an etcd, beside the contract of every store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bed;
mod endpoint;
mod follow;
mod grpc;
mod real;
mod translate;
