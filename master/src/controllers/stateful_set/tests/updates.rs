//! Update strategies: order, partition, limits, and the status of a rollout.

use super::*;
use crate::objects::stateful_set::StatefulSetStatus;

fn partition(count: i64) -> (&'static str, Value) {
    ("/spec/updateStrategy/rollingUpdate/partition", count.into())
}

fn max_unavailable(limit: impl Into<Value>) -> (&'static str, Value) {
    ("/spec/updateStrategy/rollingUpdate/maxUnavailable", limit.into())
}

#[test]
fn pods_are_updated_from_the_last_one() {
    let set = set(&[]);
    for (pods, expected) in [
        ("0 old r, 1 old r, 2 old r", "delete 2"),
        ("0 old r, 1 old r, 2 old t", ""),
        ("0 old r, 1 old r", "create 2 new"),
        ("0 old r, 1 old r, 2 new u", ""),
        ("0 old r, 1 old r, 2 new r", "delete 1"),
        ("0 old r, 1 new r, 2 new r", "delete 0"),
        ("0 new r, 1 new r, 2 new r", ""),
        // Scaling has precedence.
        ("0 old r, 1 old r, 2 old r, 3 old r", "delete 3"),
    ] {
        assert_eq!(steps(&set, pods), expected, "{pods}");
    }
}

#[test]
fn pods_below_the_partition_keep_the_current_revision() {
    let set = set(&[partition(2)]);
    for (pods, expected) in [
        ("0 old r, 1 old r, 2 old r", "delete 2"),
        ("0 old r, 1 old r, 2 new r", ""),
        ("0 old r, 2 new r", "create 1 old"),
        ("0 old r, 1 old r", "create 2 new"),
    ] {
        assert_eq!(steps(&set, pods), expected, "{pods}");
    }
    let shifted = super::set(&[partition(1), replicas(2), ("/spec/ordinals", json!({"start": 3}))]);
    assert_eq!(steps(&shifted, "4 new r"), "create 3 old");
    assert_eq!(steps(&shifted, "3 old r, 4 old r"), "delete 4");
    let none = super::set(&[partition(9)]);
    assert_eq!(steps(&none, "0 old r, 1 old r, 2 old r"), "");
}

#[test]
fn a_pod_that_a_bad_template_has_broken_must_be_deleted_by_the_user() {
    // The template was repaired, and the pod of the bad one never becomes ready.
    assert_eq!(steps(&set(&[]), "0 old r, 1 old r, 2 bad u"), "");
    assert_eq!(steps(&set(&[]), "0 old r, 1 old r"), "create 2 new");
    // Parallel pods are replaced.
    assert_eq!(steps(&parallel(&[]), "0 old r, 1 old r, 2 bad u"), "delete 2");
}

#[test]
fn pods_are_updated_on_deletion_only() {
    let set = set(&[("/spec/updateStrategy", json!({"type": "OnDelete"}))]);
    assert_eq!(steps(&set, "0 old r, 1 old r, 2 old r"), "");
    assert_eq!(steps(&set, "0 old r, 2 old r"), "create 1 new");
}

#[test]
fn several_pods_may_be_unavailable() {
    for (limit, pods, expected) in [
        (json!(2), "0 old r, 1 old r, 2 old r", "delete 2, delete 1"),
        (json!("70%"), "0 old r, 1 old r, 2 old r", "delete 2, delete 1"),
        (json!("10%"), "0 old r, 1 old r, 2 old r", "delete 2"),
        (json!(2), "0 old r, 1 old r, 2 new r", "delete 1, delete 0"),
        // Pods are created in order, and the update waits for them.
        (json!(2), "0 old r, 1 old r, 2 new u", ""),
    ] {
        assert_eq!(steps(&set(&[max_unavailable(limit)]), pods), expected, "{pods}");
    }
}

#[test]
fn unavailable_pods_count_towards_the_limit_of_parallel_pods() {
    let five = |limit: i64, kept: i64| parallel(&[replicas(5), max_unavailable(limit), partition(kept)]);
    for (limit, kept, pods, expected) in [
        (1, 0, "0 old r, 1 old r, 2 old r, 3 old r, 4 new u", ""),
        (2, 0, "0 old r, 1 old r, 2 old r, 3 old r, 4 new u", "delete 3"),
        (1, 0, "0 old r, 1 old r, 2 old r, 3 old r, 4 old t", ""),
        // Broken pods of another revision are replaced first.
        (1, 0, "0 old r, 1 old r, 2 old r, 3 old r, 4 old u", "delete 4"),
        (2, 0, "0 old u, 1 old u, 2 old r, 3 old r, 4 old r", "delete 1, delete 0"),
        (3, 0, "0 old u, 1 old u, 2 old r, 3 old r, 4 old r", "delete 1, delete 0, delete 4"),
        (3, 0, "0 old r, 1 old r, 2 old r, 3 old u, 4 old t", "delete 3, delete 2"),
        (1, 2, "0 old r, 1 old u, 2 old r, 3 old r, 4 old r", ""),
        (1, 2, "0 old r, 1 old r, 2 old u, 3 old r, 4 old r", "delete 2"),
        (2, 3, "0 old r, 1 old u, 2 old r, 3 old r, 4 old u", "delete 4"),
    ] {
        assert_eq!(steps(&five(limit, kept), pods), expected, "{limit} {kept} {pods}");
    }
}

fn status(set: &StatefulSet, pods: &str) -> StatefulSetStatus {
    with_plan(set, pods, &HashMap::new(), |plan| plan.status.clone())
}

#[test]
fn the_status_counts_pods_and_revisions() {
    let set = set(&[("/spec/minReadySeconds", 10.into()), ("/status/collisionCount", 1.into())]);
    let mut json = serde_json::Map::new();
    json.insert("conditions".to_owned(), json!([{"type": "Mine"}]));
    json.insert("updatedReplicas".to_owned(), json!(7));
    status(&set, "0 old r, 1 old s, 2 old t").write(&mut json);
    assert_eq!(
        Value::Object(json),
        json!({"conditions": [{"type": "Mine"}], "replicas": 3, "observedGeneration": 2, "readyReplicas": 3,
            "availableReplicas": 2, "currentReplicas": 2, "currentRevision": "old", "updateRevision": "new",
            "collisionCount": 1})
    );
}

#[test]
fn an_update_is_complete_when_all_pods_are_ready() {
    for (pods, current, counts) in [
        ("0 new r, 1 new r, 2 new r", "new", (3, 3)),
        ("0 new u, 1 new r, 2 new r", "old", (0, 3)),
        ("0 old r, 1 new r, 2 new r", "old", (0, 2)),
        ("0 new r, 1 new r, 2 new r, 3 new r", "old", (0, 4)),
    ] {
        let status = status(&set(&[]), pods);
        let found = (&*status.current_revision, (status.current_replicas, status.updated_replicas));
        assert_eq!(found, (current, counts), "{pods}");
    }
    let kept = status(&set(&[partition(3)]), "0 old r, 1 old r, 2 old r");
    assert_eq!((&*kept.current_revision, kept.current_replicas), ("old", 3));
    let on_delete = set(&[("/spec/updateStrategy", json!({"type": "OnDelete"}))]);
    assert_eq!(&*status(&on_delete, "0 new r, 1 new r, 2 new r").current_revision, "old");
}
