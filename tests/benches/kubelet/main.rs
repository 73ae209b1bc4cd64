//! Measures the kubelet: each number beside the bare engine's in the same run, or against a fixed budget.
//!
//! `make bench` runs all of it. `ARGS=--quick` tries it out with small numbers, `ARGS="--only a,c"` takes parts of it.
//! It prints a table and writes nothing; `BENCHMARKS.md` says how to read it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on has nothing to tell")]

mod arguments;
mod bare;
mod caller;
mod clock;
mod joined;
mod latency;
mod load;
mod machine;
mod manifests;
mod podman;
mod probes;
#[path = "../shared/mod.rs"]
mod shared;
mod traffic;

use arguments::{Arguments, Part};
use shared::table::Table;

#[tokio::main]
async fn main() {
    let arguments = Arguments::read();
    let mut table = Table::default();
    if arguments.wants(Part::Latency) {
        latency::measure(&arguments, &mut table).await;
    }
    if arguments.wants(Part::Throughput) {
        load::throughput(&arguments, &mut table).await;
    }
    if [Part::Memory, Part::Cpu, Part::Restart].into_iter().any(|part| arguments.wants(part)) {
        load::standing(&arguments, &mut table).await;
    }
    if arguments.wants(Part::Cpu) {
        probes::measure(&arguments, &mut table).await;
    }
    if arguments.wants(Part::Traffic) {
        traffic::measure(&arguments, &mut table).await;
    }
    if arguments.wants(Part::Joined) {
        joined::measure(&arguments, &mut table).await;
    }
    println!("\n{}\n{table}", machine::line().await);
}
