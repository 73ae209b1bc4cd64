//! (f) Measures TCP traffic between pods: on one node compared with the engine's bridge, and between nodes compared
//! with the bare link.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};
use tests::manifest::sleeper;
use tests::{Bed, Machine, World};

use crate::arguments::Arguments;
use crate::shared::numbers::median;
use crate::shared::table::Table;

/// Minimum throughput of pods on one node, as a multiple of the baseline.
const ONE_NODE: f64 = 1.0;
const SEGMENT: f64 = 0.9;
const ACROSS_A_ROUTER: f64 = 0.6;
/// Maximum latency, as a multiple of the baseline.
const LATENCY: f64 = 1.0;

/// Bytes per write in the throughput test.
const PIECE: usize = 128 << 10;
/// Bytes per message when the round-trip time is measured.
const WORD: usize = 64;

/// A network namespace, and an IP address in it.
struct Place {
    network: PathBuf,
    address: IpAddr,
}

/// Results of a pair of endpoints and of its baseline. The benchmark measures the two in turns.
#[derive(Default)]
struct Seen {
    gigabits: Vec<f64>,
    microseconds: Vec<f64>,
}

/// Runs the measurement and adds its results to the table.
pub async fn measure(arguments: &Arguments, table: &mut Table) {
    one_node(arguments, table).await;
    nodes(arguments, table).await;
}

async fn one_node(arguments: &Arguments, table: &mut Table) {
    let own = World::running("traffic").await;
    let mut engines = World::new("traffic-bridge").await.with_flags(["--pod-network", "docker"]);
    engines.start().await;
    let (own, engines) = (pair(&own).await, pair(&engines).await);
    let (mut seen, mut beside) = (Seen::default(), Seen::default());
    for round in 0..arguments.rounds {
        eprint!("\r(f) pod to pod, round {} of {} ", round + 1, arguments.rounds);
        let (own, engines) =
            (|| on_one_processor(|| seen.take(&own)), || on_one_processor(|| beside.take(&engines)));
        take_turns(round, own, engines);
    }
    eprintln!();
    report(table, "(f) pod to pod, one node", ("Docker's bridge", ONE_NODE), &seen, &beside);
    let ratio = median(&seen.microseconds) / median(&beside.microseconds);
    let detail = format!(
        "{:.1} us, Docker's bridge {:.1} us",
        median(&seen.microseconds),
        median(&beside.microseconds)
    );
    table.at_most("(f) the same, round trip", LATENCY, ratio, "x", detail);
}

async fn nodes(arguments: &Arguments, table: &mut Table) {
    let (bed, mut machines) = Bed::with([1, 1, 2]).await;
    let master = bed.master(&[]).await;
    let mut pods = Vec::new();
    for machine in &mut machines {
        machine.join(&master, &[]).await;
        pods.push(pod(&machine.node, "a").await);
    }
    for (other, what, target, link) in [
        (1, "(f) node to node, a segment", SEGMENT, None),
        (2, "(f) node to node, a router between", ACROSS_A_ROUTER, None),
        (1, "(f) node to node, a segment of 10 Gbit/s", SEGMENT, Some(10)),
    ] {
        if let Some(gigabits) = link {
            machines.iter().for_each(|machine| machine.narrow(gigabits));
        }
        let ways = [place(&pods[0]), place(&pods[other])];
        let links = [bare(&machines[0]), bare(&machines[other])];
        let reached = async || ways[0].reaches(&ways[1]).map_err(|error| error.to_string());
        machines[0].node.wait_for("the pod of the other node to be reached", reached).await;
        let (mut seen, mut beside) = (Seen::default(), Seen::default());
        for round in 0..arguments.rounds {
            eprint!("\r{what}, round {} of {} ", round + 1, arguments.rounds);
            take_turns(round, || seen.take(&ways), || beside.take(&links));
        }
        eprintln!();
        report(table, what, ("the bare link", target), &seen, &beside);
    }
}

/// Runs both functions in turns. The order changes every round.
fn take_turns(round: usize, mut one: impl FnMut(), mut other: impl FnMut()) {
    if round.is_multiple_of(2) {
        one();
        other();
    } else {
        other();
        one();
    }
}

/// Pins both ends of a connection to the first CPU, so that the comparison shows the cost per packet. Without
/// pinning, two runs over the same path differ by a sixth, because the scheduler places the threads differently.
fn on_one_processor(measure: impl FnOnce() + Send) {
    let mut first = CpuSet::new();
    first.set(0);
    // Runs in a new thread: it keeps its CPU affinity, and threads that it starts inherit it.
    let run = || {
        sched_setaffinity(None, &first).unwrap();
        measure();
    };
    thread::scope(|scope| scope.spawn(run).join().unwrap());
}

fn report(table: &mut Table, what: &str, (beside, target): (&str, f64), seen: &Seen, other: &Seen) {
    let (own, theirs) = (median(&seen.gigabits), median(&other.gigabits));
    let detail = format!(
        "{own:.1} Gbit/s, {beside} {theirs:.1}; round trip {:.1} us, {:.1}",
        median(&seen.microseconds),
        median(&other.microseconds)
    );
    table.at_least(what, target, own / theirs, "x", detail);
}

impl Seen {
    fn take(&mut self, [from, to]: &[Place; 2]) {
        self.gigabits.push(throughput(from, to));
        self.microseconds.push(latency(from, to));
    }
}

/// Returns the endpoints of two pods of a node.
async fn pair(world: &World) -> [Place; 2] {
    [place(&pod(world, "a").await), place(&pod(world, "b").await)]
}

/// Returns the Docker ID of a pod's container, and the pod's IP address.
async fn pod(world: &World, name: &str) -> (String, IpAddr) {
    world.write(&format!("{name}.yaml"), &sleeper(name));
    let pod = world.wait_ready(name).await;
    (world.container(name, "main").await.unwrap().id, pod.ip().parse().unwrap())
}

fn place((id, address): &(String, IpAddr)) -> Place {
    // Finds the process by its cgroup, because the engine may use another PID namespace.
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_its = |process: &PathBuf| {
        fs::read_to_string(process.join("cgroup")).is_ok_and(|cgroups| cgroups.contains(id.as_str()))
    };
    let process = processes.into_iter().find(is_its).unwrap();
    Place { network: process.join("ns/net"), address: *address }
}

fn bare(machine: &Machine) -> Place {
    let network = PathBuf::from(format!("/proc/{}/ns/net", machine.host().pid()));
    Place { network, address: machine.address.parse().unwrap() }
}

impl Place {
    /// Runs a function in the endpoint's network namespace, on a separate thread.
    fn run<T: Send + 'static>(&self, what: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let network = File::open(&self.network).unwrap();
        thread::spawn(move || {
            move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            what()
        })
    }

    fn listen(&self) -> TcpListener {
        let at = SocketAddr::new(self.address, 0);
        self.run(move || TcpListener::bind(at).unwrap()).join().unwrap()
    }

    fn connect(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        self.run(move || TcpStream::connect_timeout(&to, Duration::from_secs(1))).join().unwrap()
    }

    fn reaches(&self, other: &Self) -> std::io::Result<()> {
        let listener = other.listen();
        self.connect(listener.local_addr()?).map(drop)
    }
}

/// Duration of each throughput run.
const SENDING: Duration = Duration::from_millis(700);
/// Round trips per turn.
const TRIPS: u32 = 2_000;

/// Throughput from one endpoint to the other, in gigabits per second.
fn throughput(from: &Place, to: &Place) -> f64 {
    let listener = to.listen();
    let at = listener.local_addr().unwrap();
    let reader = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut piece, mut bytes, begun) = (vec![0; PIECE], 0_u64, Instant::now());
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            bytes += read as u64;
        }
        bytes as f64 * 8.0 / begun.elapsed().as_secs_f64() / 1e9
    });
    let mut stream = from.connect(at).unwrap();
    let (piece, begun) = (vec![0; PIECE], Instant::now());
    while begun.elapsed() < SENDING {
        stream.write_all(&piece).unwrap();
    }
    drop(stream);
    reader.join().unwrap()
}

/// Round-trip time between the endpoints, in microseconds.
fn latency(from: &Place, to: &Place) -> f64 {
    let listener = to.listen();
    let at = listener.local_addr().unwrap();
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut word = [0; WORD];
        while stream.read_exact(&mut word).is_ok() {
            stream.write_all(&word).unwrap();
        }
    });
    let mut stream = from.connect(at).unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut word, begun) = ([0; WORD], Instant::now());
    for _ in 0..TRIPS {
        stream.write_all(&word).unwrap();
        stream.read_exact(&mut word).unwrap();
    }
    let taken = begun.elapsed().as_secs_f64() * 1e6 / f64::from(TRIPS);
    drop(stream);
    echo.join().unwrap();
    taken
}
