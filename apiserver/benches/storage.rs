//! How fast the store in a file is here, beside what the disk alone can do: `cargo bench -p apiserver --bench storage`.
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
}

async fn open(path: &Path) -> Arc<Embedded> {
    Arc::new(Embedded::open(path, Limits::default()).await.unwrap())
}

/// What no store on this disk can pass: one write of a page and one wait for the disk after another.
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

/// One thing to do again and again.
#[derive(Clone, Copy, Debug)]
enum Op {
    Create,
    Update,
    Get,
}

async fn one(store: &Embedded, op: Op, n: u64) {
    match op {
        // Names of pods end in something random, so neighbours in time are none in the file.
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
