//! Tests of writes through the API of the node: storage, restarts, deletions, and the merge.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::Api;
use apiserver::admission::ServiceRange;
use apiserver::tasks::Tasks;
use apiserver::watch_cache::WatchCache;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tower::ServiceExt as _;

use super::{Settings, start};
use crate::desired::{Completeness, Desired, Merge, Owner, Snapshot, SourceKind, SourceObject};
use crate::observed::PodUid;
use crate::report::{EndedPods, Outbox};
use crate::status::resources;

/// Timeout of waits.
const DEADLINE: Duration = Duration::from_secs(20);

struct Bed {
    api: Arc<Api>,
    cache: WatchCache,
    arrived: mpsc::Receiver<Arc<Snapshot>>,
    ended: Arc<EndedPods>,
    outbox: Arc<Outbox>,
    desired: watch::Sender<Arc<Desired>>,
    _tasks: Tasks,
}

impl Bed {
    fn new(root: &Path) -> Self {
        let (cache, ended, outbox) = (WatchCache::new(1), Arc::new(EndedPods::default()), Outbox::new());
        let (desired, seen) = watch::channel(Arc::new(Desired::default()));
        let mut tasks = Tasks::default();
        let (snapshots, arrived) = mpsc::channel(1);
        let settings = Settings {
            node: "n1".to_owned(),
            root_dir: root.to_owned(),
            cache: cache.clone(),
            catalog: resources::catalog(),
            desired: seen,
            ended: ended.clone(),
            service_ranges: vec![ServiceRange::DEFAULT],
            is_of_cluster: false,
        };
        let (api, _) = start(settings, snapshots, &outbox, &mut tasks);
        for name in super::SYSTEM_NAMESPACES {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            show(&cache, "namespaces", &object);
        }
        Self { api, cache, arrived, ended, outbox, desired, _tasks: tasks }
    }

    /// Sends a request. Returns the code and the object.
    async fn send(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.send_as(method, path, "application/json", body).await
    }

    async fn send_as(&self, method: &str, path: &str, media_type: &str, body: Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", media_type);
        let answer = self.api.router().oneshot(request.body(Body::from(body.to_string())).unwrap());
        let answer = answer.await.unwrap();
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    async fn snapshot(&mut self) -> Arc<Snapshot> {
        tokio::time::timeout(DEADLINE, self.arrived.recv()).await.unwrap().unwrap()
    }

    /// Waits for a snapshot with this property.
    async fn snapshot_until(&mut self, is_it: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        loop {
            let snapshot = self.snapshot().await;
            if is_it(&snapshot) {
                return snapshot;
            }
        }
    }
}

fn show(cache: &WatchCache, resource: &str, object: &Value) {
    let fields = resources::catalog().rows().fields(resource).cloned().unwrap_or_default();
    cache.put(resource, &apiserver::watch_cache::Draft::new(object.as_object().unwrap(), &fields));
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    })
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}})
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn root() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn a_pushed_pod_is_stored_and_desired_after_a_restart() {
    let root = root();
    let mut bed = Bed::new(root.path());
    assert!(bed.snapshot().await.objects.is_empty());
    let (code, made) = bed.send("POST", PODS, pod("web")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!((&made["spec"]["nodeName"], &made["status"]["phase"]), (&json!("n1"), &json!("Pending")));
    let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
    let snapshot = bed.snapshot_until(|snapshot| snapshot.objects.len() == 1).await;
    drop(bed);
    let mut again = Bed::new(root.path());
    let restarted = again.snapshot().await;
    assert_eq!(restarted.objects[0].object, snapshot.objects[0].object);
    let SourceObject::Pod(desired) = &restarted.objects[0].object else { panic!() };
    assert_eq!(desired.metadata.uid.as_deref(), Some(uid.as_str()));
    assert_eq!(SourceKind::of(desired), SourceKind::Push);
    let (code, there) = again.send("GET", &format!("{PODS}/web"), Value::Null).await;
    assert_eq!((code, &there["metadata"]["uid"]), (200, &json!(uid)));
    assert!(there["metadata"]["annotations"].is_null(), "{there}");
}

#[tokio::test]
async fn a_dry_run_and_an_invalid_pod_store_nothing() {
    let root = root();
    let bed = Bed::new(root.path());
    assert_eq!(bed.send("POST", &format!("{PODS}?dryRun=All"), pod("web")).await.0, 201);
    let mut invalid = pod("bad");
    invalid["spec"]["containers"][0]["image"] = "".into();
    assert_eq!(bed.send("POST", PODS, invalid).await.0, 422);
    let mut elsewhere = pod("elsewhere");
    elsewhere["spec"]["nodeName"] = "n2".into();
    let (code, why) = bed.send("POST", PODS, elsewhere).await;
    assert_eq!(code, 403, "{why}");
    assert!(why["message"].as_str().unwrap().contains("remove spec.nodeName"), "{why}");
    let (code, why) = bed.send("POST", "/api/v1/namespaces/none/pods", pod("web")).await;
    assert_eq!((code, &why["message"]), (404, &json!("namespaces \"none\" not found")));
    assert_eq!(bed.send("GET", PODS, Value::Null).await.1["items"], json!([]));
    assert!(!root.path().join("pushed").exists());
}

#[tokio::test]
async fn updates_of_a_pod_follow_the_stock_rules() {
    let root = root();
    let mut bed = Bed::new(root.path());
    let (_, made) = bed.send("POST", PODS, pod("web")).await;
    let before = bed.snapshot_until(|snapshot| snapshot.objects.len() == 1).await;
    let path = format!("{PODS}/web");
    let patch = "application/strategic-merge-patch+json";
    let image = json!({"spec": {"containers": [{"name": "main", "image": "alpine"}]}});
    let (code, edited) = bed.send_as("PATCH", &path, patch, image).await;
    assert_eq!((code, &edited["spec"]["containers"][0]["image"]), (200, &json!("alpine")), "{edited}");
    let edit = bed.snapshot().await;
    assert_ne!(before.objects[0].object, edit.objects[0].object);
    let name = json!({"spec": {"hostNetwork": true}});
    let (code, why) = bed.send_as("PATCH", &path, patch, name).await;
    assert_eq!((code, &why["reason"]), (422, &json!("Invalid")), "{why}");
    // The first version has an old resourceVersion.
    let (code, why) = bed.send("PUT", &path, made).await;
    assert_eq!((code, &why["reason"]), (409, &json!("Conflict")), "{why}");
    let status = json!({"status": {"phase": "Failed"}});
    let (code, why) = bed.send_as("PATCH", &format!("{path}/status"), patch, status).await;
    assert_eq!(code, 403, "{why}");
}

#[tokio::test]
async fn server_side_apply_creates_and_repeats_without_a_change() {
    let root = root();
    let bed = Bed::new(root.path());
    let path = format!("{PODS}/web?fieldManager=kubectl");
    let apply = "application/apply-patch+yaml";
    let (code, made) = bed.send_as("PATCH", &path, apply, pod("web")).await;
    assert_eq!(code, 201, "{made}");
    let (code, again) = bed.send_as("PATCH", &path, apply, pod("web")).await;
    assert_eq!((code, &again["metadata"]), (200, &made["metadata"]));
}

#[tokio::test]
async fn a_deleted_pod_stays_until_nothing_of_it_is_left() {
    let root = root();
    let mut bed = Bed::new(root.path());
    let (_, made) = bed.send("POST", PODS, pod("web")).await;
    let (code, deleted) = bed.send("DELETE", &format!("{PODS}/web"), Value::Null).await;
    assert_eq!((code, deleted["metadata"]["deletionGracePeriodSeconds"].as_i64()), (200, Some(30)));
    let mut merge = Merge::new([SourceKind::Push]);
    let snapshot = bed
        .snapshot_until(|snapshot| {
            let mut pods = snapshot.objects.iter().map(|found| found.object.metadata());
            pods.any(|metadata| metadata.deletion_timestamp.is_some())
        })
        .await;
    let desired = merge.put(snapshot);
    let uid = PodUid::new(made["metadata"]["uid"].as_str().unwrap());
    assert!(desired.pods[&uid].is_terminating());
    bed.ended.add(uid, "default", "web");
    bed.snapshot_until(|snapshot| snapshot.objects.is_empty()).await;
    assert_eq!(bed.send("GET", &format!("{PODS}/web"), Value::Null).await.0, 404);
    drop(bed);
    assert!(Bed::new(root.path()).snapshot().await.objects.is_empty());
}

#[tokio::test]
async fn an_ended_pod_without_deletion_stays() {
    let root = root();
    let bed = Bed::new(root.path());
    let (_, made) = bed.send("POST", PODS, pod("job")).await;
    bed.ended.add(PodUid::new(made["metadata"]["uid"].as_str().unwrap()), "default", "job");
    // A later deletion of another pod shows that the queue was processed.
    let (_, other) = bed.send("POST", PODS, pod("other")).await;
    bed.send("DELETE", &format!("{PODS}/other"), Value::Null).await;
    bed.ended.add(PodUid::new(other["metadata"]["uid"].as_str().unwrap()), "default", "other");
    let gone = async {
        while bed.cache.get("pods", "default", "other").is_some() {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
    assert_eq!(bed.send("GET", &format!("{PODS}/job"), Value::Null).await.0, 200);
}

#[tokio::test]
async fn a_deleted_namespace_removes_its_pushed_objects() {
    let root = root();
    let bed = Bed::new(root.path());
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    assert_eq!(bed.send("POST", "/api/v1/namespaces", namespace).await.0, 201);
    assert_eq!(bed.send("POST", "/api/v1/namespaces/shop/configmaps", map("a", "1")).await.0, 201);
    assert_eq!(bed.send("POST", "/api/v1/namespaces/shop/pods", pod("web")).await.0, 201);
    let (_, web) = bed.send("GET", "/api/v1/namespaces/shop/pods/web", Value::Null).await;
    assert_eq!(bed.send("DELETE", "/api/v1/namespaces/shop", Value::Null).await.0, 200);
    assert_eq!(bed.send("POST", "/api/v1/namespaces/shop/configmaps", map("b", "1")).await.0, 403);
    let terminates = async {
        while !bed.cache.get("pods", "shop", "web").is_some_and(|pod| pod.is_terminating()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, terminates).await.unwrap();
    assert!(bed.cache.get("namespaces", "", "shop").is_some());
    bed.ended.add(PodUid::new(web["metadata"]["uid"].as_str().unwrap()), "shop", "web");
    let gone = async {
        while bed.cache.get("namespaces", "", "shop").is_some() {
            tokio::task::yield_now().await
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
    assert_eq!(std::fs::read_dir(root.path().join("pushed")).unwrap().count(), 0);
    let (code, why) = bed.send("DELETE", "/api/v1/namespaces/default", Value::Null).await;
    assert_eq!(code, 403, "{why}");
}

#[tokio::test]
async fn objects_of_other_sources_are_read_only_and_name_their_owner() {
    let root = root();
    let bed = Bed::new(root.path());
    let mut shown = map("settings", "1");
    shown["metadata"]["namespace"] = "default".into();
    show(&bed.cache, "configmaps", &shown);
    let SourceObject::ConfigMap(typed) =
        SourceObject::ConfigMap(Arc::new(serde_json::from_value(shown).unwrap()))
    else {
        panic!()
    };
    let owner = Owner { source: SourceKind::File, origin: "/etc/pods/a.yaml".into() };
    let name = SourceObject::ConfigMap(typed).object_name();
    let desired = Desired { owners: [(name, owner)].into(), ..Desired::default() };
    bed.desired.send_replace(Arc::new(desired));
    let path = format!("{MAPS}/settings");
    let patch = json!({"data": {"a": "2"}});
    for (method, body) in [("PATCH", patch), ("DELETE", Value::Null), ("PUT", map("settings", "2"))] {
        let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let (code, why) = bed.send_as(method, &path, media_type, body).await;
        let expected = "configmaps \"settings\" is forbidden: it belongs to the file /etc/pods/a.yaml \
                        (--pod-manifest-path): edit or remove it there";
        assert_eq!((code, &why["message"]), (403, &json!(expected)), "{method}");
    }
    let (code, why) = bed.send("POST", MAPS, map("settings", "2")).await;
    assert_eq!((code, &why["reason"]), (409, &json!("AlreadyExists")));
}

#[tokio::test]
async fn a_damaged_file_causes_an_event_and_loses_no_other_object() {
    let root = root();
    let bed = Bed::new(root.path());
    bed.send("POST", MAPS, map("a", "1")).await;
    bed.send("POST", MAPS, map("b", "1")).await;
    drop(bed);
    let directory = root.path().join("pushed");
    let mut files: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    std::fs::write(&files[0], "{}").unwrap();
    let mut bed = Bed::new(root.path());
    let snapshot = bed.snapshot().await;
    assert_eq!(snapshot.objects.len(), 1);
    assert_eq!(snapshot.completeness, Completeness::Incomplete, "no pod ends because of the damage");
    let notes = bed.outbox.take().await.notes;
    assert_eq!(notes[0].reason, "PushedObjectDamaged");
    assert!(notes[0].message.contains("it is incomplete"), "{}", notes[0].message);
    assert_eq!(bed.send("POST", MAPS, map("a", "2")).await.0, 201);
}

#[tokio::test]
async fn a_write_that_does_not_reach_the_disk_changes_nothing() {
    let root = root();
    let bed = Bed::new(root.path());
    // A file in place of the directory fails every write, also for root.
    std::fs::write(root.path().join("pushed"), "").unwrap();
    let (code, why) = bed.send("POST", MAPS, map("a", "1")).await;
    assert!(code >= 500 && why["message"].as_str().unwrap().contains("cannot be written"), "{why}");
    assert_eq!(bed.send("GET", &format!("{MAPS}/a"), Value::Null).await.0, 404);
}
