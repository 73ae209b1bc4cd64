//! (g) Pods that wait get nodes: as many a second as the scheduler inside the master binds, seen by one watch.

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

/// Least bindings a second at a thousand nodes, and where pods keep away from each other.
const TARGET: f64 = 5000.0;
const APART_TARGET: f64 = 1000.0;
/// How many nodes those are for.
const NODES: usize = 1000;
/// Clients that make what there is to be.
const CLIENTS: usize = 32;
/// Longest without a binding.
const SILENCE: Duration = Duration::from_secs(60);

/// Measures and reports.
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

/// Makes nodes and pods while nobody schedules, then has them scheduled.
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
    let status = master.stop(Signal::TERM).await;
    assert!(status.success(), "{status}\n{}", master.log());
    let mut master = master.with_flags(start::flags(&["--scheduler=true"]));
    start::start(&mut master).await;
    let seen = watch(&way, pods).await;
    assert!(seen.all() == pods, "{} of {pods} pods have a node\n{}", seen.all(), master.log());
    let memory = gauge::memory(master.pid());
    let detail = format!("{} before the first look; at most {:.0} MiB", seen.first, memory.peak);
    table.at_least(what, target, seen.rate(), " /s", detail);
}

/// What a watch saw of pods that have a node.
struct Seen {
    /// Those of the first piece, which had one before.
    first: usize,
    /// Those that came after it.
    more: usize,
    seconds: f64,
}

impl Seen {
    fn all(&self) -> usize {
        self.first + self.more
    }

    fn rate(&self) -> f64 {
        self.more as f64 / self.seconds
    }
}

/// Watches pods that have a node until there are so many, or none comes for long.
async fn watch(way: &Way, pods: usize) -> Seen {
    let mut connection = way.connect().await.unwrap();
    let path = "/api/v1/pods?watch=true&fieldSelector=spec.nodeName!%3D";
    let (code, mut body) = connection.begin(Method::GET, path, "").await.unwrap();
    assert_eq!(code, 200);
    let (mut first, mut seen, mut last) = (None, 0, Instant::now());
    while seen < pods
        && let Ok(Some(Ok(frame))) = tokio::time::timeout(SILENCE, body.frame()).await
    {
        let Ok(data) = frame.into_data() else { continue };
        seen += data.iter().filter(|byte| **byte == b'\n').count();
        last = Instant::now();
        first.get_or_insert((last, seen));
    }
    let (begun, first) = first.unwrap_or((last, 0));
    Seen { first, more: seen - first, seconds: last.duration_since(begun).as_secs_f64() }
}
