//! Clusters whose masters are static pods: the first node brings its master, others join, and all of it comes back.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod first;
mod ha;
mod stage;
