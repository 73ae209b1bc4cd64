//! Which images are made and which go, a row a case.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use jiff::SignedDuration;

use super::super::status::patch;
use super::*;
use crate::cluster::follow::Told;
use crate::desired::{Completeness, DesiredPod};

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn after_s(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

/// `name hash` for each pod of the node's own.
fn desired(pods: &[&str], completeness: Completeness) -> Desired {
    let mut desired = Desired { completeness, ..Desired::default() };
    for text in pods {
        let (name, hash) = text.split_once(' ').unwrap();
        let pod = json!({
            "metadata": {
                "name": name, "namespace": "default", "uid": format!("local-{name}"), "finalizers": ["f"],
                "annotations": {"kubernetes.io/config.hash": hash, "kubernetes.io/config.source": "file"},
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        });
        let pod = Arc::new(serde_json::from_value(pod).unwrap());
        let uid = PodUid::new(format!("local-{name}").as_str());
        let pod = DesiredPod { uid: uid.clone(), pod, source: SourceKind::File };
        desired.pods.insert(uid, Arc::new(pod));
    }
    desired
}

/// What the API has: `name uid hash`, or `name uid` for a pod that is no image.
fn line(text: &str) -> Value {
    let words: Vec<&str> = text.split(' ').collect();
    let annotations = words.get(2).map(|hash| json!({MIRROR: hash}));
    json!({
        "metadata": {
            "name": words[0], "namespace": "default", "uid": words[1], "annotations": annotations,
            "resourceVersion": "5",
        },
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"phase": "Running"},
    })
}

fn book(there: &[&str]) -> Book {
    let mut book = Book::new("n1");
    book.hear(Told::All(there.iter().map(|text| line(text)).collect(), "9".to_owned()));
    book.confirm("node-uid");
    book
}

/// What is done until nothing is left to do, `+name` and `-uid`.
fn steps(mirrors: &mut Mirrors, book: &Book) -> String {
    let mut done = Vec::new();
    while let Ok(step) = mirrors.next(book, "n1", start()) {
        done.push(match &step {
            Step::Make(_, _, image) => format!("+{}", image["metadata"]["name"].as_str().unwrap()),
            Step::Remove(uid, ..) => format!("-{uid}"),
        });
        mirrors.done(&step, start());
    }
    done.join(" ")
}

#[test]
fn what_is_made_and_what_goes() {
    let all = Completeness::Complete;
    for (what, pods, completeness, there, expected) in [
        ("a pod that nobody shows", &["web h1"][..], all, &[][..], "+web"),
        ("one that is shown", &["web h1"], all, &["web u1 h1"], ""),
        ("one that has been edited", &["web h2"], all, &["web u1 h1"], "-u1"),
        ("one that is no more", &[], all, &["web u1 h1"], "-u1"),
        ("as long as a source has not spoken", &[], Completeness::Incomplete, &["web u1 h1"], ""),
        ("but what is there is shown", &["db h"], Completeness::Incomplete, &["web u1 h1"], "+db"),
        ("a pod of the master of that name", &["web h1"], all, &["web u1"], ""),
        ("another pod of the master", &[], all, &["web u1"], ""),
    ] {
        let mut mirrors = Mirrors::default();
        mirrors.follow(&desired(pods, completeness));
        assert_eq!(steps(&mut mirrors, &book(there)), expected, "{what}");
    }
    // Nobody is asked who does not know the node.
    let mut doubted = Book::new("n1");
    doubted.hear(Told::All(vec![line("web u1 h1")], "9".to_owned()));
    let mut mirrors = Mirrors::default();
    mirrors.follow(&desired(&["db h"], all));
    assert_eq!(mirrors.next(&doubted, "n1", start()), Err(None));
}

#[test]
fn an_image_is_the_nodes_own_and_goes_without_delay() {
    let mut mirrors = Mirrors::default();
    mirrors.follow(&desired(&["web h1"], Completeness::Complete));
    let Ok(Step::Make(uid, path, image)) = mirrors.next(&book(&[]), "n1", start()) else { panic!() };
    assert_eq!((uid.as_str(), path.as_str()), ("local-web", "/api/v1/namespaces/default/pods"));
    let metadata = &image["metadata"];
    assert_eq!(metadata["annotations"][MIRROR], "h1");
    assert_eq!(metadata["annotations"]["kubernetes.io/config.source"], "file");
    let owner =
        json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": true});
    assert_eq!(metadata["ownerReferences"], json!([owner]));
    assert_eq!((metadata.get("uid"), metadata.get("finalizers"), image.get("status")), (None, None, None));
    assert_eq!(image["spec"]["nodeName"], "n1");
    mirrors.follow(&desired(&[], Completeness::Complete));
    let gone = |_: &PodUid| true;
    assert!(mirrors.forget(gone) && !mirrors.forget(gone));
    let removal = mirrors.next(&book(&["web u1 h1"]), "n1", start()).unwrap();
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "u1"}});
    let path = "/api/v1/namespaces/default/pods/web".to_owned();
    assert_eq!(removal, Step::Remove(PodUid::new("u1"), path, options));
}

#[test]
fn what_was_done_is_not_done_again_before_it_can_be_heard_of() {
    let mut mirrors = Mirrors::default();
    mirrors.follow(&desired(&["web h1"], Completeness::Complete));
    let empty = book(&[]);
    assert_eq!(steps(&mut mirrors, &empty), "+web");
    assert_eq!(mirrors.next(&empty, "n1", start()), Err(Some(after_s(10))));
    assert!(mirrors.next(&empty, "n1", after_s(10)).is_ok());
    // It has been heard of, and somebody deletes it: the node does away with it, and makes another at once.
    let mut there = book(&["web u1 h1"]);
    assert_eq!(mirrors.next(&there, "n1", start()), Err(None));
    there.hear(Told::Put(doomed("web u1 h1")));
    let removal = mirrors.next(&there, "n1", after_s(30)).unwrap();
    assert!(matches!(&removal, Step::Remove(uid, ..) if uid.as_str() == "u1"));
    mirrors.done(&removal, after_s(30));
    assert_eq!(mirrors.next(&there, "n1", after_s(30)), Err(Some(after_s(40))));
    there.hear(Told::Gone(doomed("web u1 h1")));
    assert!(matches!(mirrors.next(&there, "n1", after_s(31)), Ok(Step::Make(..))));
}

fn doomed(text: &str) -> Value {
    let mut doomed = line(text);
    doomed["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
    doomed
}

#[test]
fn whoever_removes_every_image_gets_another_less_and_less_often() {
    let mut mirrors = Mirrors::default();
    mirrors.follow(&desired(&["web h1"], Completeness::Complete));
    let (mut there, mut now, mut pauses) = (book(&[]), start(), Vec::new());
    for round in 0..9 {
        let made = mirrors.next(&there, "n1", now).unwrap();
        mirrors.done(&made, now);
        let image = format!("web u{round} h1");
        there.hear(Told::Put(line(&image)));
        assert!(mirrors.next(&there, "n1", now).is_err());
        there.hear(Told::Gone(line(&image)));
        let next = mirrors.next(&there, "n1", now).unwrap_err().unwrap();
        pauses.push(next.duration_since(now).as_secs());
        now = next;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
    // One that has lasted is made again at once, and so is one of another version.
    there.hear(Told::Put(line("web u10 h1")));
    assert!(mirrors.next(&there, "n1", now).is_err());
    there.hear(Told::Gone(line("web u10 h1")));
    now += SignedDuration::from_secs(10);
    assert!(mirrors.next(&there, "n1", now).is_ok());
    there.hear(Told::Put(line("web u11 h1")));
    assert!(mirrors.next(&there, "n1", now).is_err());
    mirrors.follow(&desired(&["web h2"], Completeness::Complete));
    assert!(matches!(mirrors.next(&there, "n1", now), Ok(Step::Remove(..))));
    there.hear(Told::Gone(line("web u11 h1")));
    assert!(matches!(mirrors.next(&there, "n1", now), Ok(Step::Make(..))));
}

#[test]
fn a_removal_that_is_refused_is_tried_less_and_less_often_and_keeps_no_other_waiting() {
    let mut mirrors = Mirrors::default();
    mirrors.follow(&desired(&["db h"], Completeness::Complete));
    let (there, mut now, mut pauses) = (book(&["web u1 h1"]), start(), Vec::new());
    for _ in 0..9 {
        let step = mirrors.next(&there, "n1", now).unwrap();
        assert!(matches!(step, Step::Remove(..)));
        assert!(mirrors.refused(&step, "out of order", false, now, 1.0).is_none());
        if let Ok(other) = mirrors.next(&there, "n1", now) {
            assert!(matches!(other, Step::Make(..)));
            mirrors.refused(&other, "out of order", false, now, 1.0);
        }
        let due = mirrors.removed[&PodUid::new("u1")].due;
        pauses.push(due.duration_since(now).as_secs());
        now = due;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
}

#[test]
fn what_is_refused_is_told_once_and_tried_again() {
    let mut mirrors = Mirrors::default();
    mirrors.follow(&desired(&["web h1"], Completeness::Complete));
    let (empty, mut now, mut pauses) = (book(&[]), start(), Vec::new());
    for round in 0..9 {
        let step = mirrors.next(&empty, "n1", now).unwrap();
        let told = mirrors.refused(&step, "no such namespace", false, now, 1.0);
        assert_eq!(told.is_some(), round == 0);
        let next = mirrors.next(&empty, "n1", now).unwrap_err().unwrap();
        pauses.push(next.duration_since(now).as_secs());
        now = next;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
    // An edit is tried at once.
    mirrors.follow(&desired(&["web h2"], Completeness::Complete));
    let step = mirrors.next(&empty, "n1", start()).unwrap();
    assert!(mirrors.refused(&step, "it is there", true, start(), 1.0).is_none(), "it may be our own");
    assert!(mirrors.refused(&step, "it is there", true, start(), 1.0).is_some());
}

#[test]
fn the_image_of_a_pod_that_is_being_ended_stays_until_it_has_gone() {
    let mut mirrors = Mirrors::default();
    let there = book(&["web u1 h1"]);
    mirrors.follow(&desired(&["web h1"], Completeness::Complete));
    mirrors.follow(&desired(&[], Completeness::Complete));
    assert!(!mirrors.forget(|_| false));
    assert_eq!(steps(&mut mirrors, &there), "");
    let uid = PodUid::new("local-web");
    assert_eq!(mirrors.image_of(&there, &uid).unwrap().uid, PodUid::new("u1"));
    assert!(mirrors.forget(|of| *of == uid));
    assert_eq!(steps(&mut mirrors, &there), "-u1");
}

#[test]
fn what_becomes_of_a_pod_is_told_of_its_image() {
    let mut mirrors = Mirrors::default();
    mirrors.follow(&desired(&["web h2", "db h"], Completeness::Complete));
    let there = book(&["web u1 h1", "db u2 h"]);
    assert!(mirrors.image_of(&there, &PodUid::new("local-web")).is_none(), "it is one of another version");
    let image = mirrors.image_of(&there, &PodUid::new("local-db")).unwrap();
    let status = serde_json::from_value(json!({"phase": "Pending"})).unwrap();
    assert_eq!(patch(&image.uid, &image.status, &status).unwrap()["metadata"]["uid"], "u2");
    assert_eq!(mirrors.uid_of("default", "db"), Some(&PodUid::new("local-db")));
    assert_eq!(mirrors.hash_of("local-db"), Some("h"));
    // One that says that it is over does not come back to life.
    let mut mirrors = Mirrors::default();
    mirrors.follow(&desired(&["db h"], Completeness::Complete));
    mirrors.outlives(&PodUid::new("local-db"), &PodUid::new("u2"));
    assert_eq!(steps(&mut mirrors, &book(&["db u2 h"])), "-u2");
    assert_eq!(steps(&mut mirrors, &book(&["db u3 h"])), "");
}
