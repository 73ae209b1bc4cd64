//! (a) Starts and stops one pod, and the same two containers directly in the engine. The two take turns.

use tests::World;

use crate::arguments::Arguments;
use crate::bare::Bare;
use crate::caller::{Listener, PORT};
use crate::clock::{Clock, Happening, Nanos, now};
use crate::manifests;
use crate::podman::Podman;
use crate::shared::numbers::{median, quartiles};
use crate::shared::table::Table;

/// Maximum start and stop time of a pod, as a multiple of the baseline.
const START_TARGET: f64 = 0.70;
const END_TARGET: f64 = 1.20;

/// Maximum start time of a pod, as a multiple of podman's start time of the same pod.
const PEER_TARGET: f64 = 1.0;

/// Signal number of SIGTERM, which is the same on every architecture.
const SIGTERM: u32 = 15;

/// Results of all rounds, in milliseconds.
#[derive(Default)]
struct Turns {
    up: Vec<f64>,
    serving: Vec<f64>,
    down: Vec<f64>,
}

/// The systems that are compared.
struct Stage {
    world: World,
    bare: Bare,
    clock: Clock,
    caller: Listener,
}

/// Runs the measurement and adds its results to the table.
pub async fn measure(arguments: &Arguments, table: &mut Table) {
    let world = World::running("latency").await;
    let caller = Listener::new(&world.engine).await;
    let model = manifests::serving("model", PORT, caller.address());
    let (_model, bare) = Bare::on_bridge("latency-model", &model).await;
    caller.answered().await;
    let podman = Podman::new(&world.engine).await;
    let mut played = Vec::new();
    let clock = Clock::start(&world.engine).await;
    let stage = Stage { world, bare, clock, caller };
    let (mut ours, mut floor, mut overlapped) = (Turns::default(), Turns::default(), Turns::default());
    for round in 0..arguments.rounds {
        eprint!("\r(a) one pod, round {} of {} ", round + 1, arguments.rounds);
        // Rotates the order, so that no candidate always runs after the same predecessor and inherits its leftovers.
        for turn in 0..3 {
            match (round + turn) % 3 {
                0 => stage.of_kubelet(round, &mut ours).await,
                1 => stage.of_engine(&format!("floor-{round}"), false, &mut floor).await,
                _ => stage.of_engine(&format!("lap-{round}"), true, &mut overlapped).await,
            }
        }
        played.push(podman.play(&format!("play-{round}")) as f64 / 1e6);
    }
    eprintln!();
    report(table, "(a) file written -> running", &ours.up, &floor.up, &overlapped.up, START_TARGET);
    let serving = [&ours.serving, &floor.serving, &overlapped.serving];
    report(table, "(a) file written -> serving", serving[0], serving[1], serving[2], START_TARGET);
    report(table, "(a) file removed -> gone", &ours.down, &floor.down, &overlapped.down, END_TARGET);
    let (own, peer) = (median(&ours.up), median(&played));
    let detail = format!("{own:.0} ms, podman kube play {peer:.0} ms");
    table.at_most("(a) the same, to podman kube play", PEER_TARGET, own / peer, "x", detail);
}

impl Stage {
    async fn of_kubelet(&self, round: usize, turns: &mut Turns) {
        let world = &self.world;
        let (name, file) = (format!("pod-{round}"), format!("{round}.yaml"));
        let pod = world.pod_name(&name);
        let manifest = manifests::serving(&name, PORT, self.caller.address());
        let begin = now();
        world.write(&file, &manifest);
        self.up(&pod, begin, turns).await;
        world.wait_ready(&name).await;
        until_it_listens(world, &world.container(&name, "app").await.unwrap().id).await;
        let begin = now();
        world.remove(&file);
        self.down(&pod, begin, turns).await;
        world.wait_gone(&name).await;
    }

    async fn of_engine(&self, name: &str, overlapped: bool, turns: &mut Turns) {
        let (world, bare) = (&self.world, &self.bare);
        let begin = now();
        let (pod, ()) = tokio::join!(
            async { if overlapped { bare.run_overlapped(name).await } else { bare.run(name).await } },
            self.up(name, begin, turns)
        );
        until_it_listens(world, &pod.app).await;
        let begin = now();
        if overlapped {
            bare.end_overlapped(&pod).await
        } else {
            bare.end(&pod).await
        };
        self.down(name, begin, turns).await;
    }

    /// Waits until a pod has started and serves requests.
    async fn up(&self, pod: &str, begin: Nanos, turns: &mut Turns) {
        let (started, serving) =
            tokio::join!(self.clock.pod(pod, Happening::Started), self.caller.answered());
        turns.up.push(milliseconds(begin, started));
        turns.serving.push(milliseconds(begin, serving));
    }

    async fn down(&self, pod: &str, begin: Nanos, turns: &mut Turns) {
        turns.down.push(milliseconds(begin, self.clock.pod(pod, Happening::Gone).await));
    }
}

/// Waits until the container's shell has installed its trap. The kernel discards SIGTERM for PID 1 without a handler.
async fn until_it_listens(world: &World, id: &str) {
    let pid = world.engine.inspect(id).await.unwrap().state.unwrap().pid.unwrap();
    let look = async || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).map_err(|e| e.to_string())?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let mask = u64::from_str_radix(caught.trim(), 16).unwrap();
        if mask & (1 << (SIGTERM - 1)) == 0 { Err(format!("it catches {caught}")) } else { Ok(()) }
    };
    world.wait_for("the shell in the container to set its trap", look).await;
}

fn milliseconds(begin: Nanos, end: Nanos) -> f64 {
    (end - begin) as f64 / 1e6
}

fn report(table: &mut Table, what: &str, ours: &[f64], floor: &[f64], overlapped: &[f64], target: f64) {
    let ratio = median(ours) / median(floor);
    let (low, high) = quartiles(ours);
    let detail = format!(
        "{:.0} ms ({low:.0} to {high:.0}), floor {:.0} ms, floor with overlap {:.0} ms",
        median(ours),
        median(floor),
        median(overlapped)
    );
    table.at_most(what, target, ratio, "x", detail);
}
