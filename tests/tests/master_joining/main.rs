//! Machines become nodes: one line, one request, one decision, as a person at `openssl`, `kubectl` and a bare HTTP client sees it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bootstrap;
mod by_hand;
mod complaints;
mod machine;
mod modes;
mod policies;
mod rotation;
mod stock;
