//! (a) Measures the time from the start of the process to the first ready response, and the size of the binary.

use std::time::{Duration, Instant};

use http::Method;
use tests::Master;

use crate::arguments::Arguments;
use crate::client::Way;
use crate::shared::numbers::{median, quartiles};
use crate::shared::table::Table;

/// Maximum milliseconds to start: with an existing data directory, and with a new one.
const AGAIN_TARGET: f64 = 100.0;
const FRESH_TARGET: f64 = 300.0;
/// Maximum size of the binary, MiB.
const SIZE_TARGET: f64 = 25.0;
/// How long a start may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs the measurement and adds its results to the table.
pub async fn measure(arguments: &Arguments, table: &mut Table) {
    let (mut fresh, mut again) = (Vec::new(), Vec::new());
    for _ in 0..arguments.starts {
        let mut master = Master::new().with_flags(["--scheduler=true"]);
        fresh.push(start(&mut master).await);
        master.kill();
        again.push(start(&mut master).await);
    }
    for (what, target, times) in [
        ("(a) start, everything to be made", FRESH_TARGET, fresh),
        ("(a) start, everything there", AGAIN_TARGET, again),
    ] {
        let (low, high) = quartiles(&times);
        let detail = format!("median of {}, {low:.0} to {high:.0}", times.len());
        table.at_most(what, target, median(&times), " ms", detail);
    }
    let size = std::fs::metadata(tests::binary("master")).unwrap().len();
    table.at_most("(a) binary", SIZE_TARGET, size as f64 / f64::from(1 << 20), " MiB", String::new());
}

/// Returns a master with additional flags, without starting it. Its nodes have no kubelets, so the flags keep the
/// node lifecycle controller from marking them unhealthy.
pub fn master(more: &[&str]) -> Master {
    Master::new().with_flags(flags(more))
}

/// Returns the flags of a benchmarked master, with additional ones.
pub fn flags(more: &[&str]) -> Vec<String> {
    ["--node-monitor-grace-period=10h"].iter().chain(more).map(ToString::to_string).collect()
}

/// Starts a master. Returns the milliseconds until it is ready.
pub async fn start(master: &mut Master) -> f64 {
    let begun = Instant::now();
    master.launch();
    while !is_ready(master).await {
        assert!(begun.elapsed() < DEADLINE, "the master is not ready\n{}", master.log());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    begun.elapsed().as_secs_f64() * 1e3
}

async fn is_ready(master: &Master) -> bool {
    let Ok(way) = Way::to(master) else { return false };
    let Ok(mut connection) = way.connect().await else { return false };
    matches!(connection.exchange(Method::GET, "/readyz", "").await, Ok((200, _)))
}
