//! When the node status is reported, and when the engine is queried.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tokio::time::{Instant, timeout};

use super::*;
use crate::observed::Pressure;
use crate::runtime::fake::Fake;

/// The status of a condition in the next node report.
async fn reported_status(outbox: &Outbox, kind: &str) -> String {
    loop {
        if let Some(report) = outbox.take().await.node {
            let found = report.conditions.into_iter().find(|condition| condition.kind == kind);
            return found.map(|condition| condition.status).unwrap_or_default();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn node_pressure_is_reported_at_once_without_a_query_to_the_engine() {
    let (fake, outbox) = (Fake::new("n1"), Outbox::new());
    let mut options = Options::new("n1");
    options.node_ip = Some("192.0.2.1".parse().unwrap());
    let (up, engine) = watch::channel(EngineHealth::Up);
    let (reaches, network) = watch::channel(Ok(()));
    let (runs_short, pressures) = watch::channel(None);
    let base_facts = node::facts(&options);
    let follower = NodeStatusUpdater {
        drivers: Vec::new(),
        runtime: Arc::new(fake.clone()),
        engine,
        network,
        pressures,
        addresses: Addresses::follow(options.node_ip),
        facts: watch::channel(Arc::new(base_facts.clone())).0,
        base_facts,
        data_root: watch::channel(PathBuf::new()).0,
        outbox: outbox.clone(),
        conditions: Vec::new(),
        images: Vec::new(),
        options,
    };
    tokio::spawn(follower.run());
    let calls = || fake.calls().into_iter().filter(|call| call == "info").count();
    let long = 10 * HEARTBEAT;
    timeout(long, reported_status(&outbox, "Ready"))
        .await
        .expect_err("what it runs short of is not known yet");
    runs_short.send_replace(Some(vec![(Pressure::Disk, false)]));
    assert_eq!((reported_status(&outbox, "DiskPressure").await, calls()), ("False".to_owned(), 1));
    let since = Instant::now();
    runs_short.send_replace(Some(vec![(Pressure::Disk, true)]));
    assert_eq!((reported_status(&outbox, "DiskPressure").await, calls()), ("True".to_owned(), 1));
    assert_eq!(since.elapsed(), Duration::ZERO);
    // Nothing changes, so the report is due at the heartbeat interval.
    assert_eq!((reported_status(&outbox, "DiskPressure").await, calls()), ("True".to_owned(), 2));
    assert_eq!(since.elapsed(), HEARTBEAT);
    drop(reaches.send_replace(Err("no range".to_owned())));
    assert_eq!((reported_status(&outbox, "Ready").await, calls()), ("False".to_owned(), 3));
    let down = EngineHealth::Down { since: Timestamp::now(), message: "gone".to_owned() };
    up.send_replace(down);
    assert_eq!((reported_status(&outbox, "Ready").await, calls()), ("False".to_owned(), 3));
}

#[test]
fn the_status_has_the_largest_named_images() {
    let image = |id: &str, digest: Option<&str>, tags: &[&str], size_bytes| Image {
        id: id.to_owned(),
        repo_digest: digest.map(str::to_owned),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        user: String::new(),
        size_bytes,
    };
    let many = (0..60).map(|number| image(&number.to_string(), None, &["small"], 1));
    let others = [
        image("a", Some("web@sha256:1"), &["web:1", "web:2", "web:3", "web:4", "web:5"], 7),
        image("b", None, &[], 9),
        image("c", None, &["db:1"], 8),
    ];
    let found = largest(many.chain(others).collect());
    assert_eq!(found.len(), MAX_IMAGES);
    let expected = NodeImage { names: vec!["db:1".to_owned()], size_bytes: 8 };
    assert_eq!(found[0], expected);
    assert_eq!(found[1].names, ["web@sha256:1", "web:1", "web:2", "web:3", "web:4"]);
    assert_eq!(found[2].size_bytes, 1);
}
