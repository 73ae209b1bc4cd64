//! Kills the master, and its etcd, with `kill -9` at random times while clients write and watch. Checks that
//! acknowledged writes survive (for heartbeats, all but the last), resource versions never decrease, and resumed
//! watches neither miss nor repeat events.
//!
//! The test performs as many kills as fit into ten seconds; `CORACLE_KILLS=1000` sets the number. `CORACLE_SEED`
//! repeats the choices of a run.

mod api;
mod heart;
mod story;
mod watcher;
mod writer;

use std::env;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tests::{Chance, DEADLINE, Etcd, Master, moment, wait_until};
use tokio::task::{LocalSet, spawn_local};

use api::{Api, Kind};
use heart::Heart;
use story::Story;
use watcher::Watcher;
use writer::Writer;

/// Duration of a run without `CORACLE_KILLS`.
const SPAN: Duration = Duration::from_secs(10);
/// Maximum time between a start and the next kill.
const LONGEST: Duration = Duration::from_millis(150);
/// Concurrent writers, each with its own object.
const WRITERS: usize = 8;
/// Nodes that renew their leases.
const HEARTS: usize = 3;
/// Concurrent watchers of each kind of object.
const WATCHERS: usize = 3;

#[tokio::test]
async fn master_with_a_store_file_survives_kills() {
    let bed = Bed { master: Master::new(), etcd: None };
    LocalSet::new().run_until(survive(bed)).await;
}

#[tokio::test]
async fn master_with_etcd_survives_kills_of_both() {
    let etcd = Etcd::running().await;
    let master = Master::new().with_flags(["--storage", "etcd", "--etcd-servers", &etcd.url()]);
    LocalSet::new().run_until(survive(Bed { master, etcd: Some(etcd) })).await;
}

/// The processes that are killed.
struct Bed {
    master: Master,
    etcd: Option<Etcd>,
}

impl Bed {
    /// Kills the master, the etcd or both, and restarts them.
    async fn kill(&mut self, chance: &mut Chance, story: &Story) {
        let (kills_master, kills_etcd) = match &self.etcd {
            None => (true, false),
            Some(_) => *chance.pick(&[(true, false), (false, true), (true, true)]),
        };
        if kills_master {
            self.master.kill();
        }
        story.killed();
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
    bed.master.start().await;
    let [api, leases] = [Kind::ConfigMap, Kind::Lease].map(|kind| Api::of(&bed.master, kind));
    let story = Arc::new(Story::default());
    let start = api.list().await.unwrap();
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let chance = Chance::new(chance.below(usize::MAX) as u64);
            spawn_local(Writer::new(api.clone(), format!("w{number}"), chance).run(story.clone()))
        })
        .collect();
    let hearts: Vec<_> = (0..HEARTS)
        .map(|number| spawn_local(Heart::new(leases.clone(), format!("n{number}")).run(story.clone())))
        .collect();
    let watch = |api: &Api| {
        (0..WATCHERS).map(|_| spawn_local(Watcher::new(api.clone(), start.revision).run())).collect()
    };
    let watchers: [(Api, Vec<_>); 2] = [&api, &leases].map(|api| (api.clone(), watch(api)));
    let (begun, mut killed, mut newest) = (Instant::now(), 0, start.revision);
    while kills.map_or(begun.elapsed() < SPAN, |kills| killed < kills) {
        if !chance.once_in(4) {
            // At least one write is acknowledged between two kills, so that every kill happens under load.
            let before = newest;
            let look = async || {
                if story.acknowledged_safe() > before {
                    Ok(())
                } else {
                    Err("no write was acknowledged".to_owned())
                }
            };
            wait_until(DEADLINE, look).await.unwrap();
        }
        moment(chance.moment(LONGEST)).await;
        newest = newest.max(story.acknowledged());
        bed.kill(&mut chance, &story).await;
        killed += 1;
        let now = api.list_in_time().await.revision;
        assert!(now >= newest, "kill {killed}: the revision went back from {newest} to {now}");
        newest = now;
    }
    story.end();
    let (mut acknowledged, mut renewed, mut lost) = (Vec::new(), Vec::new(), 0);
    for writer in writers {
        let writer = writer.await.unwrap();
        assert_eq!(writer.broken, [""; 0], "{}", bed.master.log());
        acknowledged.extend(writer.acknowledged);
    }
    for heart in hearts {
        let heart = heart.await.unwrap();
        assert_eq!(heart.broken, [""; 0], "{}", bed.master.log());
        renewed.extend(heart.acknowledged);
        lost += heart.lost;
    }
    let (mut resumed, mut lists) = (0, 0);
    for ((api, watchers), written) in watchers.into_iter().zip([&acknowledged, &renewed]) {
        let last = api.list_in_time().await;
        api.create_in_time(watcher::END).await;
        for watcher in watchers {
            let watcher = watcher.await.unwrap();
            assert_eq!(watcher.broken, [""; 0]);
            watcher.check(written, &last);
            resumed += watcher.resumed;
            lists += watcher.lists();
        }
    }
    println!(
        "{killed} kills, {} writes acknowledged, {} renewals and {lost} of them lost, {resumed} watches went on, {lists} listed again",
        acknowledged.len(),
        renewed.len(),
    );
    assert!(!acknowledged.is_empty() && !renewed.is_empty(), "they did write");
}
