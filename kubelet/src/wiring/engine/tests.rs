//! When the node is told of, and when its engine is asked.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tokio::time::{Instant, timeout};

use super::*;
use crate::node::Pressure;
use crate::runtime::fake::Fake;

/// What was told of a condition, as soon as something of the node is told.
async fn told(outbox: &Outbox, kind: &str) -> String {
    loop {
        if let Some(report) = outbox.take().await.node {
            let found = report.conditions.into_iter().find(|condition| condition.kind == kind);
            return found.map(|condition| condition.status).unwrap_or_default();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_runs_short_is_told_at_once_and_the_engine_is_not_asked_for_it() {
    let (fake, outbox) = (Fake::new("n1"), Outbox::new());
    let mut options = Options::new("n1");
    options.node_ip = Some("192.0.2.1".parse().unwrap());
    let (up, engine) = watch::channel(Engine::Up);
    let (reaches, network) = watch::channel(Ok(()));
    let (runs_short, pressures) = watch::channel(None);
    let own = node::facts(&options);
    let follower = Follower {
        drivers: Vec::new(),
        runtime: Arc::new(fake.clone()),
        engine,
        network,
        pressures,
        addresses: Addresses::follow(options.node_ip),
        facts: watch::channel(Arc::new(own.clone())).0,
        own,
        data_root: watch::channel(PathBuf::new()).0,
        outbox: outbox.clone(),
        conditions: Vec::new(),
        options,
    };
    tokio::spawn(follower.run());
    let asked = || fake.asked().into_iter().filter(|asked| asked == "info").count();
    let long = 10 * HEARTBEAT;
    timeout(long, told(&outbox, "Ready")).await.expect_err("what it runs short of is not known yet");
    runs_short.send_replace(Some(vec![(Pressure::Disk, false)]));
    assert_eq!((told(&outbox, "DiskPressure").await, asked()), ("False".to_owned(), 1));
    let since = Instant::now();
    runs_short.send_replace(Some(vec![(Pressure::Disk, true)]));
    assert_eq!((told(&outbox, "DiskPressure").await, asked()), ("True".to_owned(), 1));
    assert_eq!(since.elapsed(), Duration::ZERO);
    // Nothing changes: it is told when the heartbeat is due.
    assert_eq!((told(&outbox, "DiskPressure").await, asked()), ("True".to_owned(), 2));
    assert_eq!(since.elapsed(), HEARTBEAT);
    drop(reaches.send_replace(Err("no range".to_owned())));
    assert_eq!((told(&outbox, "Ready").await, asked()), ("False".to_owned(), 3));
    let down = Engine::Down { since: Timestamp::now(), message: "gone".to_owned() };
    up.send_replace(down);
    assert_eq!((told(&outbox, "Ready").await, asked()), ("False".to_owned(), 3));
}
