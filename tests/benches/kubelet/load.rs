//! Measures a full node: (b) throughput of many pods, (c) memory, (d) CPU time and (e) restart.

use std::time::{Duration, Instant};

use tests::World;

use crate::arguments::{Arguments, Part};
use crate::bare::Bare;
use crate::clock::{Clock, Happening, now};
use crate::manifests;
use crate::shared::gauge;
use crate::shared::numbers::median;
use crate::shared::table::Table;

/// Concurrency levels tried with the bare engine.
const AT_ONCE: [usize; 4] = [2, 4, 8, 16];
/// Number of times that the kubelet and the bare engine alternate.
const TURNS: usize = 2;
/// Minimum throughput, as a multiple of the bare engine's.
const THROUGHPUT_TARGET: f64 = 1.4;
/// Maximum resident memory in MiB: with no pods, and with a hundred pods.
const MEMORY_TARGETS: (f64, f64) = (12.0, 20.0);
/// Maximum CPU use of an idle node, as a percentage of one core.
const QUIET_TARGET: f64 = 0.5;
/// Maximum seconds from a restart until all pods are adopted and reported.
const RESTART_TARGET: f64 = 1.0;
/// Number of restarts measured.
const RESTARTS: usize = 5;
/// Wait before a measurement, so that the process can free the memory of its last work.
const SETTLING: Duration = Duration::from_secs(15);

/// (b) Measures throughput and adds the result to the table.
pub async fn throughput(arguments: &Arguments, table: &mut Table) {
    let world = World::running("flood").await;
    let (_model, bare) = Bare::on_bridge("flood-model", &manifests::one_container("model")).await;
    let clock = Clock::start(&world.engine).await;
    let mut tried = Vec::new();
    for at_once in AT_ONCE {
        eprintln!("(b) the bare engine, {} pods, {at_once} at once", arguments.tried);
        let rate = bare_rate(&bare, &clock, &format!("try-{at_once}"), arguments.tried, at_once).await;
        tried.push((at_once, rate));
    }
    let best = tried.iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap().0;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for turn in 0..TURNS {
        eprintln!("(b) {} pods, turn {} of {TURNS}", arguments.pods, turn + 1);
        ours.push(rate(&world, &clock, turn, arguments.pods).await);
        floor.push(bare_rate(&bare, &clock, &format!("all-{turn}"), arguments.pods, best).await);
    }
    let tried: Vec<String> = tried.iter().map(|(at_once, rate)| format!("{at_once}: {rate:.1}")).collect();
    let detail = format!(
        "{:.1} pods/s, bare {:.1} with {best} at once (tried {})",
        median(&ours),
        median(&floor),
        tried.join(", ")
    );
    let what = format!("(b) {} pods at once", arguments.pods);
    table.at_least(&what, THROUGHPUT_TARGET, median(&ours) / median(&floor), "x", detail);
}

/// Starts pods and returns how many start per second, from the first manifest to the start of the last container.
async fn rate(world: &World, clock: &Clock, turn: usize, pods: usize) -> f64 {
    let names: Vec<String> = (0..pods).map(|number| format!("flood-{turn}-{number}")).collect();
    let begin = now();
    for name in &names {
        world.write(&format!("{name}.yaml"), &manifests::one_container(name));
    }
    let full: Vec<String> = names.iter().map(|name| world.pod_name(name)).collect();
    let seconds = (clock.pods(&full, Happening::Started).await - begin) as f64 / 1e9;
    for name in &names {
        world.remove(&format!("{name}.yaml"));
    }
    clock.pods(&full, Happening::Gone).await;
    pods as f64 / seconds
}

async fn bare_rate(bare: &Bare, clock: &Clock, prefix: &str, pods: usize, at_once: usize) -> f64 {
    let names: Vec<String> = (0..pods).map(|number| format!("{prefix}-{number}")).collect();
    let begin = now();
    let made = bare.run_all(&names, at_once).await;
    let seconds = (clock.pods(&names, Happening::Started).await - begin) as f64 / 1e9;
    bare.remove_all(made).await;
    clock.pods(&names, Happening::Gone).await;
    pods as f64 / seconds
}

/// (c), (d), (e) Measures a node full of idle pods and adds the results to the table.
pub async fn standing(arguments: &Arguments, table: &mut Table) {
    let mut world = World::running("full").await;
    let pods = arguments.pods;
    tokio::time::sleep(SETTLING).await;
    let empty = gauge::memory(world.kubelet_pid());
    eprintln!("(c) starting {pods} pods");
    for number in 0..pods {
        world.write(&format!("{number}.yaml"), &manifests::one_container(&format!("pod-{number}")));
    }
    until_ready(&world, pods).await;
    tokio::time::sleep(SETTLING).await;
    let full = gauge::memory(world.kubelet_pid());
    if arguments.wants(Part::Memory) {
        for (what, target, memory) in
            [("0 pods".to_owned(), MEMORY_TARGETS.0, empty), (format!("{pods} pods"), MEMORY_TARGETS.1, full)]
        {
            let detail = format!("{:.1} of it anonymous, at most {:.1}", memory.anonymous, memory.peak);
            table.at_most(&format!("(c) memory with {what}"), target, memory.resident, " MiB", detail);
        }
    }
    if arguments.wants(Part::Cpu) {
        eprintln!("(d) counting for {:?}", arguments.window);
        let share = gauge::cpu(world.kubelet_pid(), arguments.window).await;
        let detail = format!("{pods} pods, {} s", arguments.window.as_secs());
        table.at_most("(d) processor, nothing happens", QUIET_TARGET, share, " %", detail);
    }
    if arguments.wants(Part::Restart) {
        restart(&mut world, pods, table).await;
    }
}

async fn restart(world: &mut World, pods: usize, table: &mut Table) {
    let mut seconds = Vec::new();
    let before = world.containers().await;
    for turn in 0..RESTARTS {
        eprintln!("(e) start {} of {RESTARTS}", turn + 1);
        if turn % 2 == 0 {
            world.stop().await
        } else {
            world.kill()
        }
        let begin = Instant::now();
        world.start().await;
        until_ready(world, pods).await;
        seconds.push(begin.elapsed().as_secs_f64());
    }
    assert!(before == world.containers().await, "containers changed though only the kubelet was restarted");
    let detail = format!("{pods} pods Ready in `kubelet get pods`, median of {RESTARTS}");
    table.at_most("(e) start with pods", RESTART_TARGET, median(&seconds), " s", detail);
    tokio::time::sleep(SETTLING).await;
    let memory = gauge::memory(world.kubelet_pid());
    let detail = format!("{:.1} of it anonymous, at most {:.1}", memory.anonymous, memory.peak);
    table.at_most("(c) memory after a start with pods", MEMORY_TARGETS.1, memory.resident, " MiB", detail);
}

/// Polls `kubelet get pods` until this many pods exist and all are Ready.
pub async fn until_ready(world: &World, pods: usize) {
    let begin = Instant::now();
    loop {
        let ready = world.pods().await.map(|all| all.iter().filter(|pod| pod.is_ready()).count());
        if ready == Ok(pods) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(600), "only {ready:?} of {pods} pods became Ready");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
