//! What a master may say, and what becomes of pods then, a row a case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod answers;

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use apiserver::auth::nodes::{Kind, Object};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::book::{Book, Lasting, Seen};
use super::kept::{Kept, Picture};
use super::line::Line;
use super::shelf::Shelf;
use super::status::patch;
use super::waits;
use crate::cluster::follow::Told;
use crate::desired::{Completeness, Held};
use crate::identity::Trouble;
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

/// The same with something set.
fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[field] = value;
    pod
}

fn doomed(pod: Value) -> Value {
    with(pod, "/metadata/deletionTimestamp", "2026-01-01T01:00:00Z".into())
}

fn all(pods: &[Value], version: u64) -> Told<Value> {
    Told::All(pods.to_vec(), version.to_string())
}

/// One on which nothing is looked for that every pod refers to.
fn shelf() -> Shelf {
    let mut shelf = Shelf::default();
    shelf.refused_api_service();
    shelf
}

fn names(book: &mut Book) -> String {
    let snapshot = book.snapshot(&shelf());
    let names: Vec<String> = snapshot.objects.iter().map(|found| found.object.object_name().name).collect();
    names.join(" ")
}

/// A node that runs `web` (u1) and `db` (u2), which a master at version 100 has given it.
fn running() -> Book {
    let mut book = Book::new("n1");
    book.hear(all(&[pod("web", "u1", 10), pod("db", "u2", 20)], 100));
    assert!(book.confirm("node-1").is_empty());
    assert_eq!(names(&mut book), "web db");
    book
}

#[test]
fn a_list_counts_once_its_server_knows_the_node() {
    let mut book = Book::new("n1");
    let completeness = |book: &mut Book| book.snapshot(&Shelf::default()).completeness;
    book.hear(all(&[pod("web", "u1", 10)], 100));
    assert!(book.is_in_doubt());
    assert_eq!((names(&mut book), completeness(&mut book)), (String::new(), Completeness::Incomplete));
    book.confirm("node-1");
    assert!(!book.is_in_doubt());
    assert_eq!((names(&mut book), completeness(&mut book)), ("web".to_owned(), Completeness::Complete));
    assert_eq!(*book.seen(), Seen { node_uid: Some("node-1".to_owned()), version: Some(100) });
}

/// The ConfigMap `settings`, and a pod of that name and UID that names it.
fn configured(name: &str, uid: &str) -> (Object, Value) {
    let volumes = json!([{"name": "v", "configMap": {"name": "settings"}}]);
    let settings = Object::new(Kind::ConfigMap, "default", "settings");
    (settings, with(pod(name, uid, 10), "/spec/volumes", volumes))
}

/// What the book wants, what waits, and whether all is known.
fn told(book: &mut Book, shelf: &Shelf) -> (usize, Vec<String>, Completeness) {
    let snapshot = book.snapshot(shelf);
    let pods = snapshot.objects.iter().filter(|found| matches!(found.object, Held::Pod(_))).count();
    (pods, snapshot.waiting.iter().map(ToString::to_string).collect(), snapshot.completeness)
}

#[test]
fn what_runs_is_not_taken_for_unwanted_while_it_is_asked_what_it_refers_to() {
    let (mut book, mut shelf) = (Book::new("n1"), Shelf::default());
    let (settings, web) = configured("web", "u1");
    book.hear(all(&[web], 100));
    book.confirm("node-1");
    shelf.follow(&book.refers());
    shelf.refused_api_service();
    // It may be asked for ever: nobody else is kept for that.
    assert_eq!(told(&mut book, &shelf), (0, vec!["u1".to_owned()], Completeness::Complete));
    shelf.hear(&settings, Told::All(Vec::new(), "100".to_owned())).unwrap();
    assert_eq!(told(&mut book, &shelf), (1, Vec::new(), Completeness::Complete));
}

#[test]
fn the_next_kubelet_begins_no_pod_that_still_waited_for_what_it_names() {
    let (settings, web) = configured("web", "u1");
    let (_, db) = configured("db", "u2");
    let [web, db] = [web, db].map(|pod| Line::read(pod, "n1").unwrap().pod.unwrap());
    let [web, db] =
        [(web, true), (db, false)].map(|(pod, is_told)| Lasting { pod, is_unclaimed: false, is_told });
    let (mut book, mut shelf) = (Book::new("n1"), shelf());
    book.restore(vec![web, db], Seen::default());
    shelf.follow(&book.refers());
    assert_eq!(told(&mut book, &shelf), (1, vec!["u2".to_owned()], Completeness::Incomplete));
    shelf.hear(&settings, all(&[map("settings", "1")], 100)).unwrap();
    assert_eq!(told(&mut book, &shelf), (2, Vec::new(), Completeness::Incomplete));
}

#[test]
fn a_pod_that_waits_long_says_for_what() {
    let (settings, web) = configured("web", "u1");
    let env = json!([{"secretRef": {"name": "key"}}]);
    let (mut book, mut shelf) = (Book::new("n1"), shelf());
    book.hear(all(&[web, with(pod("db", "u2", 20), "/spec/containers/0/envFrom", env)], 100));
    book.confirm("node-1");
    shelf.follow(&book.refers());
    let why = Trouble::damaged("the answer", "does not read");
    shelf.troubled(&objects()[1], &why);
    let says = |book: &Book, shelf: &Shelf, uid: &str| {
        book.awaited(&PodUid::new(uid), shelf).map(|(pod, missing)| waits::words(pod, &missing))
    };
    let text = |of: &str| {
        format!("the pod does not begin before the API server says what there is of {of}; it is asked again")
    };
    assert_eq!(says(&book, &shelf, "u1"), Some(("FailedMount", text("configmaps default/settings"))));
    let of = "secrets default/key (the answer does not read)";
    assert_eq!(says(&book, &shelf, "u2"), Some(("Failed", text(of))));
    shelf.refused(&settings);
    book.snapshot(&shelf);
    assert_eq!(says(&book, &shelf, "u1"), None, "it has begun");
    // It is told after a while, and again while it lasts.
    let (start, mut waits) = (Instant::now(), waits::Waits::default());
    let at = |seconds| start + Duration::from_secs(seconds);
    let waiting = [PodUid::new("u1"), PodUid::new("u2")].into();
    waits.follow(&waiting, at(0));
    assert_eq!((waits.next(), waits.due(at(29)).len()), (Some(at(30)), 0));
    assert_eq!((waits.due(at(30)).len(), waits.next()), (2, Some(at(150))));
    waits.follow(&[PodUid::new("u2")].into(), at(31));
    waits.follow(&waiting, at(32));
    assert_eq!(waits.due(at(62)), [PodUid::new("u1")]);
}

/// What has happened; what is heard; as whom the server knows the node, if it does; what runs then; how many are told as missing.
type Row = (&'static str, Vec<Told<Value>>, Option<&'static str>, &'static str, usize);

#[test]
fn what_ends_a_pod_and_what_does_not() {
    let (web, db) = (|| pod("web", "u1", 10), || pod("db", "u2", 20));
    let rows: Vec<Row> = vec![
        ("it was deleted while the watch went on", vec![Told::Gone(db())], None, "web", 0),
        ("it is missing in a newer list", vec![all(&[web()], 101)], Some("node-1"), "web", 0),
        ("nothing has happened meanwhile", vec![all(&[web(), db()], 100)], Some("node-1"), "web db", 0),
        ("a server that does not know the node", vec![all(&[], 101)], None, "web db", 0),
        ("and what it says next", vec![all(&[], 101), Told::Gone(db())], None, "web db", 0),
        ("a master that was restored", vec![all(&[web()], 99)], Some("node-1"), "web db", 1),
        ("one that was restored as ours is", vec![all(&[web()], 1_000_000_050)], Some("node-1"), "web db", 1),
        ("a master that lost all, where the node is new", vec![all(&[], 5)], Some("node-2"), "web db", 2),
        ("the same later on", vec![all(&[], 500)], Some("node-2"), "web db", 2),
        (
            "one that is restored and then told of",
            vec![all(&[web()], 99), Told::Put(db())],
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
            vec![Told::Put(with(db(), "/spec/containers", 7.into()))],
            None,
            "web db",
            0,
        ),
    ];
    for (what, heard, node, runs, missing) in rows {
        let mut book = running();
        for told in heard {
            book.hear(told);
        }
        let told = node.map(|uid| book.confirm(uid)).unwrap_or_default();
        assert_eq!((names(&mut book).as_str(), told.len()), (runs, missing), "{what}");
    }
}

#[test]
fn a_pod_that_a_master_lost_ends_when_somebody_says_so() {
    let lost = || {
        let mut book = running();
        book.hear(all(&[pod("web", "u1", 10)], 90));
        assert_eq!(book.confirm("node-1").len(), 1);
        book
    };
    // Time goes by, and it stays.
    let mut book = lost();
    book.hear(all(&[pod("web", "u1", 10)], 1000));
    assert!(book.confirm("node-1").is_empty(), "it is told once");
    assert_eq!(names(&mut book), "web db");
    // It is made known again and deleted then.
    book.hear(Told::Put(pod("db", "u2", 1001)));
    book.hear(all(&[pod("web", "u1", 10)], 1002));
    book.confirm("node-1");
    assert_eq!(names(&mut book), "web");
    // A watch that went on over a restore says nothing before there is a list.
    let mut book = running();
    assert!(!book.hear(Told::Put(pod("web", "u1", 1_000_000_050))));
    book.hear(all(&[pod("web", "u1", 1_000_000_050)], 1_000_000_060));
    assert_eq!(book.confirm("node-1").len(), 1);
    // Another pod of its name takes its place.
    let mut book = lost();
    book.hear(Told::Put(pod("db", "u9", 95)));
    assert_eq!(book.given().map(|(uid, _)| uid.as_str()).collect::<Vec<_>>(), ["u1", "u9"]);
    // One that was to go anyway is ended in the time it was given, and does not come back.
    let mut book = running();
    book.hear(Told::Put(doomed(pod("db", "u2", 101))));
    book.hear(all(&[pod("web", "u1", 10)], 90));
    assert!(book.confirm("node-1").is_empty());
    assert_eq!(names(&mut book), "web db");
    assert!(!book.ended(&PodUid::new("u1")) && book.ended(&PodUid::new("u2")));
    assert_eq!(names(&mut book), "web");
}

#[test]
fn what_is_not_begun_here() {
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
        let mut book = Book::new("n1");
        book.hear(all(&[pod], 5));
        book.confirm("node-1");
        assert_eq!(names(&mut book), "", "{what}");
    }
    // One that ran here and has come to its end stays, for its logs.
    let mut book = running();
    book.hear(Told::Put(with(pod("db", "u2", 101), "/status/phase", "Failed".into())));
    assert_eq!(names(&mut book), "web db");
    assert!(book.give_up(&PodUid::new("u2")));
    book.hear(Told::Put(with(pod("db", "u2", 102), "/status/phase", "Failed".into())));
    assert_eq!(names(&mut book), "web");
}

#[test]
fn a_write_that_changes_nothing_for_the_node_leaves_the_pod_the_very_same() {
    let mut book = running();
    let first = |book: &Book| book.given().next().unwrap().1.lasting.pod.clone();
    let before = first(&book);
    book.hear(Told::Put(with(pod("web", "u1", 101), "/status/phase", "Running".into())));
    assert!(Arc::ptr_eq(&before, &first(&book)));
    assert_eq!(book.seen().version, Some(101));
    book.hear(Told::Put(with(pod("web", "u1", 102), "/spec/containers/0/image", "j".into())));
    assert!(!Arc::ptr_eq(&before, &first(&book)));
    // Of the conditions only those count that the pod waits for.
    let gated = with(pod("web", "u1", 103), "/spec/readinessGates", json!([{"conditionType": "G"}]));
    let conditions = json!([{"type": "G", "status": "True"}, {"type": "Ready", "status": "False"}]);
    book.hear(Told::Put(with(gated, "/status/conditions", conditions)));
    let kept = first(&book).status.clone().unwrap().conditions.unwrap();
    assert_eq!(kept.iter().map(|c| c.type_.as_str()).collect::<Vec<_>>(), ["G"]);
}

#[test]
fn a_new_pod_waits_until_what_it_names_was_looked_for() {
    let refers = |pod: Value| {
        let env = json!([{"configMapRef": {"name": "conf"}}, {"secretRef": {"name": "key"}}]);
        let token = json!({"serviceAccountToken": {"path": "token"}});
        let volumes = json!([{"name": "v", "projected": {"sources": [token]}}]);
        with(with(pod, "/spec/volumes", volumes), "/spec/containers/0/envFrom", env)
    };
    let mut book = Book::new("n1");
    book.hear(all(&[refers(pod("web", "u1", 10))], 100));
    book.confirm("node-1");
    let [conf, key] = objects();
    assert_eq!(book.refers(), [conf.clone(), key.clone()].into());
    let mut shelf = Shelf::default();
    shelf.follow(&book.refers());
    shelf.tokens.follow(book.at_work());
    assert!(book.snapshot(&shelf).objects.is_empty());
    shelf.hear(&conf, all(&[map("conf", "1")], 100)).unwrap();
    assert_eq!(book.snapshot(&shelf).objects.len(), 1, "the ConfigMap alone");
    shelf.refused(&key);
    assert_eq!(
        book.snapshot(&shelf).objects.len(),
        1,
        "it is to be told where the API is, and to have its token"
    );
    let service = json!({"metadata": {"name": "kubernetes"}, "spec": {"clusterIP": "10.96.0.1"}});
    shelf.hear_api_service(Told::Put(service)).unwrap();
    assert_eq!(book.snapshot(&shelf).objects.len(), 2);
    let question = shelf.tokens.next(Timestamp::UNIX_EPOCH).unwrap();
    let answer = json!({"status": {"token": "t", "expirationTimestamp": "2026-01-01T00:00:00Z"}});
    shelf.tokens.given(&question, &answer, Timestamp::UNIX_EPOCH, 0.0).unwrap();
    assert_eq!(book.snapshot(&shelf).objects.len(), 4);
    // What it asked for goes with its work.
    book.hear(Told::Put(with(pod("web", "u1", 101), "/status/phase", "Succeeded".into())));
    shelf.tokens.follow(book.at_work());
    assert_eq!(shelf.tokens.held().count(), 0);
}

fn objects() -> [Object; 2] {
    [Object::new(Kind::ConfigMap, "default", "conf"), Object::new(Kind::Secret, "default", "key")]
}

fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "resourceVersion": "9"}, "data": {"k": value}})
}

#[test]
fn what_pods_name_goes_when_a_server_that_knows_the_node_says_so() {
    let [conf, _] = objects();
    let held = |shelf: &Shelf| match shelf.held().next() {
        Some(Held::ConfigMap(map)) => map.data.as_ref().unwrap()["k"].clone(),
        _ => String::new(),
    };
    let begun = || {
        let mut shelf = Shelf::default();
        shelf.follow(&[conf.clone()].into());
        shelf.hear(&conf, all(&[map("conf", "1")], 100)).unwrap();
        shelf.hear(&conf, Told::Put(map("conf", "2"))).unwrap();
        shelf
    };
    // How it goes, whether the pod is one that a master lost, what is held then.
    for (told, is_needed, expected) in [
        (all(&[], 101), false, ""),
        (all(&[], 99), false, "2"),
        (all(&[], 1_000_000_050), false, "2"),
        (all(&[], 101), true, "2"),
        (all(&[map("other", "3")], 101), false, ""),
        (Told::Gone(with(map("conf", "2"), "/metadata/resourceVersion", "101".into())), false, ""),
        (Told::Gone(map("other", "3")), false, "2"),
        (Told::Put(map("conf", "3")), false, "3"),
    ] {
        let mut shelf = begun();
        shelf.hear(&conf, told.clone()).unwrap();
        let doubtful = if held(&shelf) == "3" { "3" } else { "2" };
        assert_eq!(held(&shelf), doubtful, "nothing goes before it is confirmed");
        let needed = if is_needed { [conf.clone()].into() } else { [].into() };
        shelf.confirm(&needed);
        assert_eq!(held(&shelf), expected, "{told:?} {is_needed}");
        assert!(!shelf.is_in_doubt());
    }
    let mut shelf = begun();
    assert!(shelf.hear(&conf, Told::Put(with(map("conf", "3"), "/data", 7.into()))).is_err());
    assert_eq!(held(&shelf), "2", "what does not read changes nothing");
    shelf.follow(&[].into());
    assert_eq!(shelf.held().count(), 0, "what nobody names is not kept");
}

fn status(value: Value) -> PodStatus {
    serde_json::from_value(value).unwrap()
}

#[test]
fn a_status_is_written_where_it_differs_and_says_nothing_of_what_others_say() {
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
    assert_eq!(fresh["status"]["podIPs"], json!([{"ip": "10.0.0.9"}, {"$patch": "replace"}]));
    assert_eq!(fresh["status"]["conditions"].as_array().unwrap().len(), 2);
    // Others have said two things.
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
    // What a condition said before and says no more is taken away with it.
    let mut there = own.clone();
    there["conditions"][0]["message"] = "not yet".into();
    let condition = json!({"type": "Ready", "status": "True", "reason": "R", "message": null});
    assert_eq!(patched(there).unwrap()["status"], json!({"conditions": [condition]}));
    // What has come to its end stays there.
    let over = patched(json!({"phase": "Failed", "reason": "NodeLost", "podIP": "10.0.0.8"})).unwrap();
    assert_eq!(over["status"].get("phase").or(over["status"].get("reason")), None);
    assert_eq!(over["status"]["podIP"], "10.0.0.9");
    // What is not so any more is taken away.
    let gone = patch_of(&uid, json!({"phase": "Running", "message": "m"}), json!({"phase": "Running"}));
    assert_eq!(gone["status"], json!({"message": null}));
}

fn patch_of(uid: &PodUid, there: Value, own: Value) -> Value {
    patch(uid, &status(there), &status(own)).unwrap()
}

#[tokio::test]
async fn what_was_given_is_on_the_disk_for_the_next_kubelet() {
    let folder = tempfile::tempdir().unwrap();
    let kept = Kept::under(folder.path());
    let empty = kept.read().await;
    assert!(empty.pods.is_empty() && empty.held.is_empty() && empty.seen == Seen::default());
    let line = Line::read(pod("web", "u1", 10), "n1").unwrap();
    let secret = json!({"metadata": {"name": "key", "namespace": "default"}, "data": {"k": "dg=="}});
    let secret = super::shelf::read(&objects()[1], secret).unwrap();
    let seen = Seen { node_uid: Some("node-1".to_owned()), version: Some(7) };
    let lasting = Lasting { pod: line.pod.unwrap(), is_unclaimed: true, is_told: false };
    let picture = Picture { pods: vec![lasting.clone()], held: vec![secret.clone()], seen: seen.clone() };
    let write = async |held: Picture, wanted: &Picture| {
        let (told, heard) = watch::channel(Arc::default());
        let writing = tokio::spawn(kept.clone().write(held, heard));
        told.send_replace(Arc::new(wanted.clone()));
        drop(told);
        writing.await.unwrap();
    };
    write(empty, &picture).await;
    let read = kept.read().await;
    assert_eq!((&read.pods, &read.held, &read.seen), (&picture.pods, &picture.held, &seen));
    let renamed = read.of("n2");
    assert_eq!((renamed.pods.len(), renamed.seen), (0, Seen::default()), "they were given to another node");
    assert_eq!((read.of("n1").pods, read.of("n1").seen), (picture.pods.clone(), seen.clone()));
    let directory = folder.path().join("cluster/pods");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&directory), mode(&directory.join("secret_default_key.json"))), (0o700, 0o600));
    // An older kubelet did not write whether it had begun it.
    let path = directory.join("pod_u1.json");
    let mut old: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    old.as_object_mut().unwrap().remove("isTold").unwrap();
    std::fs::write(&path, old.to_string()).unwrap();
    assert_eq!(kept.read().await.pods, [Lasting { is_told: true, ..lasting }]);
    // What is damaged is left out, and what is no more goes.
    std::fs::write(directory.join("pod_u1.json"), "{").unwrap();
    assert!(kept.read().await.pods.is_empty());
    write(read, &Picture::default()).await;
    let left: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["seen.json"]);
}
