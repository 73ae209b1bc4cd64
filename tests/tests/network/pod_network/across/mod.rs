//! Pods of several nodes: two on one segment, a third behind a router.

mod claims;
mod faults;
mod ranges;
mod stage;
mod ways;
