//! Benchmark that compares the embedded store with the raw disk: `cargo bench -p apiserver --bench storage`. With
//! `-- heartbeats` it measures only heartbeats.
#![allow(clippy::unwrap_used, reason = "a bench")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apiserver::storage::{Embedded, Expected, Limits, Store, Transaction};
use bytes::Bytes;

const SPAN: Duration = Duration::from_secs(3);
const VALUE_BYTES: usize = 1024;

#[tokio::main]
async fn main() {
    let directory =
        tempfile::tempdir_in(std::env::var_os("CORACLE_BENCH_DIR").unwrap_or(".".into())).unwrap();
    if std::env::args().any(|word| word == "heartbeats") {
        return heartbeats(directory.path()).await;
    }
    floor(directory.path());
    for writers in [1, 16, 64] {
        let store = open(&directory.path().join(writers.to_string())).await;
        drive(Op::Create, &store, writers).await;
        drive(Op::Update, &store, writers).await;
        drive(Op::Get, &store, writers).await;
        list(&store).await;
        let path = directory.path().join(writers.to_string());
        drop(store);
        let bytes = std::fs::metadata(path.join("store.redb")).unwrap().len();
        let start = Instant::now();
        open(&path).await;
        println!(
            "open and check {:>4} MB {:>8.0} ms",
            bytes / 1_000_000,
            start.elapsed().as_secs_f64() * 1e3
        );
    }
    heartbeats(directory.path()).await;
}

/// Measures heartbeats of a thousand nodes, durable and deferred. At full speed, the result is the cost of one
/// heartbeat and the size of the file. At a hundred per second, the result is the cost of an idle cluster.
async fn heartbeats(directory: &Path) {
    const NODES: u64 = 1000;
    const SENDERS: u64 = 16;
    for (name, is_late, most) in [("durable", false, 20_000_u64), ("late", true, 100_000)] {
        let path = directory.join(name);
        let store = open(&path).await;
        let file = path.join("store.redb");
        let size = || std::fs::metadata(&file).unwrap().len() / 1024;
        let beat = async |n: u64| {
            let key = format!("/registry/leases.coordination.k8s.io/kube-node-lease/node-{}", n % NODES);
            let update = Transaction::put(&key, Expected::Any, value(n));
            if is_late { store.commit_deferred(update).await } else { store.commit(update).await }.unwrap();
        };
        for n in 0..NODES {
            beat(n).await;
        }
        let number = AtomicU64::new(0);
        let run = async || {
            while number.fetch_add(1, Ordering::Relaxed) < most / 2 {
                beat(number.load(Ordering::Relaxed)).await;
            }
        };
        let first = Used::now();
        let mut sizes = vec![size()];
        for _ in 0..2 {
            number.store(0, Ordering::Relaxed);
            futures_util::future::join_all((0..SENDERS).map(|_| run())).await;
            sizes.push(size());
        }
        let used = first.elapsed();
        println!(
            "{most} {name} heartbeats: {:.0} /s, {:.0} us of a processor and {:.1} KiB to the disk each; KiB of file before, half \
             way and after: {sizes:?}",
            most as f64 / used.seconds,
            used.processor / most as f64 * 1e6,
            used.kib / most as f64,
        );
        let (span, paced) = (Duration::from_secs(30), Used::now());
        let mut pace = tokio::time::interval(Duration::from_millis(10));
        for n in 0..span.as_millis() as u64 / 10 {
            pace.tick().await;
            beat(n).await;
        }
        let used = paced.elapsed();
        println!(
            "100 {name} heartbeats a second: {:.2} % of a processor, {:.1} KiB/s to the disk",
            used.processor / used.seconds * 100.0,
            used.kib / used.seconds,
        );
    }
}

/// Resources used by this process: seconds, CPU seconds, KiB written.
#[derive(Clone, Copy)]
struct Used {
    seconds: f64,
    processor: f64,
    kib: f64,
}

impl Used {
    fn now() -> Self {
        static BEGUN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        let line = |file: &str, name: &str| {
            let text = std::fs::read_to_string(file).unwrap();
            let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
            line.trim().to_owned()
        };
        let stat = line("/proc/self/stat", "");
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks = |place: usize| fields.split_whitespace().nth(place).unwrap().parse::<f64>().unwrap();
        Self {
            seconds: BEGUN.elapsed().as_secs_f64(),
            // Linux reports a hundred ticks per second to user space.
            processor: (ticks(11) + ticks(12)) / 100.0,
            kib: line("/proc/self/io", "write_bytes:").parse::<f64>().unwrap() / 1024.0,
        }
    }

    fn elapsed(self) -> Self {
        let now = Self::now();
        Self {
            seconds: now.seconds - self.seconds,
            processor: now.processor - self.processor,
            kib: now.kib - self.kib,
        }
    }
}

async fn open(path: &Path) -> Arc<Embedded> {
    Arc::new(Embedded::open(path, Limits::default()).await.unwrap())
}

/// Measures the upper bound for any store on this disk: one page write and one sync after another.
fn floor(directory: &Path) {
    let file = File::create(directory.join("floor")).unwrap();
    file.set_len(64 * 4096).unwrap();
    for pages in [1, 8, 32] {
        for warm in 0..pages {
            file.write_all_at(&[1; 4096], warm * 4096).unwrap();
        }
        file.sync_all().unwrap();
        let (start, mut syncs) = (Instant::now(), 0_u64);
        while start.elapsed() < SPAN / 3 {
            for page in 0..pages {
                file.write_all_at(&[syncs as u8; 4096], page * 4096).unwrap();
            }
            file.sync_data().unwrap();
            syncs += 1;
        }
        println!("disk: {pages:>2} pages, sync  {:>8.0} /s", rate(syncs, start));
    }
}

/// An operation to repeat.
#[derive(Clone, Copy, Debug)]
enum Op {
    Create,
    Update,
    Get,
}

async fn one(store: &Embedded, op: Op, n: u64) {
    match op {
        // Pod names end in random characters, so successive keys are not adjacent.
        Op::Create => {
            let key = format!("/registry/pods/default/{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            store.commit(Transaction::create(&key, value(n))).await.unwrap();
        }
        Op::Update => {
            let key = format!("/registry/leases/node/{}", n % 1000);
            store.commit(Transaction::put(&key, Expected::Any, value(n))).await.unwrap();
        }
        Op::Get => {
            store.get(&format!("/registry/leases/node/{}", n % 1000)).await.unwrap();
        }
    }
}

async fn drive(op: Op, store: &Arc<Embedded>, tasks: usize) {
    let number = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let run = || {
        let (store, number) = (store.clone(), number.clone());
        tokio::spawn(async move {
            while start.elapsed() < SPAN {
                one(&store, op, number.fetch_add(1, Ordering::Relaxed)).await;
            }
        })
    };
    let runs: Vec<_> = (0..tasks).map(|_| run()).collect();
    for run in runs {
        run.await.unwrap();
    }
    let name = format!("{op:?} by {tasks}");
    println!("{name:<22} {:>8.0} /s", rate(number.load(Ordering::Relaxed), start));
}

async fn list(store: &Embedded) {
    let (start, mut entries, mut after) = (Instant::now(), 0_u64, None);
    loop {
        let page = store.range("/registry/pods/", after.as_deref(), 500).await.unwrap();
        entries += page.entries.len() as u64;
        after = page.entries.last().map(|entry| entry.key.clone());
        if !page.more {
            break;
        }
    }
    println!("list by 500            {:>8.0} /s", rate(entries, start));
}

fn value(n: u64) -> Bytes {
    Bytes::from(format!("{n:0>VALUE_BYTES$}"))
}

fn rate(count: u64, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64()
}
