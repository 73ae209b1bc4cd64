//! Benchmarks of the master: a release build and a client run on the same machine, and each number is compared with
//! a target.
//!
//! `hack/bench.sh master` runs all parts. `--quick` runs them with small sizes, `--only a,c` selects parts,
//! `--large` continues to 150,000 pods. The benchmark prints a table and writes no files; `BENCHMARKS.md` explains
//! the table.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a bench that cannot go on has nothing to tell")]

mod arguments;
mod client;
mod drive;
mod hollow;
mod joins;
mod large;
mod machine {
    //! Describes the machine in one line and raises the limit of open files.

    use std::fs;

    use rustix::process::{Resource, getrlimit, setrlimit};

    /// Returns the processors, memory, kernel and load of this machine, on one line.
    pub fn line() -> String {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let memory = read("/proc/meminfo");
        let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib: u64 =
            kib.and_then(|text| text.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0);
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        format!(
            "{processors} processors, {} GiB, Linux {}, load {}",
            kib >> 20,
            read("/proc/sys/kernel/osrelease").trim(),
            read("/proc/loadavg").split(' ').next().unwrap_or_default()
        )
    }

    /// Raises the limit of open files of this process and its children, so that many connections fit.
    pub fn open_many() {
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit).unwrap();
    }
}
mod mix;
mod objects;
mod requests;
mod schedule;
mod seen;
mod served;
#[path = "../shared/mod.rs"]
mod shared;
mod start;
mod watches;

use arguments::{Arguments, Part};
use shared::table::Table;

#[tokio::main(worker_threads = 2)]
async fn main() {
    let arguments = Arguments::read();
    if let Some(line) = &arguments.be_hollow {
        return hollow::be(line, arguments.hollow_nodes).await;
    }
    let mut table = Table::default();
    if arguments.wants(Part::Start) {
        start::measure(&arguments, &mut table).await;
    }
    if arguments.wants(Part::Creates) {
        requests::creates(&arguments, &mut table).await;
    }
    if [Part::Memory, Part::Requests, Part::Watches].into_iter().any(|part| arguments.wants(part)) {
        requests::standing(&arguments, &mut table).await;
    }
    if arguments.wants(Part::Joins) {
        joins::measure(&arguments, &mut table).await;
    }
    if arguments.wants(Part::Schedule) {
        schedule::measure(&arguments, &mut table).await;
    }
    if arguments.wants(Part::Hollow) {
        hollow::measure(&arguments, &mut table).await;
    }
    if arguments.large {
        large::measure(&arguments, &mut table).await;
    }
    println!("\n{}\n{table}", machine::line());
}
