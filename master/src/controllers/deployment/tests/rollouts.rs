//! Rolling updates, re-creation, revisions and the history limit.

use super::*;

#[test]
fn a_first_rollout_creates_a_replica_set_of_full_size() {
    let deployment =
        deployment(&[("/metadata/annotations", json!({"team": "a"})), ("/spec/minReadySeconds", json!(5))]);
    let plan = planned(&deployment, &[], &[]);
    let [Write::Create(new)] = &*plan.writes else { panic!("{plan:?}") };
    assert_eq!((new.replicas, &*new.name), (10, format!("web-{}", new.hash).as_str()));
    let annotations: Vec<(&str, &str)> =
        new.annotations.iter().map(|(key, value)| (&**key, &**value)).collect();
    assert_eq!(
        annotations,
        [
            ("deployment.kubernetes.io/desired-replicas", "10"),
            ("deployment.kubernetes.io/max-replicas", "13"),
            ("deployment.kubernetes.io/revision", "1"),
            ("team", "a"),
        ]
    );
    assert_eq!(plan.revision.as_deref(), Some("1"));
    assert_eq!(condition(&plan, "Progressing"), ("True".into(), "NewReplicaSetCreated".into()));
    assert_eq!(condition(&plan, "Available"), ("False".into(), "MinimumReplicasUnavailable".into()));
    assert_eq!((plan.status.observed_generation, plan.status.unavailable_replicas), (2, 10));
}

/// The steps of the documentation: surge 3 and 2 unavailable of 10.
#[test]
fn a_rolling_update_keeps_its_limits() {
    let deployment = deployment(&[]);
    for (old, new, expected) in [
        // (replicas, available) of the old and the new ReplicaSet
        ((10, 10), None, vec!["+3", "old=8"]),
        ((8, 8), Some((3, 0)), vec!["new=5"]),
        ((8, 8), Some((5, 0)), vec![]),
        ((8, 8), Some((5, 2)), vec!["old=6"]),
        ((6, 6), Some((5, 2)), vec!["new=7"]),
        ((6, 6), Some((7, 7)), vec!["old=1"]),
        ((1, 1), Some((10, 9)), vec!["old=0"]),
        ((0, 0), Some((10, 10)), vec![]),
        // Unavailable old pods are deleted first, and new ones count only when they are available.
        ((8, 5), Some((5, 0)), vec![]),
        ((10, 4), Some((1, 1)), vec!["new=3"]),
        ((10, 4), Some((3, 3)), vec!["old=5"]),
        // A rollback in the middle: the new ReplicaSet is the large one.
        ((5, 0), Some((8, 8)), vec!["old=0"]),
        // Too large.
        ((0, 0), Some((12, 12)), vec!["new=10"]),
    ] {
        let (old_set, new_set) =
            (set("old", 1, old.0, old.1), new.map(|(all, available)| set("new", 2, all, available)));
        let sets: Vec<&ReplicaSet> = [&old_set].into_iter().chain(&new_set).collect();
        assert_eq!(short(&planned(&deployment, &sets, &[])), expected, "{old:?} {new:?}");
    }
}

#[test]
fn a_rollover_scales_all_old_replica_sets_down() {
    let deployment = deployment(&[]);
    let (oldest, old) = (set("oldest", 1, 8, 8), set("old", 2, 5, 0));
    // The total is at its maximum, so the newest one starts without pods.
    assert_eq!(short(&planned(&deployment, &[&oldest, &old], &[])), ["+0", "old=0"]);
}

#[test]
fn a_status_that_lags_behind_does_not_cost_availability() {
    // The old ReplicaSet was scaled from 8 to 5. Its controller has begun to delete pods, and its status still counts 8.
    let deployment = deployment(&[]);
    let (mut old, new) = (set("old", 1, 5, 8), set("new", 2, 8, 5));
    assert_eq!(short(&planned(&deployment, &[&old, &new], &[])), ["old=3"]);
    // Its controller has not seen the size.
    old.metadata.generation = 2;
    assert_eq!(short(&planned(&deployment, &[&old, &new], &[])), [""; 0]);
}

#[test]
fn a_recreation_waits_for_the_end_of_old_pods() {
    let deployment = deployment(&[("/spec/strategy", json!({"type": "Recreate"}))]);
    let old = |replicas: i64| set("old", 1, replicas, replicas);
    let observed = |mut set: ReplicaSet| {
        set.metadata.generation = 2;
        set
    };
    assert_eq!(short(&planned(&deployment, &[&old(10)], &["old"])), ["old=0"]);
    assert_eq!(short(&planned(&deployment, &[&old(0)], &["old"])), [""; 0], "pods are terminating");
    assert_eq!(short(&planned(&deployment, &[&observed(old(0))], &[])), [""; 0], "it may still have pods");
    assert_eq!(short(&planned(&deployment, &[&old(0)], &["other"])), ["+10"]);
    let new = sized("new", 2, 0, 0, 10, 10);
    assert_eq!(short(&planned(&deployment, &[&old(0), &new], &["new"])), ["new=10"]);
}

#[test]
fn a_rollback_gives_the_old_replica_set_the_next_revision() {
    let deployment = deployment(&[]);
    let (old, new) = (set("old", 2, 10, 10), set("new", 1, 0, 0));
    let plan = planned(&deployment, &[&old, &new], &[]);
    assert_eq!(short(&plan), ["new=3"]);
    let [Write::Change(change)] = &*plan.writes else { panic!("{plan:?}") };
    let annotation = |key: &str| change.annotations.get(key).map(|value| &**value);
    assert_eq!(annotation("deployment.kubernetes.io/revision"), Some("3"));
    assert_eq!(annotation("deployment.kubernetes.io/revision-history"), Some("1"));
    assert_eq!((plan.revision.as_deref(), &*change.resource_version), (Some("3"), "7"));
}

#[test]
fn the_history_limit_counts_old_revisions_without_pods() {
    let complete = json!({"replicas": 10, "updatedReplicas": 10, "availableReplicas": 10, "readyReplicas": 10,
        "observedGeneration": 2, "conditions": [{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]});
    let limited =
        |limit: Value| deployment(&[("/spec/revisionHistoryLimit", limit), ("/status", complete.clone())]);
    // Revision 9 was created first, and rolled back to.
    let (old, newer, oldest) = (set("old", 3, 0, 0), set("newer", 4, 0, 0), set("oldest", 1, 0, 0));
    let mut back = set("back", 0, 0, 0);
    back.metadata.annotations = [("deployment.kubernetes.io/revision", "9")].into_iter().collect();
    let new = set("new", 10, 10, 10);
    let sets = [&old, &newer, &oldest, &back, &new];
    let writes = |limit: Value| short(&planned(&limited(limit), &sets, &[]));
    assert_eq!(writes(json!(2)), ["-oldest", "-old"]);
    assert_eq!(writes(json!(0)).len(), 4);
    assert_eq!((writes(json!(4)), writes(Value::Null), writes(json!(i32::MAX))), (vec![], vec![], vec![]));
    // One whose controller has not seen its last change may still have pods.
    let mut unseen = set("oldest", 1, 0, 0);
    unseen.metadata.generation = 2;
    let sets = [&old, &newer, &unseen, &back, &new];
    assert_eq!(short(&planned(&limited(json!(2)), &sets, &[])), ["-old"]);
}

#[test]
fn a_paused_deployment_starts_no_rollout() {
    let deployment = deployment(&[("/spec/paused", json!(true))]);
    let old = set("old", 1, 10, 10);
    let plan = planned(&deployment, &[&old], &[]);
    assert_eq!(short(&plan), [""; 0]);
    assert_eq!(condition(&plan, "Progressing"), ("Unknown".into(), "DeploymentPaused".into()));
}

#[test]
fn minimum_ready_seconds_and_annotations_reach_the_new_replica_set() {
    let deployment =
        deployment(&[("/spec/minReadySeconds", json!(5)), ("/metadata/annotations", json!({"team": "a"}))]);
    let new = set("new", 1, 10, 10);
    let plan = planned(&deployment, &[&new], &[]);
    let [Write::Change(change)] = &*plan.writes else { panic!("{plan:?}") };
    assert_eq!((change.scale, change.min_ready_seconds), (None, Some(5)));
    assert_eq!(change.annotations.iter().collect::<Vec<_>>(), [(&"team".into(), &"a".into())]);
}
