//! `kill -9` of the master, and of the etcd below it, at random moments while clients write and watch: what was
//! acknowledged is there, revisions never go back, and watches that go on miss nothing and repeat nothing.
//!
//! As many kills as fit into ten seconds; `CORACLE_KILLS=1000` asks for that many. `CORACLE_SEED` repeats a run's choices.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod api;
mod watcher;
mod writer;

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tests::{Chance, DEADLINE, Etcd, Master, moment, wait_until};
use tokio::task::{LocalSet, spawn_local};

use api::Api;
use watcher::Watcher;
use writer::{Stop, Writer};

/// How long a run lasts that is not told how many kills.
const SPAN: Duration = Duration::from_secs(10);
/// Longest time between a start and the next kill.
const LONGEST: Duration = Duration::from_millis(150);
/// Clients that write at once, each to an object of its own.
const WRITERS: usize = 8;
/// Clients that watch at once.
const WATCHERS: usize = 3;

#[tokio::test]
async fn a_master_with_its_store_in_a_file_survives_kills() {
    let bed = Bed { master: Master::new(), etcd: None };
    LocalSet::new().run_until(survive(bed)).await;
}

#[tokio::test]
async fn a_master_with_its_store_in_an_etcd_survives_kills_of_both() {
    let etcd = Etcd::running().await;
    let master = Master::new().with_flags(["--storage", "etcd", "--etcd-servers", &etcd.url()]);
    LocalSet::new().run_until(survive(Bed { master, etcd: Some(etcd) })).await;
}

/// What is killed.
struct Bed {
    master: Master,
    etcd: Option<Etcd>,
}

impl Bed {
    /// Kills the master, the etcd or both, and starts them again.
    async fn kill(&mut self, chance: &mut Chance) {
        let (kills_master, kills_etcd) = match &self.etcd {
            None => (true, false),
            Some(_) => *chance.pick(&[(true, false), (false, true), (true, true)]),
        };
        if kills_master {
            self.master.kill();
        }
        if let Some(etcd) = self.etcd.as_mut().filter(|_| kills_etcd) {
            etcd.kill();
            etcd.start().await;
        }
        if kills_master {
            self.master.start().await;
        }
    }
}

async fn survive(mut bed: Bed) {
    let mut chance = Chance::new(Chance::seed());
    let kills: Option<usize> = env::var("CORACLE_KILLS").ok().map(|text| text.parse().unwrap());
    let is_alone = bed.etcd.is_none();
    bed.master.start().await;
    let api = Api::of(&bed.master);
    let stop = Arc::new(Stop::default());
    let start = api.list().await.unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let chance = Chance::new(chance.below(usize::MAX) as u64);
            spawn_local(Writer::new(api.clone(), format!("w{number}"), chance).run(stop.clone()))
        })
        .collect();
    let watchers: Vec<_> =
        (0..WATCHERS).map(|_| spawn_local(Watcher::new(api.clone(), start.revision).run())).collect();
    let (begun, mut killed, mut newest) = (Instant::now(), 0, start.revision);
    while kills.map_or(begun.elapsed() < SPAN, |kills| killed < kills) {
        if !chance.once_in(4) {
            // Under load: whatever it is that a kill hits, somebody has written since the last one.
            let before = newest;
            let look =
                async || if stop.acknowledged() > before { Ok(()) } else { Err("nobody wrote".to_owned()) };
            wait_until(DEADLINE, look).await.unwrap();
        }
        moment(chance.moment(LONGEST)).await;
        newest = newest.max(stop.acknowledged());
        bed.kill(&mut chance).await;
        killed += 1;
        let now = api.list_in_time().await.revision;
        assert!(now >= newest, "kill {killed}: the revision went back from {newest} to {now}");
        newest = now;
    }
    stop.stop();
    let mut acknowledged = Vec::new();
    for writer in writers {
        let writer = writer.await.unwrap();
        assert_eq!(writer.broken, [""; 0], "{}", bed.master.log());
        acknowledged.extend(writer.acknowledged);
    }
    let last = api.list_in_time().await;
    api.create_in_time(watcher::END).await;
    let (mut resumed, mut lists) = (0, 0);
    for watcher in watchers {
        let watcher = watcher.await.unwrap();
        assert_eq!(watcher.broken, [""; 0]);
        watcher.check(&acknowledged, &last);
        // The log goes back far enough for all of them to go on where they were.
        assert!(!is_alone || watcher.lists() == 0, "{} lists in place of a watch", watcher.lists());
        lists += watcher.lists();
        resumed += watcher.resumed;
    }
    let writes = acknowledged.len();
    println!("{killed} kills, {writes} writes acknowledged, {resumed} watches went on, {lists} listed anew");
    assert!(!acknowledged.is_empty(), "they did write");
}
