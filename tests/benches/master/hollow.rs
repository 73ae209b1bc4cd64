//! (h) Runs pods on hollow nodes, which the master cannot tell from real kubelets. Measures the start of the cluster
//! and its steady state.

use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use http::Method;
use rustix::process::geteuid;
use tests::{HOLLOW_IMAGE, HollowNodes, Master};
use tokio::io::AsyncReadExt as _;
use tokio::sync::watch;

use crate::arguments::Arguments;
use crate::client::Way;
use crate::drive::{Request, run};
use crate::mix::{self, Stock};
use crate::objects::PODS;
use crate::seen::{Moments, Seen, follow};
use crate::served::served;
use crate::shared::gauge::{self, cpu_seconds};
use crate::shared::numbers::{median, share};
use crate::shared::table::Table;
use crate::{machine, start};

/// Command-line option that makes this program run the hollow nodes.
pub const WORD: &str = "--be-hollow";
/// Maximum request latency at the 99th percentile, in milliseconds.
const TARGET: f64 = 100.0;
/// Prefix of the node names.
const NODE: &str = "node-";
/// Flags of the master: it runs all controllers and admits every node that asks.
const FLAGS: [&str; 3] =
    ["--advertise-address=127.0.0.1", "--csr-approval-policy=insecure-always-approve", "--scheduler=true"];
/// Number of clients that create pods.
const CLIENTS: usize = 16;
/// How long the benchmark waits until all pods run.
const DEADLINE: Duration = Duration::from_secs(1800);
/// Runs the hollow nodes until the parent process closes this process's standard input.
pub async fn be(line: &str, nodes: usize) {
    let _nodes = HollowNodes::join(line, (0..nodes).map(|number| format!("{NODE}{number}")));
    let mut rest = Vec::new();
    tokio::io::stdin().read_to_end(&mut rest).await.unwrap();
}

/// The child process that runs the hollow nodes.
struct Nodes(Child);

impl Nodes {
    fn begin(line: &str, nodes: usize) -> Self {
        let own = std::env::current_exe().unwrap();
        // Without root, the process runs without permission to mount, so volumes of all nodes are plain directories
        // instead of file systems.
        let mut command = if geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]).arg(own);
            command
        } else {
            Command::new(own)
        };
        command.args([WORD, line, "--hollow-nodes", &nodes.to_string()]);
        Self(command.stdin(Stdio::piped()).spawn().unwrap())
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Creation time of each pod, by name. The benchmark creates all pods through this map.
static ASKED: LazyLock<Mutex<Moments>> = LazyLock::new(Mutex::default);

/// Returns an unscheduled pod with small requests; the master adds its service-account token and CA volume.
fn pod(name: &str) -> String {
    ASKED.lock().unwrap().insert(name.to_owned(), Instant::now());
    let container = format!(
        r#"{{"name":"app","image":"{HOLLOW_IMAGE}","resources":{{"requests":{{"cpu":"10m","memory":"16Mi"}}}}}}"#
    );
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}","labels":{{"app":"web"}}}},"spec":{{"containers":[{container}]}}}}"#
    )
}

/// Runs the measurement and adds its results to the table.
pub async fn measure(arguments: &Arguments, table: &mut Table) {
    machine::open_many();
    let Arguments { hollow_nodes: nodes, hollow_pods: pods, hollow_window: window, .. } = *arguments;
    let mut master = Master::new().with_flags(FLAGS);
    start::start(&mut master).await;
    let way = Way::to(&master).unwrap();
    let begun = Instant::now();
    let hollow = Nodes::begin(&master.join_line().await, nodes);
    let mut ready = follow(&way, "/api/v1/nodes?watch=true", Seen::is_ready).await;
    let last = until(&mut ready, nodes, &master).await;
    let seconds = last.duration_since(begun).as_secs_f64();
    let add_row = |table: &mut Table, what: &str, measured: f64, unit: &str, detail: String| {
        table.at_most(&format!("(h) {what}"), f64::INFINITY, measured, unit, detail);
    };
    add_row(table, &format!("{nodes} nodes Ready"), seconds, " s", taken(&master, &hollow));

    let path = "/api/v1/pods?watch=true&fieldSelector=status.phase%3DRunning&timeoutSeconds=7200";
    let mut running = follow(&way, path, Seen::is_running).await;
    let (begun, before) = (Instant::now(), served(&way).await);
    let make = |number: usize| Request {
        method: Method::POST,
        path: PODS.to_owned(),
        body: pod(&format!("pod-{number}")),
        expected: 201,
    };
    run(&way, CLIENTS, pods, || true, make).await;
    let made = begun.elapsed().as_secs_f64();
    let last = until(&mut running, pods, &master).await;
    let seconds = last.duration_since(begun).as_secs_f64();
    let detail = format!("made within {made:.0} s; {}; {}", late(&running), taken(&master, &hollow));
    add_row(table, &format!("{pods} pods Running"), seconds, " s", detail);
    let (requests, most) = served(&way).await.since(&before, seconds);
    add_row(table, "requests served meanwhile", requests, " /s", most);

    tokio::time::sleep(arguments.settling).await;
    ASKED.lock().unwrap().clear();
    let before = (served(&way).await, master_and(&hollow, &master).map(cpu_seconds), Instant::now());
    let stock = Stock { nodes: (NODE, nodes), pods, make: pod };
    let answers = mix::exchange(&way, stock, window).await;
    let after = (served(&way).await, master_and(&hollow, &master).map(cpu_seconds));
    let seconds = before.2.elapsed().as_secs_f64();
    let all = answers.all();
    let detail = format!(
        "{} requests beside those of the nodes, half of them {:.1} ms, the longest {:.1}; 99 of 100 of each: {}",
        all.len(),
        median(&all),
        share(&all, 1.0),
        answers.each()
    );
    table.at_most("(h) API, 99 of 100 requests", TARGET, share(&all, 0.99), " ms", detail);
    let (requests, most) = after.0.since(&before.0, seconds);
    add_row(table, "requests served", requests, " /s", most);
    add_row(table, "pods that come, created -> Running", half(&running), " ms", late(&running));
    let cpu = |which: usize| (after.1[which] - before.1[which]) / seconds * 100.0;
    let memory = gauge::memory(master.pid());
    let detail = format!("{:.0} of it anonymous, at most {:.0}", memory.anonymous, memory.peak);
    add_row(table, "memory of the master", memory.resident, " MiB", detail);
    add_row(table, "processor of the master", cpu(0), " %", format!("{seconds:.0} s"));
    let memory = gauge::memory(hollow.0.id());
    let detail = format!("{:.0} MiB and {:.0} % of a core in all", memory.resident, cpu(1));
    add_row(table, "memory of a node", memory.resident * 1024.0 / nodes as f64, " KiB", detail);
    add_row(table, "processor of a node", cpu(1) / nodes as f64, " %", String::new());
}

fn master_and(hollow: &Nodes, master: &Master) -> [u32; 2] {
    [master.pid(), hollow.0.id()]
}

/// Returns the CPU time and memory that the master and the hollow nodes have used so far, as text.
fn taken(master: &Master, hollow: &Nodes) -> String {
    let one = |pid: u32| {
        let memory = gauge::memory(pid);
        format!("{:.0} s, {:.0} MiB", cpu_seconds(pid), memory.resident)
    };
    format!("until then the master took {}, the nodes {}", one(master.pid()), one(hollow.0.id()))
}

/// Waits until the watch has seen this many objects. Returns the time of the last one.
async fn until(seen: &mut watch::Receiver<Moments>, all: usize, master: &Master) -> Instant {
    let waited = tokio::time::timeout(DEADLINE, seen.wait_for(|seen| seen.len() >= all)).await;
    let is_there = matches!(waited, Ok(Ok(_)));
    drop(waited);
    let seen = seen.borrow();
    assert!(is_there, "{} of {all} are there\n{}", seen.len(), master.log());
    seen.values().max().copied().unwrap()
}

/// Returns the milliseconds from creating each pod until the watch saw it run, for pods with both times.
fn lateness(running: &watch::Receiver<Moments>) -> Vec<f64> {
    let (created, running) = (ASKED.lock().unwrap(), running.borrow());
    let both = created.iter().filter_map(|(name, created)| Some(running.get(name)?.duration_since(*created)));
    both.map(|time| time.as_secs_f64() * 1e3).collect()
}

fn half(running: &watch::Receiver<Moments>) -> f64 {
    median(&lateness(running))
}

fn late(running: &watch::Receiver<Moments>) -> String {
    let all = lateness(running);
    let of = |part: f64| share(&all, part);
    format!("of {} pods half run after {:.0} ms, 99 of 100 after {:.0} ms", all.len(), of(0.5), of(0.99))
}
