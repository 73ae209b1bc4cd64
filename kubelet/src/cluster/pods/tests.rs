//! Changes in the API server and their effect on pods, one case per line.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod answers;

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::nodes::{Kind, Object};
use client::Delta;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::checkpoint::{Checkpoint, CheckpointDir};
use super::pod_store::{PersistedPod, PodStore, ServerState};
use super::reference_cache::ReferenceCache;
use super::server_pod::ServerPod;
use super::status::patch;
use super::waiting;
use crate::desired::{Completeness, SourceObject};
use crate::identity::ApiError;
use crate::observed::PodUid;

fn pod(name: &str, uid: &str, version: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": uid, "resourceVersion": version.to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "m"}],
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending"},
    })
}

/// The pod with this value at a JSON pointer.
fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[field] = value;
    pod
}

fn terminating(pod: Value) -> Value {
    with(pod, "/metadata/deletionTimestamp", "2026-01-01T01:00:00Z".into())
}

fn all(pods: &[Value], version: u64) -> Delta<Value> {
    Delta::Replaced(pods.to_vec(), version.to_string())
}

/// A cache that does not fetch the objects that every pod refers to.
fn reference_cache() -> ReferenceCache {
    let mut reference_cache = ReferenceCache::default();
    reference_cache.mark_api_service_refused();
    reference_cache
}

fn names(pod_store: &mut PodStore) -> String {
    let snapshot = pod_store.snapshot(&reference_cache());
    let names: Vec<String> = snapshot.objects.iter().map(|found| found.object.object_name().name).collect();
    names.join(" ")
}

/// A node with the pods `web` (u1) and `db` (u2), assigned by an API server at revision 100.
fn running() -> PodStore {
    let mut pod_store = PodStore::new("n1");
    pod_store.apply(all(&[pod("web", "u1", 10), pod("db", "u2", 20)], 100));
    assert!(pod_store.confirm("node-1").is_empty());
    assert_eq!(names(&mut pod_store), "web db");
    pod_store
}

#[test]
fn pod_list_is_trusted_once_the_server_has_the_node() {
    let mut pod_store = PodStore::new("n1");
    let completeness = |pod_store: &mut PodStore| pod_store.snapshot(&ReferenceCache::default()).completeness;
    pod_store.apply(all(&[pod("web", "u1", 10)], 100));
    assert!(pod_store.is_unconfirmed());
    assert_eq!(
        (names(&mut pod_store), completeness(&mut pod_store)),
        (String::new(), Completeness::Incomplete)
    );
    pod_store.confirm("node-1");
    assert!(!pod_store.is_unconfirmed());
    assert_eq!(
        (names(&mut pod_store), completeness(&mut pod_store)),
        ("web".to_owned(), Completeness::Complete)
    );
    assert_eq!(
        *pod_store.server_state(),
        ServerState { node_uid: Some("node-1".to_owned()), version: Some(100) }
    );
}

/// The ConfigMap `settings`, and a pod with this name and UID that refers to it.
fn configured(name: &str, uid: &str) -> (Object, Value) {
    let volumes = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    let settings = Object::new(Kind::ConfigMap, "default", "settings");
    (settings, with(pod(name, uid, 10), "/spec/volumes", volumes))
}

/// The number of desired pods, the waiting pods, and the completeness.
fn summary(pod_store: &mut PodStore, reference_cache: &ReferenceCache) -> (usize, Vec<String>, Completeness) {
    let snapshot = pod_store.snapshot(reference_cache);
    let pods = snapshot.objects.iter().filter(|found| matches!(found.object, SourceObject::Pod(_))).count();
    (pods, snapshot.waiting.iter().map(ToString::to_string).collect(), snapshot.completeness)
}

#[test]
fn running_pod_stays_desired_while_its_references_are_fetched() {
    let (mut pod_store, mut reference_cache) = (PodStore::new("n1"), ReferenceCache::default());
    let (settings, web) = configured("web", "u1");
    pod_store.apply(all(&[web], 100));
    pod_store.confirm("node-1");
    reference_cache.set_watched(&pod_store.references());
    reference_cache.mark_api_service_refused();
    // A pod that waits for its references does not make the snapshot incomplete, however long it waits.
    assert_eq!(summary(&mut pod_store, &reference_cache), (0, vec!["u1".to_owned()], Completeness::Complete));
    reference_cache.apply(&settings, Delta::Replaced(Vec::new(), "100".to_owned())).unwrap();
    assert_eq!(summary(&mut pod_store, &reference_cache), (1, Vec::new(), Completeness::Complete));
}

#[test]
fn restarted_kubelet_does_not_start_a_waiting_pod() {
    let (settings, web) = configured("web", "u1");
    let (_, db) = configured("db", "u2");
    let [web, db] = [web, db].map(|pod| ServerPod::read(pod, "n1").unwrap().pod.unwrap());
    let [web, db] = [(web, true), (db, false)].map(|(pod, is_published)| PersistedPod {
        pod,
        is_unclaimed: false,
        is_published,
    });
    let (mut pod_store, mut reference_cache) = (PodStore::new("n1"), reference_cache());
    pod_store.restore(vec![web, db], ServerState::default());
    reference_cache.set_watched(&pod_store.references());
    assert_eq!(
        summary(&mut pod_store, &reference_cache),
        (1, vec!["u2".to_owned()], Completeness::Incomplete)
    );
    reference_cache.apply(&settings, all(&[map("settings", "1")], 100)).unwrap();
    assert_eq!(summary(&mut pod_store, &reference_cache), (2, Vec::new(), Completeness::Incomplete));
}

#[test]
fn long_waiting_pod_reports_what_it_waits_for() {
    let (settings, web) = configured("web", "u1");
    let env = json!([{"secretRef": {"name": "key"}}]);
    let (mut pod_store, mut reference_cache) = (PodStore::new("n1"), reference_cache());
    pod_store.apply(all(&[web, with(pod("db", "u2", 20), "/spec/containers/0/envFrom", env)], 100));
    pod_store.confirm("node-1");
    reference_cache.set_watched(&pod_store.references());
    let why = ApiError::invalid("the answer", "does not read");
    reference_cache.on_error(&objects()[1], &why);
    let state_of = |pod_store: &PodStore, reference_cache: &ReferenceCache, uid: &str| {
        pod_store
            .waiting_pod(&PodUid::new(uid), reference_cache)
            .map(|(pod, missing)| waiting::event(pod, &missing))
    };
    let text = |of: &str| {
        format!("the pod does not start before the API server answers requests for {of}; the kubelet retries")
    };
    assert_eq!(
        state_of(&pod_store, &reference_cache, "u1"),
        Some(("FailedMount", text("configmaps default/settings")))
    );
    let of = "secrets default/key (the answer does not read)";
    assert_eq!(state_of(&pod_store, &reference_cache, "u2"), Some(("Failed", text(of))));
    reference_cache.refused(&settings);
    pod_store.snapshot(&reference_cache);
    assert_eq!(state_of(&pod_store, &reference_cache, "u1"), None, "it has begun");
    // A waiting pod is reported after 30 s, and again while it still waits.
    let (start, mut pods) = (Instant::now(), waiting::WaitingPods::default());
    let at = |seconds| start + Duration::from_secs(seconds);
    let waiting = [PodUid::new("u1"), PodUid::new("u2")].into();
    pods.set_waiting(&waiting, at(0));
    assert_eq!((pods.next(), pods.due(at(29)).len()), (Some(at(30)), 0));
    assert_eq!((pods.due(at(30)).len(), pods.next()), (2, Some(at(150))));
    pods.set_waiting(&[PodUid::new("u2")].into(), at(31));
    pods.set_waiting(&waiting, at(32));
    assert_eq!(pods.due(at(62)), [PodUid::new("u1")]);
}

/// Description; changes; the UID that the server has for the node, if any; running pods; number of pods reported as missing.
type Row = (&'static str, Vec<Delta<Value>>, Option<&'static str>, &'static str, usize);

#[test]
fn pod_ends_only_after_a_trusted_deletion() {
    let (web, db) = (|| pod("web", "u1", 10), || pod("db", "u2", 20));
    let rows: Vec<Row> = vec![
        ("it was deleted while the watch went on", vec![Delta::Deleted(db())], None, "web", 0),
        ("it is missing in a newer list", vec![all(&[web()], 101)], Some("node-1"), "web", 0),
        ("nothing has happened meanwhile", vec![all(&[web(), db()], 100)], Some("node-1"), "web db", 0),
        ("a server that does not know the node", vec![all(&[], 101)], None, "web db", 0),
        ("and what it says next", vec![all(&[], 101), Delta::Deleted(db())], None, "web db", 0),
        ("a master that was restored", vec![all(&[web()], 99)], Some("node-1"), "web db", 1),
        ("one that was restored as ours is", vec![all(&[web()], 1_000_000_050)], Some("node-1"), "web db", 1),
        ("a master that lost all, where the node is new", vec![all(&[], 5)], Some("node-2"), "web db", 2),
        ("the same later on", vec![all(&[], 500)], Some("node-2"), "web db", 2),
        (
            "a restored pod that is then reported",
            vec![all(&[web()], 99), Delta::Applied(db())],
            Some("node-1"),
            "web db",
            0,
        ),
        ("another of its name", vec![all(&[web(), pod("db", "u3", 30)], 99)], Some("node-1"), "web db", 0),
        (
            "one that is of another node",
            vec![all(&[web(), with(db(), "/spec/nodeName", "n2".into())], 101)],
            Some("node-1"),
            "web",
            0,
        ),
        (
            "nonsense instead of it",
            vec![Delta::Applied(with(db(), "/spec/containers", 7.into()))],
            None,
            "web db",
            0,
        ),
    ];
    for (what, deltas, node, runs, missing) in rows {
        let mut pod_store = running();
        for delta in deltas {
            pod_store.apply(delta);
        }
        let delta = node.map(|uid| pod_store.confirm(uid)).unwrap_or_default();
        assert_eq!((names(&mut pod_store).as_str(), delta.len()), (runs, missing), "{what}");
    }
}

#[test]
fn a_pod_that_the_api_server_lost_ends_only_by_an_explicit_deletion() {
    let lost = || {
        let mut pod_store = running();
        pod_store.apply(all(&[pod("web", "u1", 10)], 90));
        assert_eq!(pod_store.confirm("node-1").len(), 1);
        pod_store
    };
    // The pod stays while time passes.
    let mut pod_store = lost();
    pod_store.apply(all(&[pod("web", "u1", 10)], 1000));
    assert!(pod_store.confirm("node-1").is_empty(), "it is reported once");
    assert_eq!(names(&mut pod_store), "web db");
    // The pod appears again and is deleted then.
    pod_store.apply(Delta::Applied(pod("db", "u2", 1001)));
    pod_store.apply(all(&[pod("web", "u1", 10)], 1002));
    pod_store.confirm("node-1");
    assert_eq!(names(&mut pod_store), "web");
    // A watch that continues over a restore has no effect before the next list.
    let mut pod_store = running();
    assert!(!pod_store.apply(Delta::Applied(pod("web", "u1", 1_000_000_050))));
    pod_store.apply(all(&[pod("web", "u1", 1_000_000_050)], 1_000_000_060));
    assert_eq!(pod_store.confirm("node-1").len(), 1);
    // A new pod with the same name replaces the missing pod.
    let mut pod_store = lost();
    pod_store.apply(Delta::Applied(pod("db", "u9", 95)));
    assert_eq!(pod_store.assigned().map(|(uid, _)| uid.as_str()).collect::<Vec<_>>(), ["u1", "u9"]);
    // A terminating pod ends within its grace period and does not return.
    let mut pod_store = running();
    pod_store.apply(Delta::Applied(terminating(pod("db", "u2", 101))));
    pod_store.apply(all(&[pod("web", "u1", 10)], 90));
    assert!(pod_store.confirm("node-1").is_empty());
    assert_eq!(names(&mut pod_store), "web db");
    assert!(!pod_store.remove_if_ended(&PodUid::new("u1")) && pod_store.remove_if_ended(&PodUid::new("u2")));
    assert_eq!(names(&mut pod_store), "web");
}

#[test]
fn kubelet_does_not_start_ineligible_pods() {
    let mirror = json!({"kubernetes.io/config.mirror": "h"});
    for (what, pod) in [
        ("an image of a pod that is here already", with(pod("a", "u", 1), "/metadata/annotations", mirror)),
        ("one that has come to its end", with(pod("a", "u", 1), "/status/phase", "Succeeded".into())),
        (
            "one that others have to finish",
            with(pod("a", "u", 1), "/spec/schedulingGates", json!([{"name": "g"}])),
        ),
        ("one with a UID that is a path", pod("a", "../u", 1)),
    ] {
        let mut pod_store = PodStore::new("n1");
        pod_store.apply(all(&[pod], 5));
        pod_store.confirm("node-1");
        assert_eq!(names(&mut pod_store), "", "{what}");
    }
    // A pod that ran here and has reached a terminal phase stays for its logs.
    let mut pod_store = running();
    pod_store.apply(Delta::Applied(with(pod("db", "u2", 101), "/status/phase", "Failed".into())));
    assert_eq!(names(&mut pod_store), "web db");
    assert!(pod_store.forget(&PodUid::new("u2")));
    pod_store.apply(Delta::Applied(with(pod("db", "u2", 102), "/status/phase", "Failed".into())));
    assert_eq!(names(&mut pod_store), "web");
}

#[test]
fn irrelevant_pod_update_keeps_the_same_allocation() {
    let mut pod_store = running();
    let first = |pod_store: &PodStore| pod_store.assigned().next().unwrap().1.persisted.pod.clone();
    let before = first(&pod_store);
    pod_store.apply(Delta::Applied(with(pod("web", "u1", 101), "/status/phase", "Running".into())));
    assert!(Arc::ptr_eq(&before, &first(&pod_store)));
    assert_eq!(pod_store.server_state().version, Some(101));
    pod_store.apply(Delta::Applied(with(pod("web", "u1", 102), "/spec/containers/0/image", "j".into())));
    assert!(!Arc::ptr_eq(&before, &first(&pod_store)));
    // Only the conditions of the pod's readiness gates are kept.
    let gated = with(pod("web", "u1", 103), "/spec/readinessGates", json!([{"conditionType": "G"}]));
    let conditions = json!([{"type": "G", "status": "True"}, {"type": "Ready", "status": "False"}]);
    pod_store.apply(Delta::Applied(with(gated, "/status/conditions", conditions)));
    let kept = first(&pod_store).status.clone().unwrap().conditions.unwrap();
    assert_eq!(kept.iter().map(|c| c.type_.as_str()).collect::<Vec<_>>(), ["G"]);
}

#[test]
fn new_pod_waits_until_its_references_were_fetched() {
    let refers = |pod: Value| {
        let env = json!([{"configMapRef": {"name": "conf"}}, {"secretRef": {"name": "key"}}]);
        let token = json!({"serviceAccountToken": {"path": "token"}});
        let volumes = json!([{"name": "v", "projected": {"sources": [token]}}]);
        with(with(pod, "/spec/volumes", volumes), "/spec/containers/0/envFrom", env)
    };
    let mut pod_store = PodStore::new("n1");
    pod_store.apply(all(&[refers(pod("web", "u1", 10))], 100));
    pod_store.confirm("node-1");
    let [conf, key] = objects();
    assert_eq!(pod_store.references(), [conf.clone(), key.clone()].into());
    let mut reference_cache = ReferenceCache::default();
    reference_cache.set_watched(&pod_store.references());
    reference_cache.tokens.set_pods(pod_store.active_pods());
    assert!(pod_store.snapshot(&reference_cache).objects.is_empty());
    reference_cache.apply(&conf, all(&[map("conf", "1")], 100)).unwrap();
    assert_eq!(pod_store.snapshot(&reference_cache).objects.len(), 1, "the ConfigMap alone");
    reference_cache.refused(&key);
    assert_eq!(
        pod_store.snapshot(&reference_cache).objects.len(),
        1,
        "it needs the service variables and its token"
    );
    let service = json!({"metadata": {"name": "kubernetes"}, "spec": {"clusterIP": "10.96.0.1"}});
    reference_cache.apply_api_service(Delta::Applied(service)).unwrap();
    assert_eq!(pod_store.snapshot(&reference_cache).objects.len(), 2);
    let question = reference_cache.tokens.next(Timestamp::UNIX_EPOCH).unwrap();
    let answer = json!({"status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}});
    reference_cache.tokens.on_issued(&question, &answer, Timestamp::UNIX_EPOCH, 0.0).unwrap();
    assert_eq!(pod_store.snapshot(&reference_cache).objects.len(), 4);
    // The token is dropped when the pod reaches a terminal phase.
    pod_store.apply(Delta::Applied(with(pod("web", "u1", 101), "/status/phase", "Succeeded".into())));
    reference_cache.tokens.set_pods(pod_store.active_pods());
    assert_eq!(reference_cache.tokens.held().count(), 0);
}

fn objects() -> [Object; 2] {
    [Object::new(Kind::ConfigMap, "default", "conf"), Object::new(Kind::Secret, "default", "key")]
}

fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "resourceVersion": "9"}, "data": {"k": value}})
}

#[test]
fn referenced_object_is_removed_only_after_a_trusted_deletion() {
    let [conf, _] = objects();
    let held = |reference_cache: &ReferenceCache| match reference_cache.held().next() {
        Some(SourceObject::ConfigMap(map)) => map.data.as_ref().unwrap()["k"].clone(),
        _ => String::new(),
    };
    let begun = || {
        let mut reference_cache = ReferenceCache::default();
        reference_cache.set_watched(&[conf.clone()].into());
        reference_cache.apply(&conf, all(&[map("conf", "1")], 100)).unwrap();
        reference_cache.apply(&conf, Delta::Applied(map("conf", "2"))).unwrap();
        reference_cache
    };
    // The change, whether a pod that an API server lost refers to the object, and the version kept then.
    for (delta, is_needed, expected) in [
        (all(&[], 101), false, ""),
        (all(&[], 99), false, "2"),
        (all(&[], 1_000_000_050), false, "2"),
        (all(&[], 101), true, "2"),
        (all(&[map("other", "3")], 101), false, ""),
        (Delta::Deleted(with(map("conf", "2"), "/metadata/resourceVersion", "101".into())), false, ""),
        (Delta::Deleted(map("other", "3")), false, "2"),
        (Delta::Applied(map("conf", "3")), false, "3"),
    ] {
        let mut reference_cache = begun();
        reference_cache.apply(&conf, delta.clone()).unwrap();
        let doubtful = if held(&reference_cache) == "3" { "3" } else { "2" };
        assert_eq!(held(&reference_cache), doubtful, "nothing goes before it is confirmed");
        let needed = if is_needed { [conf.clone()].into() } else { [].into() };
        reference_cache.confirm(&needed);
        assert_eq!(held(&reference_cache), expected, "{delta:?} {is_needed}");
        assert!(!reference_cache.is_unconfirmed());
    }
    let mut reference_cache = begun();
    assert!(reference_cache.apply(&conf, Delta::Applied(with(map("conf", "3"), "/data", 7.into()))).is_err());
    assert_eq!(held(&reference_cache), "2", "what does not read changes nothing");
    reference_cache.set_watched(&[].into());
    assert_eq!(reference_cache.held().count(), 0, "an unreferenced object is not kept");
}

fn status(value: Value) -> PodStatus {
    serde_json::from_value(value).unwrap()
}

#[test]
fn status_patch_contains_only_changed_fields_of_the_kubelet() {
    let uid = PodUid::new("u1");
    let condition =
        |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason});
    let own = json!({
        "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}],
        "conditions": [condition("Ready", "True", "R"), condition("PodScheduled", "True", "R")],
    });
    let patched = |there: Value| patch(&uid, &status(there), &status(own.clone()));
    assert_eq!(patched(own.clone()), None);
    let fresh = patched(json!({"phase": "Pending"})).unwrap();
    assert_eq!(fresh["metadata"], json!({"uid": "u1"}));
    assert_eq!(fresh["status"]["podIPs"], json!([{"ip": "10.0.0.9"}]));
    let moved = patched(json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.8"}]})).unwrap();
    assert_eq!(moved["status"]["podIPs"], json!([{"ip": "10.0.0.9"}, {"$patch": "replace"}]));
    assert_eq!(fresh["status"]["conditions"].as_array().unwrap().len(), 2);
    // Other components have set two fields.
    let mut there = own.clone();
    there["conditions"] = json!([
        condition("Ready", "True", "R"),
        condition("PodScheduled", "False", "Other"),
        condition("example.com/gate", "True", "R"),
    ]);
    there["nominatedNodeName"] = "n9".into();
    assert_eq!(patched(there.clone()), None);
    there["conditions"][0]["status"] = "False".into();
    let patch = patched(there).unwrap();
    assert_eq!(patch["status"], json!({"conditions": [{"type": "Ready", "status": "True", "reason": "R"}]}));
    // A condition's old message is removed when the new condition has none.
    let mut there = own.clone();
    there["conditions"][0]["message"] = "not yet".into();
    let condition = json!({"type": "Ready", "status": "True", "reason": "R", "message": null});
    assert_eq!(patched(there).unwrap()["status"], json!({"conditions": [condition]}));
    // A terminal phase is never changed.
    let over = patched(json!({"phase": "Failed", "reason": "NodeLost", "podIP": "10.0.0.8"})).unwrap();
    assert_eq!(over["status"].get("phase").or(over["status"].get("reason")), None);
    assert_eq!(over["status"]["podIP"], "10.0.0.9");
    // A field that is no longer set is removed.
    let gone = patch_of(&uid, json!({"phase": "Running", "message": "m"}), json!({"phase": "Running"}));
    assert_eq!(gone["status"], json!({"message": null}));
}

fn patch_of(uid: &PodUid, there: Value, own: Value) -> Value {
    patch(uid, &status(there), &status(own)).unwrap()
}

#[tokio::test]
async fn checkpoint_restores_the_assigned_pods() {
    let folder = tempfile::tempdir().unwrap();
    let kept = CheckpointDir::under(folder.path());
    let empty = kept.read().await;
    assert!(empty.pods.is_empty() && empty.held.is_empty() && empty.server_state == ServerState::default());
    let line = ServerPod::read(pod("web", "u1", 10), "n1").unwrap();
    let secret = json!({"metadata": {"name": "key", "namespace": "default"}, "data": {"k": "dg=="}});
    let secret = super::reference_cache::read(&objects()[1], secret).unwrap();
    let seen = ServerState { node_uid: Some("node-1".to_owned()), version: Some(7) };
    let persisted = PersistedPod { pod: line.pod.unwrap(), is_unclaimed: true, is_published: false };
    let checkpoint =
        Checkpoint { pods: vec![persisted.clone()], held: vec![secret.clone()], server_state: seen.clone() };
    let write = async |held: Checkpoint, wanted: &Checkpoint| {
        let (delta, deltas) = watch::channel(Arc::default());
        let writing = tokio::spawn(kept.clone().write(held, deltas));
        delta.send_replace(Arc::new(wanted.clone()));
        drop(delta);
        writing.await.unwrap();
    };
    write(empty, &checkpoint).await;
    let read = kept.read().await;
    assert_eq!((&read.pods, &read.held, &read.server_state), (&checkpoint.pods, &checkpoint.held, &seen));
    let renamed = read.of("n2");
    assert_eq!(
        (renamed.pods.len(), renamed.server_state),
        (0, ServerState::default()),
        "they were given to another node"
    );
    assert_eq!((read.of("n1").pods, read.of("n1").server_state), (checkpoint.pods.clone(), seen.clone()));
    let directory = folder.path().join("cluster/pods");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&directory.join("secret_default_key.json"))), (0o700, 0o600));
    // An older kubelet did not write `isTold`.
    let path = directory.join("pod_u1.json");
    let mut old: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    old.as_object_mut().unwrap().remove("isTold").unwrap();
    std::fs::write(&path, old.to_string()).unwrap();
    assert_eq!(kept.read().await.pods, [PersistedPod { is_published: true, ..persisted }]);
    // A damaged file is ignored, and files of deleted objects are removed.
    std::fs::write(directory.join("pod_u1.json"), "{").unwrap();
    assert!(kept.read().await.pods.is_empty());
    write(read, &Checkpoint::default()).await;
    let left: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["seen.json"]);
}
