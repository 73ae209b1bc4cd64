//! The PLEG with a fake engine, on tokio's paused clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::health::Health;
use crate::metrics::Metrics;
use crate::observed::{Pod, PodUid};
use crate::pleg::{EngineHealth, Pleg, RELIST_EVERY};
use crate::runtime::contract::{Bench, identity};
use crate::runtime::fake::{Fake, HANG};
use crate::runtime::{Error, Runtime};

struct World {
    fake: Fake,
    bench: Bench,
    pleg: Arc<Pleg>,
}

/// Timeout for expected events, in paused time.
const DEADLINE: Duration = Duration::from_secs(120);

impl World {
    /// A PLEG that has not started.
    fn new() -> Self {
        let fake = Fake::new("n");
        let runtime: Arc<dyn Runtime> = Arc::new(fake.clone());
        let bench = Bench {
            neighbour: Arc::new(fake.neighbour("m")),
            runtime: runtime.clone(),
            sandbox_image: "coracle/pause:fake".to_owned(),
            image: "coracle/busybox:1".to_owned(),
        };
        Self { fake, bench, pleg: Pleg::new(runtime, Arc::new(Metrics::new("n", "v1.36.0")), Health::new()) }
    }

    /// Starts the PLEG and waits for the first relist, complete except for hung inspections.
    async fn observe(&self) {
        tokio::spawn(self.pleg.clone().run());
        within(self.pleg.synced(), |synced| *synced).await;
        for known in self.pleg.known() {
            let mut pod = self.pleg.subscribe(&known.uid);
            let seen = pod.wait_for(|pod| pod.uninspected.is_empty());
            let _ = tokio::time::timeout(Duration::from_millis(50), seen).await;
        }
    }

    async fn until(&self, pod: &str, holds: impl FnMut(&Arc<Pod>) -> bool) {
        within(self.pleg.subscribe(&uid(pod)), holds).await;
    }

    fn pod(&self, pod: &str) -> Arc<Pod> {
        self.pleg.pod(&uid(pod))
    }
}

fn uid(pod: &str) -> PodUid {
    identity(pod, "app").uid
}

async fn within<T: Clone>(mut state: watch::Receiver<T>, holds: impl FnMut(&T) -> bool) -> T {
    tokio::time::timeout(DEADLINE, state.wait_for(holds)).await.expect("it happens in time").unwrap().clone()
}

fn runs(pod: &Pod) -> bool {
    pod.newest("app").is_some_and(|app| app.state.is_running())
}

#[tokio::test(start_paused = true)]
async fn first_relist_inspects_existing_containers_before_it_completes() {
    let world = World::new();
    world.bench.running("one", "sleep 1000").await;
    world.bench.running("two", "sleep 1000").await;
    world.observe().await;
    assert!(runs(&world.pod("one")) && runs(&world.pod("two")));
    assert_eq!(world.pleg.known().len(), 2);
    assert_eq!(world.pod("one").sandboxes.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn engine_event_triggers_an_inspection_at_once() {
    let world = World::new();
    world.observe().await;
    let begun = Instant::now();
    let app = world.bench.running("one", "sleep 1000").await;
    world.until("one", |pod| runs(pod)).await;
    world.fake.exit(&app.id, 3);
    world.until("one", |pod| !runs(pod)).await;
    world.bench.runtime.remove(&app.id).await.unwrap();
    world.until("one", |pod| pod.newest("app").is_none()).await;
    assert!(begun.elapsed() < RELIST_EVERY, "no relist was needed: {:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_relist_finds_changes_without_an_event() {
    let world = World::new();
    let app = world.bench.running("one", "sleep 1000").await;
    world.observe().await;
    world.fake.vanish(&app.id, true);
    world.until("one", |pod| pod.newest("app").is_none()).await;
    assert!(!world.pod("one").is_gone(), "the sandbox is there");
}

#[tokio::test(start_paused = true)]
async fn unchanged_relist_inspects_nothing() {
    let world = World::new();
    world.bench.running("one", "sleep 10000").await;
    world.observe().await;
    let inspections = || world.fake.calls().iter().filter(|call| call.starts_with("inspect")).count();
    let before = inspections();
    let_pass(RELIST_EVERY * 5).await;
    assert_eq!(inspections(), before);
    assert!(world.fake.calls().iter().filter(|call| *call == "list").count() >= 5);
}

#[tokio::test(start_paused = true)]
async fn hanging_inspection_blocks_only_its_pod() {
    let world = World::new();
    let mut hung = Vec::new();
    for pod in 0..20 {
        hung.push(world.bench.running(&format!("hung-{pod}"), "sleep 1000").await.id);
    }
    let begun = Instant::now();
    for id in &hung {
        world.fake.set_hung(id, true);
    }
    world.observe().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "the node goes ahead: {:?}", begun.elapsed());
    assert!(!world.pod("hung-0").uninspected.is_empty(), "that one is not known to be gone");

    let begun = Instant::now();
    let fine = world.bench.running("fine", "sleep 1000").await;
    world.until("fine", |pod| runs(pod)).await;
    world.fake.exit(&fine.id, 0);
    world.until("fine", |pod| pod.newest("app").is_some() && !runs(pod)).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "others do not wait: {:?}", begun.elapsed());

    for id in &hung {
        world.fake.set_hung(id, false);
    }
    world.until("hung-0", |pod| runs(pod)).await;
    assert!(world.pod("hung-0").uninspected.is_empty());
}

#[tokio::test(start_paused = true)]
async fn failed_inspection_keeps_the_cache_and_is_retried() {
    let world = World::new();
    let app = world.bench.running("one", "sleep 1000").await;
    world.observe().await;
    world.fake.set_hung(&app.id, true);
    world.fake.exit(&app.id, 1);
    let_pass(HANG / 2).await;
    assert!(runs(&world.pod("one")), "as it was last seen");
    world.fake.set_hung(&app.id, false);
    world.until("one", |pod| !runs(pod)).await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_failure_is_reported_and_the_cache_is_kept() {
    let world = World::new();
    let app = world.bench.running("one", "sleep 100000").await;
    world.observe().await;
    assert_eq!(*world.pleg.engine().borrow(), EngineHealth::Up);
    world.fake.set_up(false);
    let down = within(world.pleg.engine(), |engine| matches!(engine, EngineHealth::Down { .. })).await;
    let EngineHealth::Down { message, .. } = down else { panic!("up") };
    assert!(message.contains("connection refused"), "{message}");
    assert!(runs(&world.pod("one")));
    let_pass(Duration::from_secs(600)).await;
    let calls = world.fake.calls().len();
    assert!(calls < 200, "it is not asked without pause: {calls}");
    assert!(runs(&world.pod("one")));

    world.fake.exit(&app.id, 5);
    world.fake.set_up(true);
    within(world.pleg.engine(), |engine| *engine == EngineHealth::Up).await;
    world.until("one", |pod| !runs(pod)).await;
}

#[tokio::test(start_paused = true)]
async fn pleg_waits_for_the_engine_at_start() {
    let world = World::new();
    world.bench.running("one", "sleep 100000").await;
    world.fake.set_up(false);
    tokio::spawn(world.pleg.clone().run());
    within(world.pleg.engine(), |engine| matches!(engine, EngineHealth::Down { .. })).await;
    assert!(!*world.pleg.synced().borrow(), "nothing is concluded from silence");
    world.fake.set_up(true);
    within(world.pleg.synced(), |synced| *synced).await;
    assert!(runs(&world.pod("one")));
}

#[tokio::test(start_paused = true)]
async fn inspection_on_demand_returns_its_error() {
    let world = World::new();
    let app = world.bench.running("one", "sleep 1000").await;
    world.observe().await;
    world.fake.fail_next("inspect", Error::Unreachable { operation: "inspect", message: "no".to_owned() });
    assert!(world.pleg.refresh(&uid("one"), &app.id).await.is_err());
    assert!(runs(&world.pod("one")));
    world.fake.vanish(&app.id, true);
    world.pleg.refresh(&uid("one"), &app.id).await.unwrap();
    assert!(world.pod("one").newest("app").is_none());
}

/// Advances tokio's paused clock.
async fn let_pass(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}
