//! Tests of how pods are counted, and how a Job completes or fails.

use super::*;

fn started(spec: Value, status: &Value) -> Job {
    let mut all = json!({"startTime": at(0).to_string()});
    merge(&mut all, status);
    job(spec, all)
}

#[test]
fn a_pod_is_counted_after_its_finalizer_is_removed() {
    let job = started(json!({"completions": 1}), &json!({}));
    let pods = [pod("a", "Succeeded")];
    let first = plan_later(&job, &pods);
    assert_eq!(
        (uids(&first.status.uncounted_terminated_pods.succeeded), first.status.succeeded),
        (vec!["a"], 0)
    );
    assert_eq!(conditions(&first.status), "SuccessCriteriaMet:CompletionsReached");
    // The finalizer could not be removed: nothing is counted.
    assert_eq!(concluded(&job, &pods, &["a"]), first.status);
    let end = concluded(&job, &pods, &[]);
    assert_eq!((end.succeeded, end.completion_time), (1, Some(at(3600))));
    assert_eq!(conditions(&end), "SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached");
    assert!(end.uncounted_terminated_pods.succeeded.is_empty());
    // A crash after the finalizer was removed: the pod is found in the status, and counted.
    let crashed = super::job(json!({"completions": 1}), first.status.to_json());
    let mut released = pod("a", "Succeeded");
    released.finalizers = Vec::new().into();
    for left in [vec![released], Vec::new()] {
        assert_eq!(concluded(&crashed, &left, &[]).succeeded, 1);
    }
    // A crash before: the pod is released again, and not added again.
    let again = plan_later(&crashed, &pods);
    assert_eq!((again.release.join(" ").as_str(), again.status), ("a", first.status));
}

#[test]
fn a_job_fails_after_all_its_pods_have_terminated() {
    let job = started(json!({"completions": 3, "parallelism": 3, "backoffLimit": 0}), &json!({}));
    let pods = [pod("a", "Failed"), pod("b", "Running")];
    let first = plan_later(&job, &pods);
    assert_eq!((first.step.as_str(), first.release.join(" ").as_str()), ("delete b", "a"));
    assert_eq!(conditions(&first.status), "FailureTarget:BackoffLimitExceeded");
    assert_eq!(conditions(&concluded(&job, &pods, &[])), "FailureTarget:BackoffLimitExceeded");
    let failing =
        super::job(json!({"completions": 3, "backoffLimit": 0}), concluded(&job, &pods, &[]).to_json());
    let ending = concluded(&failing, &[terminating("b")], &[]);
    assert_eq!((ending.failed, ending.terminating), (2, Some(1)), "deleted pods of a failed Job count");
    assert_eq!(conditions(&ending), "FailureTarget:BackoffLimitExceeded");
    let end = concluded(&super::job(json!({"completions": 3}), ending.to_json()), &[], &[]);
    assert_eq!(conditions(&end), "FailureTarget:BackoffLimitExceeded Failed:BackoffLimitExceeded");
    assert_eq!((end.failed, end.active, end.completion_time), (2, 0, None));
}

#[test]
fn restarts_of_containers_count_towards_the_limit() {
    let spec = |limit: i64| json!({"completions": 1, "backoffLimit": limit, "template": {"spec": {"restartPolicy": "OnFailure"}}});
    let restarted = |count: i64| {
        pod_at(
            "a",
            "Running",
            0,
            &json!({"status": {"containerStatuses": [{"name": "main", "restartCount": count}]}}),
        )
    };
    for (limit, restarts, has_failed) in [(0, 0, false), (0, 1, true), (2, 1, false), (2, 2, true)] {
        let seen = plan_later(&started(spec(limit), &json!({})), &[restarted(restarts)]);
        assert_eq!(seen.target.is_some(), has_failed, "{restarts} of {limit}");
    }
}

#[test]
fn a_job_fails_after_its_deadline() {
    let job = started(json!({"completions": 1, "activeDeadlineSeconds": 100}), &json!({}));
    let pods = [pod("a", "Running")];
    assert_eq!(plan_at(40, &job, &pods).requeue_after, Some(60));
    let late = plan_at(100, &job, &pods);
    assert_eq!(
        (late.step.as_str(), late.target.as_deref(), late.requeue_after),
        ("delete a", Some("DeadlineExceeded"), None)
    );
    assert_eq!(&*late.status.conditions[0].message, "Job was active longer than specified deadline");
}

#[test]
fn a_work_queue_is_complete_when_its_last_pod_has_ended() {
    let job = started(json!({"parallelism": 2}), &json!({}));
    let pods = [pod("a", "Succeeded"), pod("b", "Running")];
    let first = plan_later(&job, &pods);
    assert_eq!((first.step.as_str(), first.target.as_deref()), ("", None));
    let done = [pod("a", "Succeeded"), pod("b", "Succeeded")];
    let end = concluded(&job, &done, &[]);
    assert_eq!((end.succeeded, conditions(&end).contains("Complete:")), (2, true));
}

#[test]
fn the_first_rule_that_matches_decides_on_a_failed_pod() {
    let codes = |action: &str, operator: &str, values: Value| json!({"action": action, "onExitCodes": {"containerName": "main", "operator": operator, "values": values}});
    let rules = [
        codes("Ignore", "In", json!([3])),
        json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}),
        codes("Count", "In", json!([5])),
        codes("FailJob", "NotIn", json!([6])),
    ];
    let spec = json!({"completions": 1, "backoffLimit": 6, "podFailurePolicy": {"rules": rules}});
    let job = started(spec, &json!({}));
    let exited = |code: i64, disrupted: bool| {
        let condition =
            json!([{"type": "DisruptionTarget", "status": if disrupted { "True" } else { "False" }}]);
        let status = json!([{"name": "main", "state": {"terminated": {"exitCode": code, "finishedAt": at(0).to_string()}}}]);
        pod_at("a", "Failed", 0, &json!({"status": {"conditions": condition, "containerStatuses": status}}))
    };
    // exit code, disrupted, whether it counts, whether the Job fails
    for (code, disrupted, counts, fails) in [
        (3, false, false, false),
        (4, true, false, false),
        (5, false, true, false),
        (6, false, true, false),
        (4, false, true, true),
    ] {
        let seen = plan_later(&job, &[exited(code, disrupted)]);
        let uncounted = &seen.status.uncounted_terminated_pods.failed;
        assert_eq!((!uncounted.is_empty(), seen.target.is_some()), (counts, fails), "{code} {disrupted}");
        assert_eq!(seen.release.len(), 1);
    }
    let failed = plan_later(&job, &[exited(4, false)]).status;
    assert_eq!(conditions(&failed), "FailureTarget:PodFailurePolicy");
    let message = "Container main for pod n/a failed with exit code 4 matching FailJob rule at index 3";
    assert_eq!(&*failed.conditions[0].message, message);
}

#[test]
fn at_most_500_pods_are_counted_in_one_step() {
    let job = started(json!({"completions": 900, "parallelism": 900}), &json!({}));
    let pods: Vec<Object> = (0..900).map(|at| pod(&format!("p{at:03}"), "Succeeded")).collect();
    let first = plan_later(&job, &pods);
    assert_eq!((first.release.len(), first.status.uncounted_terminated_pods.succeeded.len()), (500, 500));
    let status = concluded(&job, &pods, &[]);
    assert_eq!((status.succeeded, conditions(&status).contains("Complete:")), (500, false));
}

#[test]
fn a_status_with_500_pods_is_counted_before_new_pods_are_added() {
    let spec = || json!({"completions": 900, "parallelism": 900});
    let pods: Vec<Object> = (0..900).map(|at| pod(&format!("p{at:03}"), "Succeeded")).collect();
    // The controller crashed after it wrote the first 500 pods. The others sort before them.
    let known: Vec<String> = (400..900).map(|at| format!("p{at:03}")).collect();
    let crashed = started(spec(), &json!({"uncountedTerminatedPods": {"succeeded": known}}));
    let second = plan_later(&crashed, &pods);
    assert_eq!(second.release, known);
    assert_eq!(uids(&second.status.uncounted_terminated_pods.succeeded), known);
    let counted = concluded(&crashed, &pods, &[]);
    assert_eq!((counted.succeeded, conditions(&counted).contains("Complete:")), (500, false));
    let end = concluded(&super::job(spec(), counted.to_json()), &pods[..400], &[]);
    assert_eq!((end.succeeded, conditions(&end).contains("Complete:")), (900, true));
}
