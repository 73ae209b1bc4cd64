//! Deployment and scaling guarantees: the order of creation and deletion.

use super::*;

#[test]
fn pods_are_created_one_after_the_other() {
    let set = set(&[]);
    for (pods, expected) in [
        ("", "create 0 new"),
        ("0 new p", ""),
        ("0 new u", ""),
        ("0 new r", "create 1 new"),
        ("0 new r, 1 new r", "create 2 new"),
        ("0 new r, 1 new r, 2 new r", ""),
        // All predecessors must be ready.
        ("0 new u, 1 new r", ""),
        ("1 new r, 2 new r", "create 0 new"),
        ("0 new r, 2 new u", "create 1 new"),
    ] {
        assert_eq!(steps(&set, pods), expected, "{pods}");
    }
}

#[test]
fn pods_are_deleted_in_reverse_order_one_at_a_time() {
    let set = set(&[replicas(1)]);
    for (pods, expected) in [
        ("0 new r, 1 new r, 2 new r", "delete 2"),
        ("0 new r, 1 new r, 2 new t", ""),
        ("0 new r, 1 new r", "delete 1"),
        ("0 new r", ""),
        // Before a pod is deleted, the others must be ready.
        ("0 new u, 1 new r", ""),
        ("0 new r, 1 new u, 2 new r", "delete 2"),
        ("0 new r, 1 new u, 2 new u", ""),
        ("0 new r, 1 new r, 2 new u", "delete 2"),
        ("0 new r, 1 new u, 2 new f", "delete 2"),
        ("0 new t, 1 new r", ""),
    ] {
        assert_eq!(steps(&set, pods), expected, "{pods}");
    }
}

#[test]
fn a_failed_pod_is_recreated() {
    let (ordered, parallel) = (set(&[]), parallel(&[]));
    for (pods, in_order, at_once) in [
        ("0 new f, 1 new r, 2 new r", "delete 0", "delete 0"),
        ("0 new r, 1 new f, 2 new f", "delete 1", "delete 1, delete 2"),
        ("0 new r, 1 new t, 2 new r", "", ""),
    ] {
        assert_eq!((steps(&ordered, pods).as_str(), steps(&parallel, pods).as_str()), (in_order, at_once));
    }
}

#[test]
fn a_pod_that_terminates_keeps_its_name() {
    // The node of the pod is lost: the pod is not replaced before it is removed from the API.
    assert_eq!(steps(&set(&[]), "0 new t, 1 new r, 2 new r"), "");
    assert_eq!(steps(&parallel(&[]), "0 old t"), "create 1 new, create 2 new");
    assert_eq!(steps(&parallel(&[replicas(0)]), "0 old t"), "");
}

#[test]
fn parallel_pods_are_created_and_deleted_at_once() {
    assert_eq!(steps(&parallel(&[]), "1 new u"), "create 0 new, create 2 new");
    assert_eq!(steps(&parallel(&[replicas(1)]), "0 new u, 1 new r, 2 new u, 3 new t"), "delete 2, delete 1");
    assert_eq!(
        with_plan(&parallel(&[replicas(2000)]), "", &HashMap::new(), |plan| plan.phases[0].len()),
        super::super::plan::BURST
    );
}

#[test]
fn ordinals_may_start_at_another_number() {
    let set = set(&[("/spec/ordinals", json!({"start": 5})), replicas(2)]);
    assert_eq!(steps(&set, ""), "create 5 new");
    assert_eq!(steps(&set, "5 new r, 6 new r"), "");
    // Pods below the start are deleted like those above the end.
    assert_eq!(steps(&set, "0 new r, 1 new r, 5 new r, 6 new r"), "delete 1");
    assert_eq!(steps(&set, "4 new r, 5 new r, 6 new r, 7 new r"), "delete 7");
}

#[test]
fn a_pod_must_be_ready_for_the_minimum_time() {
    let set = set(&[("/spec/minReadySeconds", 10.into())]);
    assert_eq!((steps(&set, "0 new s"), steps(&set, "0 new r")), (String::new(), "create 1 new".to_owned()));
    let wait = with_plan(&set, "0 new s", &HashMap::new(), |plan| plan.requeue_after);
    assert_eq!(wait, Some(std::time::Duration::from_secs(9)));
}

#[test]
fn a_stateful_set_that_is_deleted_changes_nothing() {
    let set = set(&[("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z".into()), replicas(5)]);
    assert_eq!(steps(&set, "0 old f"), "");
}
