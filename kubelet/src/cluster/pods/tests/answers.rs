//! One failing request does not affect the other pods.

use apiserver::tasks::Tasks;
use tokio::sync::Notify;

use super::super::mirror_client::MirrorClient;
use super::super::mirror_pods::MirrorPods;
use super::super::token_manager::TokenManager;
use super::super::{Settings, Shared, State, start, watch_api_service, watch_object};
use super::*;
use crate::cluster::tests::fake::Fake;
use crate::desired::{Desired, DesiredPod, SourceKind};
use crate::identity::EventReporter;
use crate::report::Outbox;

/// State with these pods assigned, and without the objects that they refer to.
fn shared(pods: &[Value]) -> Arc<Shared> {
    let mut pod_store = PodStore::new("n1");
    pod_store.apply(all(pods, 100));
    pod_store.confirm("node-1");
    let mut reference_cache = ReferenceCache::default();
    reference_cache.tokens.set_pods(pod_store.active_pods());
    let state = State { pod_store, reference_cache, mirror_pods: MirrorPods::default(), dirty: [].into() };
    Arc::new(Shared { state: state.into(), changed: watch::channel(()).0, relist: Notify::new() })
}

/// Waits until the state satisfies the condition.
async fn time_until(shared: &Shared, is_so: impl Fn(&State) -> bool) {
    let mut changed = shared.changed.subscribe();
    while !is_so(&shared.lock()) {
        changed.changed().await.unwrap();
    }
}

#[tokio::test]
async fn failing_token_request_does_not_block_others() {
    let pod_with_token = |name: &str, uid: &str| {
        let token = json!({"serviceAccountToken": {"path": "token"}});
        with(pod(name, uid, 10), "/spec/volumes", json!([{"name": "v", "projected": {"sources": [token]}}]))
    };
    let (fake, api) = Fake::start().await;
    let (access, apis) = watch::channel(Some(api));
    let shared = shared(&[pod_with_token("db", "u1"), pod_with_token("web", "u2")]);
    let given = json!({"status": {"token": "t"}});
    fake.respond(500, None);
    fake.respond(200, Some(given.clone()));
    fake.respond(200, Some(given));
    let token_manager = TokenManager { shared: shared.clone(), apis, outbox: Arc::new(Outbox::default()) };
    let asking = tokio::spawn(token_manager.run());
    time_until(&shared, |state| state.reference_cache.tokens.held().count() == 2).await;
    let bodies: Vec<Value> = fake.requests_with_bodies().into_iter().map(|(_, sent)| sent).collect();
    let names: Vec<&str> =
        bodies.iter().map(|sent| sent["spec"]["boundObjectRef"]["name"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["db", "web"]);
    asking.abort();
    drop(access);
}

#[tokio::test]
async fn failing_mirror_pod_does_not_block_others() {
    let mut desired = Desired { completeness: Completeness::Complete, ..Desired::default() };
    for (name, uid) in [("db", "l1"), ("web", "l2")] {
        let own = Arc::new(serde_json::from_value(pod(name, uid, 1)).unwrap());
        let uid = PodUid::new(uid);
        let own = DesiredPod { uid: uid.clone(), pod: own, source: SourceKind::File };
        desired.pods.insert(uid, Arc::new(own));
    }
    let (fake, api) = Fake::start().await;
    let (access, apis) = watch::channel(Some(api));
    let (wanting, desired) = watch::channel(Arc::new(desired));
    let shared = shared(&[]);
    fake.respond(500, None);
    let outbox = Arc::new(Outbox::default());
    let node = "n1".to_owned();
    let reflecting = tokio::spawn(MirrorClient { node, shared, apis, desired, outbox }.run());
    let (mut names, mut look) = (Vec::new(), tokio::time::interval(std::time::Duration::from_millis(10)));
    while names.len() < 3 {
        look.tick().await;
        let bodies = fake.requests_with_bodies().into_iter();
        names.extend(bodies.map(|(_, sent)| sent["metadata"]["name"].as_str().unwrap().to_owned()));
    }
    assert_eq!(names, ["db", "web", "db"]);
    reflecting.abort();
    drop((access, wanting));
}

#[tokio::test]
async fn waiting_pod_reports_the_server_error_of_its_reference() {
    let env = json!([{"secretRef": {"name": "key"}}]);
    let (fake, api) = Fake::start().await;
    let (access, apis) = watch::channel(Some(api));
    let shared = shared(&[with(pod("web", "u1", 10), "/spec/containers/0/envFrom", env)]);
    let [_, key] = objects();
    shared.lock().reference_cache.set_watched(&[key.clone()].into());
    for _ in 0..9 {
        fake.respond(500, None);
    }
    let following = tokio::spawn(watch_object(shared.clone(), apis, key));
    let mut look = tokio::time::interval(Duration::from_millis(10));
    let warning = loop {
        look.tick().await;
        let state = shared.lock();
        let (pod, missing) = state.pod_store.waiting_pod(&PodUid::new("u1"), &state.reference_cache).unwrap();
        let (reason, text) = waiting::event(pod, &missing);
        if text.contains("500") {
            break format!("{reason}: {text}");
        }
    };
    assert!(
        warning.contains("secrets default/key (http") && warning.contains("by the test: 500"),
        "{warning}"
    );
    assert!(warning.starts_with("Failed: "), "{warning}");
    following.abort();
    drop(access);
}

#[tokio::test]
async fn failing_secret_fetch_does_not_block_the_end_of_other_pods() {
    let (fake, api) = Fake::start().await;
    let list = |items: Value| json!({"metadata": {"resourceVersion": "100"}, "items": items});
    let env = json!([{"secretRef": {"name": "key"}}]);
    let web = with(pod("web", "u1", 10), "/spec/containers/0/envFrom", env);
    fake.always_respond("/api/v1/pods?", 200, list(json!([web, pod("db", "u2", 20)])));
    fake.always_respond("/services?", 200, list(json!([])));
    fake.always_respond("/secrets?", 500, json!({"message": "by the test"}));
    fake.always_respond("/nodes/n1", 200, json!({"metadata": {"uid": "node-1"}}));
    let folder = tempfile::tempdir().unwrap();
    let (access, apis) = watch::channel(Some(api));
    let (wanting, desired) = watch::channel(Arc::default());
    let (snapshots, mut received) = tokio::sync::mpsc::channel(2);
    let outbox = Outbox::new();
    let settings = Settings {
        node: "n1".to_owned(),
        root_dir: folder.path().to_owned(),
        apis,
        snapshots,
        reports: Arc::default(),
        desired,
        outbox: outbox.clone(),
    };
    let mut tasks = Tasks::default();
    start(settings, || EventReporter::new("n1", outbox.clone()), &mut tasks);
    // A pod on the node that is in neither list is no longer desired.
    let snapshot = loop {
        let snapshot = received.recv().await.unwrap();
        if !snapshot.objects.is_empty() && snapshot.completeness == Completeness::Complete {
            break snapshot;
        }
    };
    let names: Vec<String> = snapshot.objects.iter().map(|found| found.name.name.clone()).collect();
    assert_eq!((names, &snapshot.waiting), (vec!["db".to_owned()], &[PodUid::new("u1")].into()));
    // The checkpoint records which pods have not started.
    let (kept, mut look) =
        (CheckpointDir::under(folder.path()), tokio::time::interval(Duration::from_millis(10)));
    let begun = loop {
        look.tick().await;
        let pods = kept.read().await.pods.into_iter();
        let begun: std::collections::BTreeMap<_, _> = pods
            .map(|persisted| (persisted.pod.metadata.uid.clone().unwrap(), persisted.is_published))
            .collect();
        if begun.get("u2") == Some(&true) {
            break begun;
        }
    };
    assert_eq!(begun.get("u1"), Some(&false));
    drop((access, wanting));
}

#[tokio::test]
async fn pods_do_not_wait_for_a_server_that_has_no_services() {
    let (fake, api) = Fake::start().await;
    let (access, apis) = watch::channel(Some(api));
    let shared = shared(&[]);
    let uid = PodUid::new("u1");
    let is_answered = |state: &State| state.reference_cache.missing(&uid, &[].into()).is_empty();
    assert!(!is_answered(&shared.lock()));
    for _ in 0..9 {
        fake.respond(404, None);
    }
    let following = tokio::spawn(watch_api_service(shared.clone(), apis));
    time_until(&shared, is_answered).await;
    following.abort();
    drop(access);
}
