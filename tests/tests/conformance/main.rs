//! What the conformance suite of Kubernetes asks of an API server, in tests of our own; `docs/conformance.md` says which line is which.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod accounts;
mod cluster;
mod definitions;
mod discovering;
mod garbage;
mod kubectl;
mod lifecycle;
mod lifecycle_kinds;
mod lists;
mod namespaces;
mod objects;
mod page;
mod policies;
mod quotas;
mod services;
mod watching;
