//! (g) Schedules pending pods. A watch measures how many pods per second the scheduler of the master binds.

use std::time::{Duration, Instant};

use http::Method;
use http_body_util::BodyExt as _;
use rustix::process::Signal;

use crate::arguments::Arguments;
use crate::client::Way;
use crate::drive::{Request, run};
use crate::objects::{PODS, apart, node, waiting};
use crate::shared::gauge;
use crate::shared::table::Table;
use crate::start;

/// Minimum bindings per second with a thousand nodes. It applies also to pods with anti-affinity.
const TARGET: f64 = 5000.0;
const APART_TARGET: f64 = 1000.0;
/// Number of nodes to which these targets apply.
const NODES: usize = 1000;
/// Number of clients that create objects.
const CLIENTS: usize = 32;
/// The benchmark stops if no pod is bound for this long.
const SILENCE: Duration = Duration::from_secs(60);
/// Poll interval while waiting for Ready nodes.
const LOOK: Duration = Duration::from_millis(100);

/// Runs the measurement and adds its results to the table.
pub async fn measure(arguments: &Arguments, table: &mut Table) {
    for nodes in &arguments.schedule_nodes {
        let pods = arguments.schedule_pods.min(nodes * 100);
        let target = if *nodes == NODES { TARGET } else { f64::NEG_INFINITY };
        one(&format!("(g) {nodes} nodes, {pods} pods"), target, *nodes, pods, waiting, table).await;
    }
    let nodes = arguments.schedule_nodes.iter().copied().max().unwrap_or(NODES).min(NODES);
    let pods = arguments.schedule_pods / 5;
    let what = format!("(g) {nodes} nodes, {pods} pods that keep apart");
    one(&what, APART_TARGET, nodes, pods, apart, table).await;
}

/// Creates nodes and pods while no scheduler runs, then starts the scheduler.
async fn one(
    what: &str,
    target: f64,
    nodes: usize,
    pods: usize,
    make: fn(usize) -> String,
    table: &mut Table,
) {
    let mut master = start::master(&[]);
    start::start(&mut master).await;
    let way = Way::to(&master).unwrap();
    let post =
        |path: &str, body| Request { method: Method::POST, path: path.to_owned(), body, expected: 201 };
    run(&way, CLIENTS, nodes, || true, move |number| post("/api/v1/nodes", node(number))).await;
    run(&way, CLIENTS, pods, || true, move |number| post(PODS, make(number))).await;
    all_ready(&way).await;
    let status = master.stop(Signal::TERM).await;
    assert!(status.success(), "{status}\n{}", master.log());
    let mut master = master.with_flags(start::flags(&["--scheduler=true"]));
    start::start(&mut master).await;
    let seen = watch(&way, pods, master.pid()).await;
    assert!(seen.all() == pods, "{} of {pods} pods have a node\n{}", seen.all(), master.log());
    let memory = gauge::memory(master.pid());
    let detail = format!(
        "{:.0} us of processor each; {} before the first look; at most {:.0} MiB",
        seen.processor_seconds / seen.more as f64 * 1e6,
        seen.first,
        memory.peak
    );
    table.at_least(what, target, seen.rate(), " /s", detail);
}

/// Waits until no node has the not-ready taint of new nodes. The scheduler binds no pod to a node with this taint.
async fn all_ready(way: &Way) {
    let begun = Instant::now();
    let mut connection = way.connect().await.unwrap();
    loop {
        let (code, nodes) = connection.exchange(Method::GET, "/api/v1/nodes", "").await.unwrap();
        assert_eq!(code, 200);
        if !String::from_utf8_lossy(&nodes).contains("node.kubernetes.io/not-ready") {
            return;
        }
        assert!(begun.elapsed() < SILENCE, "nodes are not ready");
        tokio::time::sleep(LOOK).await;
    }
}

/// The pods that a watch saw with a node.
struct Seen {
    /// Number of pods in the first chunk of the response. They were bound earlier.
    first: usize,
    /// Number of pods in later chunks.
    more: usize,
    /// Seconds from the first chunk to the last.
    seconds: f64,
    /// CPU time of the master during that period.
    processor_seconds: f64,
}

impl Seen {
    fn all(&self) -> usize {
        self.first + self.more
    }

    fn rate(&self) -> f64 {
        self.more as f64 / self.seconds
    }
}

/// Watches for scheduled pods, until the watch has seen enough of them or has seen none for the timeout.
async fn watch(way: &Way, pods: usize, master: u32) -> Seen {
    let mut connection = way.connect().await.unwrap();
    let path = "/api/v1/pods?watch=true&fieldSelector=spec.nodeName!%3D";
    let (code, mut body) = connection.begin(Method::GET, path, "").await.unwrap();
    assert_eq!(code, 200);
    // Counts each pod once: later changes of a scheduled pod are MODIFIED events.
    let is_added = |line: &[u8]| line.starts_with(br#"{"type":"ADDED""#);
    let (mut first, mut seen, mut last, mut rest) = (None, 0, Instant::now(), Vec::new());
    while seen < pods
        && let Ok(Some(Ok(frame))) = tokio::time::timeout(SILENCE, body.frame()).await
    {
        let Ok(data) = frame.into_data() else { continue };
        rest.extend_from_slice(&data);
        // A line may be split between two chunks.
        let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        seen += rest[..whole].split(|byte| *byte == b'\n').filter(|line| is_added(line)).count();
        rest.drain(..whole);
        last = Instant::now();
        first.get_or_insert_with(|| (last, seen, gauge::cpu_seconds(master)));
    }
    let (begun, first, before) = first.unwrap_or((last, 0, 0.0));
    let seconds = last.duration_since(begun).as_secs_f64();
    Seen { first, more: seen - first, seconds, processor_seconds: gauge::cpu_seconds(master) - before }
}
