//! Faults of nodes and of their master, and the invariants after each: no pod is lost and none runs twice, no acknowledged write
//! is lost, and the API shows the real state. The duration of each recovery is printed.
//!
//! A family of faults is applied, one after the other, to one test bed of three machines.

mod cluster;
mod kills;
mod names;
mod oracle;
mod past;
mod paths;
mod power;
mod writer;
