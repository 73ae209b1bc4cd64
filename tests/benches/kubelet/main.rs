//! Benchmarks of the kubelet: each number is compared with the bare engine in the same run, or with a fixed budget.
//!
//! `make bench` runs all parts. `ARGS=--quick` runs them with small sizes, `ARGS="--only a,c"` selects parts. The
//! benchmark prints a table and writes no files; `BENCHMARKS.md` explains the table.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on has nothing to tell")]

mod arguments;
mod bare;
mod caller;
mod clock;
mod joined;
mod latency;
mod load;
mod machine {
    //! Describes the machine in one line.

    use std::fs;

    use tests::Engine;

    /// Returns the processors, memory, kernel, Docker version and load of this machine, on one line.
    pub async fn line() -> String {
        let engine = Engine::connect().await;
        let version = engine.docker().version().await.unwrap().version.unwrap_or_default();
        let info = engine.docker().info().await.unwrap();
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        format!(
            "{} processors, {} GiB, Linux {}, Docker {version} ({}), load {}",
            info.ncpu.unwrap_or_default(),
            info.mem_total.unwrap_or_default() >> 30,
            info.kernel_version.unwrap_or_default(),
            info.driver.unwrap_or_default(),
            load.split(' ').next().unwrap_or_default()
        )
    }
}
mod manifests;
mod names;
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
    if arguments.wants(Part::Names) {
        names::measure(&mut table);
    }
    println!("\n{}\n{table}", machine::line().await);
}
