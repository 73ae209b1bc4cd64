//! Measures a large cluster of 150,000 pods and 5,000 nodes: the cost of each operation while the cluster grows.

use std::time::Instant;

use http::Method;
use rustix::process::Signal;
use tests::Master;

use crate::arguments::Arguments;
use crate::client::Way;
use crate::drive::{Request, fill, fill_nodes, rate};
use crate::objects::{PODS, patch};
use crate::shared::gauge;
use crate::shared::table::Table;
use crate::{start, watches};

/// Number of watches while the cluster is large.
const WATCHERS: usize = 20;
/// Changes per second while they watch.
const PACE: f64 = 500.0;
/// Number of lists measured.
const LISTS: usize = 5;

/// Runs the measurement and adds its results to the table. There are no targets; compare each line with the one before
/// it.
pub async fn measure(arguments: &Arguments, table: &mut Table) {
    let mut master = start::master(&[]);
    start::start(&mut master).await;
    let way = Way::to(&master).unwrap();
    fill_nodes(&way, arguments.nodes).await;
    let mut there = 0;
    for pods in &arguments.curve {
        eprintln!("filling up to {pods} pods");
        let creates = fill(&way, there..*pods, arguments.nodes).await;
        there = *pods;
        point(arguments, &master, &way, there, creates, table).await;
    }
    tokio::time::sleep(arguments.settling).await;
    let status = master.stop(Signal::TERM).await;
    assert!(status.success(), "{status}\n{}", master.log());
    let milliseconds = start::start(&mut master).await;
    tokio::time::sleep(arguments.settling).await;
    let memory = gauge::memory(master.pid());
    let detail =
        format!("{there} pods of {} nodes; {:.0} of it anonymous", arguments.nodes, memory.anonymous);
    table.at_most("large: start", f64::INFINITY, milliseconds, " ms", detail.clone());
    table.at_most("large: memory after it", f64::INFINITY, memory.resident, " MiB", detail);
}

/// Measures one point of the curve.
async fn point(
    arguments: &Arguments,
    master: &Master,
    way: &Way,
    pods: usize,
    creates: f64,
    table: &mut Table,
) {
    let name = |what: &str| format!("large, {pods} pods: {what}");
    table.at_least(&name("creates"), f64::NEG_INFINITY, creates, " /s", String::new());
    let memory = gauge::memory(master.pid());
    let detail =
        format!("{:.2} KiB a pod, {:.0} at most", memory.resident * 1024.0 / pods as f64, memory.peak);
    table.at_most(&name("memory"), f64::INFINITY, memory.resident, " MiB", detail);
    for (what, path) in [
        ("list of all", PODS.to_owned()),
        ("list of 500", format!("{PODS}?limit=500")),
        ("list by node", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-7".to_owned()),
        ("list by label", format!("{PODS}?labelSelector=set%3Ds7")),
    ] {
        let (milliseconds, bytes) = list(way, &path).await;
        let detail = format!("{:.1} MB, median of {LISTS}", bytes as f64 / 1e6);
        table.at_most(&name(what), f64::INFINITY, milliseconds, " ms", detail);
    }
    let change = move |number: usize| Request {
        method: Method::PATCH,
        path: format!("{PODS}/pod-{}", number.wrapping_mul(7919) % pods),
        body: patch(0),
        expected: 200,
    };
    let patches = rate(way, arguments.clients, arguments.window / 2, change).await;
    table.at_least(
        &name("patches"),
        f64::NEG_INFINITY,
        patches,
        " /s",
        format!("{} clients", arguments.clients),
    );
    let delivered = watches::deliver(way, WATCHERS, pods, PACE, arguments.window / 2).await;
    let detail = format!("{:.0} deliveries/s to {WATCHERS} watches", delivered.rate);
    table.at_most(&name("how late, 99 of 100"), f64::INFINITY, delivered.late_ms(0.99), " ms", detail);
}

/// Lists the objects at a path. Returns the milliseconds and the bytes of the response.
async fn list(way: &Way, path: &str) -> (f64, usize) {
    let mut connection = way.connect().await.unwrap();
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..LISTS {
        let begun = Instant::now();
        let (code, answer) = connection.exchange(Method::GET, path, "").await.unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        assert_eq!(code, 200);
        bytes = answer.len();
    }
    (crate::shared::numbers::median(&times), bytes)
}
