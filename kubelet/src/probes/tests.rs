//! Probes as their worker meets them, on servers of the test's own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bed;
mod exec;
mod grpc;
mod hooks;
mod http;
mod life;
mod pure;
