//! (d) Measures the CPU time of the kubelet with ten probes per second on every pod.

use std::time::Duration;

use tests::World;

use crate::arguments::Arguments;
use crate::shared::gauge;
use crate::shared::table::Table;
use crate::{load, manifests};

/// Maximum CPU use with ten probes per second on each of a hundred pods, as a percentage of one core.
const TARGET: f64 = 5.0;
const TARGET_PODS: f64 = 100.0;
/// Wait before the measurement, so that all probes run at their steady rate.
const SETTLING: Duration = Duration::from_secs(15);

/// Runs the measurement and adds its results to the table.
pub async fn measure(arguments: &Arguments, table: &mut Table) {
    let world = World::running("probes").await;
    let pods = arguments.pods;
    eprintln!("(d) starting {pods} pods with ten probes each");
    for number in 0..pods {
        world.write(&format!("{number}.yaml"), &manifests::ten_probes(&format!("pod-{number}")));
    }
    load::until_ready(&world, pods).await;
    tokio::time::sleep(SETTLING).await;
    eprintln!("(d) counting for {:?}", arguments.window);
    let share = gauge::cpu(world.kubelet_pid(), arguments.window).await;
    let memory = gauge::memory(world.kubelet_pid());
    let detail = format!(
        "{pods} pods, 10 probes a second each, {} s; {:.1} MiB resident",
        arguments.window.as_secs(),
        memory.resident
    );
    let target = TARGET * pods as f64 / TARGET_PODS;
    table.at_most("(d) processor, ten probes a pod", target, share, " %", detail);
}
