//! Leader election on a paused clock.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use apiserver::registry::Registry;
use apiserver::storage::{Limits, Memory};
use apiserver::{Api, Catalog, Version, kinds};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use http::Method;
use tokio::task::JoinHandle;

use super::*;

fn lease(own: &str) -> LeaderElector {
    LeaderElector::new(Client::in_process(axum::Router::new()), "lease", own)
}

fn plan(elector: &mut LeaderElector, found: Option<Json>, time: Timestamp, now: Instant) -> Step {
    elector.plan(found, time, now).unwrap()
}

fn holder(lease: &Json) -> String {
    lease.read::<Lease>().unwrap().spec.holder_identity.into()
}

#[tokio::test]
async fn a_lease_is_taken_when_its_holder_does_not_renew_it() {
    let (mut one, mut two, now) = (lease("one"), lease("two"), Instant::now());
    let time = "2026-01-01T00:00:00Z".parse().unwrap();
    let Step::Create(Value::Object(mut made)) = plan(&mut one, None, time, now) else { panic!("not made") };
    assert_eq!(
        (holder(&made), &made["spec"]["renewTime"]),
        ("one".into(), &json!("2026-01-01T00:00:00.000000Z"))
    );
    let written = |lease: &mut Json, version: &str| {
        lease.get_mut("metadata").unwrap()["resourceVersion"] = version.into();
        lease.clone()
    };
    let first = written(&mut made, "1");
    assert_eq!(plan(&mut two, Some(first.clone()), time, now), Step::Wait);
    assert!(matches!(plan(&mut one, Some(first.clone()), time, now), Step::Update(_)));
    assert_eq!(plan(&mut two, Some(first), time, now + LEASE_DURATION - RETRY_PERIOD), Step::Wait);
    let second = written(&mut made, "2");
    assert_eq!(
        plan(&mut two, Some(second.clone()), time, now + LEASE_DURATION),
        Step::Wait,
        "it was renewed"
    );
    let Step::Update(mut taken) = plan(&mut two, Some(second), time, now + LEASE_DURATION * 2) else {
        panic!("not taken")
    };
    assert_eq!((holder(&taken), &taken["spec"]["leaseTransitions"]), ("two".into(), &json!(1)));
    assert_eq!(plan(&mut one, Some(written(&mut taken, "3")), time, now), Step::Wait);
    set(&mut taken, "holderIdentity", "".into());
    assert!(matches!(plan(&mut one, Some(taken), time, now), Step::Update(_)), "it was given back");
}

/// Behaviour of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mood {
    Well,
    /// Responses to writes are delayed.
    Late(Duration),
    /// No request is answered.
    Deaf,
    /// Another client changes the lease before every other write.
    Meddled,
}

/// An in-process server, and its behaviour.
struct Bed {
    client: Client,
    mood: watch::Sender<Mood>,
}

/// The start and end of each term as leader.
type Spells = Vec<(Instant, Option<Instant>)>;

/// A candidate for the lease.
struct Running {
    spells: watch::Receiver<Spells>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Ends the current term on drop.
struct Spell(Arc<watch::Sender<Spells>>);

impl Drop for Spell {
    fn drop(&mut self) {
        self.0.send_modify(|spells| spells.last_mut().unwrap().1 = Some(Instant::now()));
    }
}

impl Bed {
    async fn new() -> Self {
        let version = Version { major: "1", minor: "36", git_version: "test" };
        let store = Arc::new(Memory::new(Limits::default()));
        let registry = Registry::open(store, Catalog::new(kinds::all())).await.unwrap();
        let router = Api::writable(registry, Vec::new(), version).router();
        let plain = Client::in_process(router.clone());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        plain.create(&Kind::NAMESPACE, "", namespace).await.unwrap();
        let (mood, felt) = watch::channel(Mood::Well);
        let writes = Arc::new(AtomicUsize::new(0));
        let moody = move |request: Request, next: Next| {
            let (plain, felt, writes) = (plain.clone(), felt.clone(), writes.clone());
            async move {
                let mood = *felt.borrow();
                let is_write = request.method() != Method::GET;
                match mood {
                    Mood::Deaf => pending().await,
                    Mood::Meddled
                        if request.method() == Method::PUT && writes.fetch_add(1, Relaxed) % 2 == 0 =>
                    {
                        let note =
                            json!({"metadata": {"annotations": {"note": writes.load(Relaxed).to_string()}}});
                        plain.patch(&Kind::LEASE, NAMESPACE, "lease", note).await.unwrap();
                    }
                    Mood::Well | Mood::Late(_) | Mood::Meddled => {}
                }
                let answer = next.run(request).await;
                if let (Mood::Late(late), true) = (mood, is_write) {
                    pass(late).await;
                }
                answer
            }
        };
        Self { client: Client::in_process(router.layer(from_fn(moody))), mood }
    }

    fn start(&self, own: &str) -> Running {
        let (spells, seen) = watch::channel(Vec::new());
        let spells = Arc::new(spells);
        let work = move || {
            let spells = spells.clone();
            async move {
                spells.send_modify(|all| all.push((Instant::now(), None)));
                let _spell = Spell(spells);
                pending::<()>().await;
            }
        };
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(LeaderElector::new(self.client.clone(), "lease", own).run(work, stopped));
        Running { spells: seen, stop, task }
    }
}

impl Running {
    /// Waits until this candidate is the leader.
    async fn works(&mut self) {
        let works = |spells: &Spells| spells.last().is_some_and(|last| last.1.is_none());
        self.spells.wait_for(works).await.unwrap();
    }

    /// Waits until this candidate is no longer the leader; returns when it stopped.
    async fn ends(&mut self) -> Instant {
        let ended = |spells: &Spells| spells.last().is_some_and(|last| last.1.is_some());
        self.spells.wait_for(ended).await.unwrap().last().unwrap().1.unwrap()
    }
}

async fn pass(time: Duration) {
    let _ = timeout(time, pending::<()>()).await;
}

#[tokio::test(start_paused = true)]
async fn foreign_writes_do_not_end_the_lease() {
    let bed = Bed::new().await;
    bed.mood.send_replace(Mood::Meddled);
    let mut one = bed.start("one");
    pass(LEASE_DURATION * 4).await;
    one.works().await;
    assert_eq!(one.spells.borrow().len(), 1, "it worked on");
    let mut two = bed.start("two");
    pass(LEASE_DURATION * 4).await;
    assert!(two.spells.borrow().is_empty());
    one.stop.send_replace(true);
    two.works().await;
    assert!(one.ends().await <= two.spells.borrow()[0].0);
    let taken = json!({"spec": {"holderIdentity": "three"}});
    bed.client.patch(&Kind::LEASE, NAMESPACE, "lease", taken).await.unwrap();
    two.ends().await;
}

#[tokio::test(start_paused = true)]
async fn lease_duration_starts_at_the_request_not_at_the_response() {
    let bed = Bed::new().await;
    bed.mood.send_replace(Mood::Late(RETRY_PERIOD - Duration::from_millis(100)));
    let begun = Instant::now();
    let mut one = bed.start("one");
    one.works().await;
    bed.mood.send_replace(Mood::Deaf);
    let held = one.ends().await.duration_since(begun);
    assert!(held <= RENEW_DEADLINE, "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn late_response_does_not_acquire_the_lease() {
    let bed = Bed::new().await;
    bed.mood.send_replace(Mood::Late(LEASE_DURATION - Duration::from_secs(1)));
    let mut one = bed.start("one");
    pass(LEASE_DURATION * 4).await;
    assert!(one.spells.borrow().is_empty(), "it could be over by then");
    bed.mood.send_replace(Mood::Well);
    one.works().await;
}

#[tokio::test(start_paused = true)]
async fn stop_does_not_wait_for_an_unresponsive_server() {
    let bed = Bed::new().await;
    let mut one = bed.start("one");
    one.works().await;
    bed.mood.send_replace(Mood::Deaf);
    let told = Instant::now();
    one.stop.send_replace(true);
    one.task.await.unwrap();
    assert!(told.elapsed() <= RELEASE_TIMEOUT, "{:?}", told.elapsed());
}

#[tokio::test(start_paused = true)]
async fn stopping_holder_releases_the_lease() {
    let bed = Bed::new().await;
    let (mut one, mut two) = (bed.start("one"), bed.start("two"));
    tokio::select! { () = one.works() => {}, () = two.works() => std::mem::swap(&mut one, &mut two) }
    pass(LEASE_DURATION).await;
    let told = Instant::now();
    one.stop.send_replace(true);
    one.task.await.unwrap();
    let given_back = bed.client.find(&Kind::LEASE, NAMESPACE, "lease").await.unwrap().unwrap();
    assert_eq!(holder(&given_back), "");
    two.works().await;
    assert!(told.elapsed() <= RETRY_PERIOD * 2, "{:?}", told.elapsed());
}
