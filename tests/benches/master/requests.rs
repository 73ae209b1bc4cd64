//! (b) Measures memory, (c) creates, and (d) gets, lists and patches of a small cluster.

use std::time::Instant;

use http::Method;

use crate::arguments::{Arguments, Part};
use crate::client::Way;
use crate::drive::{Request, create, fill, fill_nodes, rate};
use crate::objects::{PODS, PODS_A_LABEL, patch};
use crate::shared::gauge;
use crate::shared::table::Table;
use crate::{start, watches};

/// Maximum resident memory in MiB: with no pods, and with two thousand pods.
const MEMORY_TARGETS: (f64, f64) = (20.0, 60.0);
/// Minimum requests per second. Each kind of request has its own limit.
const CREATES_TARGET: f64 = 3300.0;
const GETS_TARGET: f64 = 10_000.0;
const LISTS_TARGET: f64 = 500.0;
const WHOLE_LISTS_TARGET: f64 = 100.0;
const PATCHES_TARGET: f64 = 4500.0;
/// Maximum CPU use of an idle master, as a percentage of one core.
const QUIET_TARGET: f64 = 1.0;
/// Nodes of a small cluster.
const NODES: usize = 100;
/// Number of concurrent lists of all pods. The responses are large, so a few lists saturate the CPUs.
const WHOLE_LISTS_AT_ONCE: usize = 4;

/// (c) Measures creates and adds the result to the table.
pub async fn creates(arguments: &Arguments, table: &mut Table) {
    let mut master = start::master(&[]);
    start::start(&mut master).await;
    let way = Way::to(&master).unwrap();
    fill_nodes(&way, NODES).await;
    let rate = rate(&way, arguments.clients, arguments.window, |number| create(number, NODES)).await;
    let detail = format!("{} clients, each on the disk before it is answered", arguments.clients);
    table.at_least("(c) creates", CREATES_TARGET, rate, " /s", detail);
}

/// (b), (d), (e) Measures a master that holds pods and adds the results to the table.
pub async fn standing(arguments: &Arguments, table: &mut Table) {
    let mut master = start::master(&[]);
    start::start(&mut master).await;
    let way = Way::to(&master).unwrap();
    tokio::time::sleep(arguments.settling).await;
    let idle = gauge::memory(master.pid());
    fill_nodes(&way, NODES).await;
    fill(&way, 0..arguments.pods, NODES).await;
    tokio::time::sleep(arguments.settling).await;
    if arguments.wants(Part::Memory) {
        let full = gauge::memory(master.pid());
        let what = format!("{} pods", arguments.pods);
        for (what, target, memory) in
            [("no pods", MEMORY_TARGETS.0, idle), (what.as_str(), MEMORY_TARGETS.1, full)]
        {
            let detail = format!("{:.1} of it anonymous, at most {:.1}", memory.anonymous, memory.peak);
            table.at_most(&format!("(b) memory with {what}"), target, memory.resident, " MiB", detail);
        }
        let share = gauge::cpu(master.pid(), arguments.window).await;
        let detail = format!("{} s", arguments.window.as_secs());
        table.at_most("(b) processor, nothing happens", QUIET_TARGET, share, " %", detail);
    }
    if arguments.wants(Part::Requests) {
        requests(arguments, &way, table).await;
        let memory = gauge::memory(master.pid());
        let detail = format!("{:.1} of it anonymous", memory.anonymous);
        table.at_most("(d) memory at most by now", f64::INFINITY, memory.peak, " MiB", detail);
    }
    if arguments.wants(Part::Watches) {
        watches::measure(arguments, &way, table).await;
    }
}

async fn requests(arguments: &Arguments, way: &Way, table: &mut Table) {
    let (pods, clients, window) = (arguments.pods, arguments.clients, arguments.window);
    let labels = pods / PODS_A_LABEL;
    // Consecutive requests concern objects that are not adjacent in the store.
    let spread = |number: usize, of: usize| number.wrapping_mul(7919) % of;
    let get = move |number| Request::get(format!("{PODS}/pod-{}", spread(number, pods)));
    let detail = format!("{clients} clients, one of {pods} pods");
    table.at_least("(d) gets", GETS_TARGET, rate(way, clients, window, get).await, " /s", detail);
    let list = move |number| Request::get(format!("{PODS}?labelSelector=set%3Ds{}", spread(number, labels)));
    let detail = format!("{clients} clients, {PODS_A_LABEL} of {pods} pods by label");
    table.at_least("(d) lists by label", LISTS_TARGET, rate(way, clients, window, list).await, " /s", detail);
    let all = |_| Request::get(PODS.to_owned());
    let lists = rate(way, WHOLE_LISTS_AT_ONCE, window, all).await;
    let detail = format!("{WHOLE_LISTS_AT_ONCE} clients, all {pods} pods");
    table.at_least("(d) lists of all", WHOLE_LISTS_TARGET, lists, " /s", detail);
    let begun = Instant::now();
    let change = move |number| Request {
        method: Method::PATCH,
        path: format!("{PODS}/pod-{}", spread(number, pods)),
        body: patch(begun.elapsed().as_micros()),
        expected: 200,
    };
    let detail = format!("{clients} clients, each on the disk before it is answered");
    table.at_least("(d) patches", PATCHES_TARGET, rate(way, clients, window, change).await, " /s", detail);
}
