//! Conditions and the progress deadline.

use super::*;

fn progressing(status: &str, reason: &str, updated: i64) -> Value {
    json!([{"type": "Progressing", "status": status, "reason": reason, "lastUpdateTime": at(updated).to_string(),
        "lastTransitionTime": at(0).to_string()}])
}

/// A status of 10 pods, of which 5 are new.
fn rolling(conditions: Value) -> Value {
    json!({"observedGeneration": 2, "replicas": 13, "updatedReplicas": 5, "readyReplicas": 8, "availableReplicas": 8,
        "unavailableReplicas": 5, "terminatingReplicas": 0, "conditions": conditions})
}

#[test]
fn a_rollout_without_progress_times_out() {
    let (old, new) = (set("old", 1, 8, 8), set("new", 2, 5, 0));
    let planned = |reason: &str, updated: i64| {
        let deployment = deployment(&[("/status", rolling(progressing("True", reason, updated)))]);
        planned(&deployment, &[&old, &new], &[])
    };
    // The time is second 1000, and the deadline 600 seconds.
    let waiting = planned("ReplicaSetUpdated", 500);
    assert_eq!(condition(&waiting, "Progressing"), ("True".into(), "ReplicaSetUpdated".into()));
    assert_eq!(waiting.requeue_after.map(|after| after.as_secs()), Some(101));
    let late = planned("ReplicaSetUpdated", 399);
    assert_eq!(condition(&late, "Progressing"), ("False".into(), "ProgressDeadlineExceeded".into()));
    let progress = late.status.condition("Progressing").unwrap();
    assert_eq!(&*progress.message, "ReplicaSet \"web-new\" has timed out progressing.");
    assert_eq!((progress.last_transition_time, late.requeue_after), (Some(at(1000)), None));
}

#[test]
fn progress_moves_the_deadline() {
    let deployment = deployment(&[("/status", rolling(progressing("True", "ReplicaSetUpdated", 399)))]);
    let (old, new) = (set("old", 1, 8, 8), set("new", 2, 5, 1));
    let plan = planned(&deployment, &[&old, &new], &[]);
    let progress = plan.status.condition("Progressing").unwrap();
    assert_eq!(&*progress.message, "ReplicaSet \"web-new\" is progressing.");
    assert_eq!((progress.last_update_time, progress.last_transition_time), (Some(at(1000)), Some(at(0))));
    assert_eq!(plan.requeue_after.map(|after| after.as_secs()), Some(601));
}

#[test]
fn a_complete_rollout_is_reported_once_and_not_timed() {
    let new = set("new", 2, 10, 10);
    let first = deployment(&[("/status", rolling(progressing("True", "ReplicaSetUpdated", 399)))]);
    let plan = planned(&first, &[&new], &[]);
    assert_eq!(condition(&plan, "Progressing"), ("True".into(), "NewReplicaSetAvailable".into()));
    assert_eq!(condition(&plan, "Available"), ("True".into(), "MinimumReplicasAvailable".into()));
    assert_eq!(plan.requeue_after, None);
    // The next plan changes nothing, and a pod that becomes unready later does not start a rollout.
    let mut deployment = deployment(&[]);
    deployment.status = plan.status;
    assert_eq!(planned(&deployment, &[&new], &[]).status, deployment.status);
    let unready = set("new", 2, 10, 7);
    let plan = planned(&deployment, &[&unready], &[]);
    assert_eq!(condition(&plan, "Progressing"), ("True".into(), "NewReplicaSetAvailable".into()));
    assert_eq!(condition(&plan, "Available"), ("False".into(), "MinimumReplicasUnavailable".into()));
    assert_eq!(plan.requeue_after, None);
}

#[test]
fn no_deadline_means_no_condition_about_progress() {
    let new = set("new", 2, 10, 10);
    for deadline in [Value::Null, json!(i32::MAX)] {
        let changes =
            [("/spec/progressDeadlineSeconds", deadline), ("/status", rolling(progressing("True", "X", 0)))];
        let plan = planned(&deployment(&changes), &[&new], &[]);
        assert_eq!((plan.status.condition("Progressing"), plan.requeue_after), (None, None));
    }
}

#[test]
fn a_pause_does_not_count_towards_the_deadline() {
    let changes = [("/status", rolling(progressing("Unknown", "DeploymentPaused", 0)))];
    let (old, new) = (set("old", 1, 8, 8), set("new", 2, 5, 0));
    let plan = planned(&deployment(&changes), &[&old, &new], &[]);
    assert_eq!(condition(&plan, "Progressing"), ("Unknown".into(), "DeploymentResumed".into()));
    assert_eq!(plan.requeue_after.map(|after| after.as_secs()), Some(601));
    let timed_out = [
        ("/spec/paused", json!(true)),
        ("/status", rolling(progressing("False", "ProgressDeadlineExceeded", 0))),
    ];
    let plan = planned(&deployment(&timed_out), &[&old, &new], &[]);
    assert_eq!(condition(&plan, "Progressing"), ("False".into(), "ProgressDeadlineExceeded".into()));
}

#[test]
fn a_failure_of_a_replica_set_is_one_of_the_deployment() {
    let mut new = set("new", 2, 3, 0);
    let failure = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota",
        "lastTransitionTime": at(5).to_string()}]);
    new.status.conditions = serde_json::from_value(failure).unwrap();
    let old = set("old", 1, 8, 8);
    let plan = planned(&deployment(&[]), &[&old, &new], &[]);
    let reported = plan.status.condition("ReplicaFailure").unwrap();
    assert_eq!((&*reported.message, reported.last_update_time), ("quota", Some(at(5))));
    let mut failed = deployment(&[]);
    failed.status = plan.status;
    let repaired = planned(&failed, &[&old, &set("new", 2, 3, 0)], &[]);
    assert_eq!(repaired.status.condition("ReplicaFailure"), None);
}

#[test]
fn a_failed_creation_is_reported() {
    let status = status::creation_failed(&deployment(&[]), "no quota", at(7));
    let condition = status.condition("Progressing").unwrap();
    assert_eq!((&*condition.reason, &*condition.status), ("ReplicaSetCreateError", "False"));
}
