//! Creation and deletion of mirror pods, one case per line.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use client::Delta;
use jiff::SignedDuration;

use super::super::status::patch;
use super::*;
use crate::desired::{Completeness, DesiredPod};

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn after_s(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

/// Static pods from `name hash`.
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

/// A pod of the API server: a mirror pod from `name uid hash`, another pod from `name uid`.
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

fn pod_store(there: &[&str]) -> PodStore {
    let mut pod_store = PodStore::new("n1");
    pod_store.apply(Delta::Replaced(there.iter().map(|text| line(text)).collect(), "9".to_owned()));
    pod_store.confirm("node-uid");
    pod_store
}

/// The actions until none is left: `+name` for a creation, `-uid` for a deletion.
fn steps(mirror_pods: &mut MirrorPods, pod_store: &PodStore) -> String {
    let mut done = Vec::new();
    while let Ok(step) = mirror_pods.next(pod_store, "n1", start()) {
        done.push(match &step {
            MirrorAction::Create(_, _, image) => format!("+{}", image["metadata"]["name"].as_str().unwrap()),
            MirrorAction::Delete(uid, ..) => format!("-{uid}"),
        });
        mirror_pods.done(&step, start());
    }
    done.join(" ")
}

#[test]
fn plan_creates_and_deletes_mirror_pods() {
    let all = Completeness::Complete;
    for (what, pods, completeness, there, expected) in [
        ("a pod without a mirror pod", &["web h1"][..], all, &[][..], "+web"),
        ("one that is shown", &["web h1"], all, &["web u1 h1"], ""),
        ("one that has been edited", &["web h2"], all, &["web u1 h1"], "-u1"),
        ("one that is no more", &[], all, &["web u1 h1"], "-u1"),
        ("as long as a source has not spoken", &[], Completeness::Incomplete, &["web u1 h1"], ""),
        ("but what is there is shown", &["db h"], Completeness::Incomplete, &["web u1 h1"], "+db"),
        ("a pod of the master of that name", &["web h1"], all, &["web u1"], ""),
        ("another pod of the master", &[], all, &["web u1"], ""),
    ] {
        let mut mirror_pods = MirrorPods::default();
        mirror_pods.set_desired(&desired(pods, completeness));
        assert_eq!(steps(&mut mirror_pods, &pod_store(there)), expected, "{what}");
    }
    // Nothing is done while the list is not confirmed.
    let mut doubted = PodStore::new("n1");
    doubted.apply(Delta::Replaced(vec![line("web u1 h1")], "9".to_owned()));
    let mut mirror_pods = MirrorPods::default();
    mirror_pods.set_desired(&desired(&["db h"], all));
    assert_eq!(mirror_pods.next(&doubted, "n1", start()), Err(None));
}

#[test]
fn mirror_pod_is_owned_by_the_node_and_deleted_without_grace() {
    let mut mirror_pods = MirrorPods::default();
    mirror_pods.set_desired(&desired(&["web h1"], Completeness::Complete));
    let Ok(MirrorAction::Create(uid, path, image)) = mirror_pods.next(&pod_store(&[]), "n1", start()) else {
        panic!()
    };
    assert_eq!((uid.as_str(), path.as_str()), ("local-web", "/api/v1/namespaces/default/pods"));
    let metadata = &image["metadata"];
    assert_eq!(metadata["annotations"][MIRROR], "h1");
    assert_eq!(metadata["annotations"]["kubernetes.io/config.source"], "file");
    let owner =
        json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": true});
    assert_eq!(metadata["ownerReferences"], json!([owner]));
    assert_eq!((metadata.get("uid"), metadata.get("finalizers"), image.get("status")), (None, None, None));
    assert_eq!(image["spec"]["nodeName"], "n1");
    mirror_pods.set_desired(&desired(&[], Completeness::Complete));
    let gone = |_: &PodUid| true;
    assert!(mirror_pods.forget(gone) && !mirror_pods.forget(gone));
    let removal = mirror_pods.next(&pod_store(&["web u1 h1"]), "n1", start()).unwrap();
    let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "u1"}});
    let path = "/api/v1/namespaces/default/pods/web".to_owned();
    assert_eq!(removal, MirrorAction::Delete(PodUid::new("u1"), path, options));
}

#[test]
fn an_action_is_not_repeated_before_its_event_can_arrive() {
    let mut mirror_pods = MirrorPods::default();
    mirror_pods.set_desired(&desired(&["web h1"], Completeness::Complete));
    let empty = pod_store(&[]);
    assert_eq!(steps(&mut mirror_pods, &empty), "+web");
    assert_eq!(mirror_pods.next(&empty, "n1", start()), Err(Some(after_s(10))));
    assert!(mirror_pods.next(&empty, "n1", after_s(10)).is_ok());
    // The mirror pod was observed and a user deletes it: the kubelet completes the deletion and re-creates it at once.
    let mut there = pod_store(&["web u1 h1"]);
    assert_eq!(mirror_pods.next(&there, "n1", start()), Err(None));
    there.apply(Delta::Applied(terminating("web u1 h1")));
    let removal = mirror_pods.next(&there, "n1", after_s(30)).unwrap();
    assert!(matches!(&removal, MirrorAction::Delete(uid, ..) if uid.as_str() == "u1"));
    mirror_pods.done(&removal, after_s(30));
    assert_eq!(mirror_pods.next(&there, "n1", after_s(30)), Err(Some(after_s(40))));
    there.apply(Delta::Deleted(terminating("web u1 h1")));
    assert!(matches!(mirror_pods.next(&there, "n1", after_s(31)), Ok(MirrorAction::Create(..))));
}

fn terminating(text: &str) -> Value {
    let mut terminating = line(text);
    terminating["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z".into();
    terminating
}

#[test]
fn mirror_pods_that_are_always_deleted_are_recreated_with_backoff() {
    let mut mirror_pods = MirrorPods::default();
    mirror_pods.set_desired(&desired(&["web h1"], Completeness::Complete));
    let (mut there, mut now, mut pauses) = (pod_store(&[]), start(), Vec::new());
    for round in 0..9 {
        let made = mirror_pods.next(&there, "n1", now).unwrap();
        mirror_pods.done(&made, now);
        let image = format!("web u{round} h1");
        there.apply(Delta::Applied(line(&image)));
        assert!(mirror_pods.next(&there, "n1", now).is_err());
        there.apply(Delta::Deleted(line(&image)));
        let next = mirror_pods.next(&there, "n1", now).unwrap_err().unwrap();
        pauses.push(next.duration_since(now).as_secs());
        now = next;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
    // A mirror pod that existed for a while is re-created without backoff, and so is one of a new version.
    there.apply(Delta::Applied(line("web u10 h1")));
    assert!(mirror_pods.next(&there, "n1", now).is_err());
    there.apply(Delta::Deleted(line("web u10 h1")));
    now += SignedDuration::from_secs(10);
    assert!(mirror_pods.next(&there, "n1", now).is_ok());
    there.apply(Delta::Applied(line("web u11 h1")));
    assert!(mirror_pods.next(&there, "n1", now).is_err());
    mirror_pods.set_desired(&desired(&["web h2"], Completeness::Complete));
    assert!(matches!(mirror_pods.next(&there, "n1", now), Ok(MirrorAction::Delete(..))));
    there.apply(Delta::Deleted(line("web u11 h1")));
    assert!(matches!(mirror_pods.next(&there, "n1", now), Ok(MirrorAction::Create(..))));
}

#[test]
fn rejected_mirror_pod_deletion_backs_off_and_blocks_no_other() {
    let mut mirror_pods = MirrorPods::default();
    mirror_pods.set_desired(&desired(&["db h"], Completeness::Complete));
    let (there, mut now, mut pauses) = (pod_store(&["web u1 h1"]), start(), Vec::new());
    for _ in 0..9 {
        let step = mirror_pods.next(&there, "n1", now).unwrap();
        assert!(matches!(step, MirrorAction::Delete(..)));
        assert!(mirror_pods.refused(&step, "out of order", false, now, 1.0).is_none());
        if let Ok(other) = mirror_pods.next(&there, "n1", now) {
            assert!(matches!(other, MirrorAction::Create(..)));
            mirror_pods.refused(&other, "out of order", false, now, 1.0);
        }
        let due = mirror_pods.deleted[&PodUid::new("u1")].due;
        pauses.push(due.duration_since(now).as_secs());
        now = due;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
}

#[test]
fn a_rejected_mirror_pod_is_reported_once_and_retried() {
    let mut mirror_pods = MirrorPods::default();
    mirror_pods.set_desired(&desired(&["web h1"], Completeness::Complete));
    let (empty, mut now, mut pauses) = (pod_store(&[]), start(), Vec::new());
    for round in 0..9 {
        let step = mirror_pods.next(&empty, "n1", now).unwrap();
        let retry = mirror_pods.refused(&step, "no such namespace", false, now, 1.0);
        assert_eq!(retry.is_some(), round == 0);
        let next = mirror_pods.next(&empty, "n1", now).unwrap_err().unwrap();
        pauses.push(next.duration_since(now).as_secs());
        now = next;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 120, 120]);
    // A new version is created without backoff.
    mirror_pods.set_desired(&desired(&["web h2"], Completeness::Complete));
    let step = mirror_pods.next(&empty, "n1", start()).unwrap();
    assert!(mirror_pods.refused(&step, "it is there", true, start(), 1.0).is_none(), "it may be our own");
    assert!(mirror_pods.refused(&step, "it is there", true, start(), 1.0).is_some());
}

#[test]
fn mirror_pod_of_a_terminating_pod_stays_until_it_ended() {
    let mut mirror_pods = MirrorPods::default();
    let there = pod_store(&["web u1 h1"]);
    mirror_pods.set_desired(&desired(&["web h1"], Completeness::Complete));
    mirror_pods.set_desired(&desired(&[], Completeness::Complete));
    assert!(!mirror_pods.forget(|_| false));
    assert_eq!(steps(&mut mirror_pods, &there), "");
    let uid = PodUid::new("local-web");
    assert_eq!(mirror_pods.mirror_of(&there, &uid).unwrap().uid, PodUid::new("u1"));
    assert!(mirror_pods.forget(|of| *of == uid));
    assert_eq!(steps(&mut mirror_pods, &there), "-u1");
}

#[test]
fn the_mirror_pod_gets_the_status_of_its_pod() {
    let mut mirror_pods = MirrorPods::default();
    mirror_pods.set_desired(&desired(&["web h2", "db h"], Completeness::Complete));
    let there = pod_store(&["web u1 h1", "db u2 h"]);
    assert!(
        mirror_pods.mirror_of(&there, &PodUid::new("local-web")).is_none(),
        "it is one of another version"
    );
    let image = mirror_pods.mirror_of(&there, &PodUid::new("local-db")).unwrap();
    let status = serde_json::from_value(json!({"phase": "Pending"})).unwrap();
    assert_eq!(patch(&image.uid, &image.status, &status).unwrap()["metadata"]["uid"], "u2");
    assert_eq!(mirror_pods.uid_of("default", "db"), Some(&PodUid::new("local-db")));
    assert_eq!(mirror_pods.hash_of("local-db"), Some("h"));
    // A stale mirror pod, which has a terminal phase, is replaced.
    let mut mirror_pods = MirrorPods::default();
    mirror_pods.set_desired(&desired(&["db h"], Completeness::Complete));
    mirror_pods.mark_mirror_stale(&PodUid::new("local-db"), &PodUid::new("u2"));
    assert_eq!(steps(&mut mirror_pods, &pod_store(&["db u2 h"])), "-u2");
    assert_eq!(steps(&mut mirror_pods, &pod_store(&["db u3 h"])), "");
}
