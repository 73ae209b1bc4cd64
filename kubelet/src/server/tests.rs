//! The node's API over its socket, with an engine in memory behind it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bed;
mod exec;
mod forward;
mod read;
mod socket;
mod spdy;
mod stuck;
