//! Real directories, real events.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bed;
mod changes;
mod links;
mod names;
mod restart;
mod strange;
