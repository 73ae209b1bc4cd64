//! Tests of Indexed Jobs: indexes, limits for each index, and success policies.

use super::*;

fn indexed(more: &Value, status: &Value) -> Job {
    let mut spec =
        json!({"completionMode": "Indexed", "completions": 5, "parallelism": 5, "backoffLimit": 6});
    merge(&mut spec, more);
    let mut all = json!({"startTime": at(0).to_string()});
    merge(&mut all, status);
    job(spec, all)
}

/// A failed pod of an index with failures before.
fn failed(name: &str, index: u32, before: u32, code: i32) -> Object {
    let annotations = json!({"batch.kubernetes.io/job-completion-index": index.to_string(),
        "batch.kubernetes.io/job-index-failure-count": before.to_string()});
    let status = json!([{"name": "main", "state": {"terminated": {"exitCode": code, "finishedAt": at(0).to_string()}}}]);
    let more = json!({"metadata": {"annotations": annotations}, "status": {"containerStatuses": status}});
    pod_at(name, "Failed", 0, &more)
}

#[test]
fn each_index_has_one_pod_until_it_has_succeeded() {
    let job = indexed(&json!({}), &json!({"completedIndexes": "1", "succeeded": 1}));
    let pods = [indexed_pod("a", "Running", 0), indexed_pod("b", "Succeeded", 3)];
    let seen = plan_later(&job, &pods);
    assert_eq!((seen.step.as_str(), &*seen.status.completed_indexes), ("create 2 4", "1,3"));
    assert_eq!((seen.status.succeeded, seen.release.join(" ").as_str()), (2, "b"));
    assert!(seen.status.uncounted_terminated_pods.succeeded.is_empty(), "an index is counted at once");
    // A second success of an index is not counted.
    let again = plan_later(&job, &[indexed_pod("a", "Succeeded", 1)]);
    assert_eq!((again.status.succeeded, again.release.len()), (1, 1));
}

#[test]
fn pods_without_a_valid_index_or_with_the_same_are_removed() {
    let job = indexed(&json!({"completions": 2, "parallelism": 2}), &json!({}));
    let pods = [
        indexed_pod("a", "Running", 0),
        indexed_pod("b", "Pending", 0),
        indexed_pod("c", "Running", 2),
        pod("d", "Running"),
        indexed_pod("e", "Running", 1),
    ];
    assert_eq!(plan_later(&job, &pods).step, "remove b c d");
}

#[test]
fn fewer_completions_drop_the_indexes_above() {
    let job = indexed(
        &json!({"completions": 3, "parallelism": 3}),
        &json!({"completedIndexes": "0-4", "succeeded": 5}),
    );
    let status = concluded(&job, &[], &[]);
    assert_eq!((&*status.completed_indexes, status.succeeded), ("0-2", 3));
    assert_eq!(conditions(&status), "SuccessCriteriaMet:CompletionsReached Complete:CompletionsReached");
}

#[test]
fn an_index_fails_above_its_own_limit() {
    let job =
        indexed(&json!({"backoffLimitPerIndex": 1, "completions": 2, "backoffLimit": i32::MAX}), &json!({}));
    // The replacement takes the number of failures from the pod, which is counted afterwards.
    let first = [failed("a", 0, 0, 1), indexed_pod("b", "Running", 1)];
    let early = plan_at(5, &job, &first);
    assert_eq!((early.step.as_str(), early.release.len(), early.requeue_after), ("", 0, Some(5)));
    let seen = plan_later(&job, &first);
    assert_eq!(
        (seen.step.as_str(), seen.release.len(), seen.status.failed_indexes.as_deref()),
        ("create 0(1+0)", 0, Some(""))
    );
    let replaced = [failed("a", 0, 0, 1), indexed_pod("b", "Running", 1), indexed_pod("c", "Running", 0)];
    let seen = plan_later(&job, &replaced);
    assert_eq!((seen.step.as_str(), seen.release.join(" ").as_str()), ("", "a"));
    let last = [failed("c", 0, 1, 1), indexed_pod("b", "Running", 1)];
    let seen = plan_later(&job, &last);
    assert_eq!((seen.step.as_str(), seen.release.join(" ").as_str()), ("", "c"));
    assert_eq!((seen.status.failed_indexes.as_deref(), seen.target), (Some("0"), None));
    let done = indexed(
        &json!({"backoffLimitPerIndex": 1, "completions": 2}),
        &json!({"failedIndexes": "0", "failed": 2}),
    );
    let end = concluded(&done, &[indexed_pod("b", "Succeeded", 1)], &[]);
    assert_eq!(conditions(&end), "FailureTarget:FailedIndexes Failed:FailedIndexes");
    assert_eq!((end.succeeded, end.failed, end.completion_time), (1, 2, None));
}

#[test]
fn too_many_failed_indexes_end_the_job() {
    let spec = json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 1, "backoffLimit": i32::MAX});
    let job = indexed(&spec, &json!({"failedIndexes": "0"}));
    let seen = plan_later(&job, &[failed("a", 1, 0, 1), indexed_pod("b", "Running", 2)]);
    assert_eq!((seen.step.as_str(), seen.target.as_deref()), ("delete b", Some("MaxFailedIndexesExceeded")));
}

#[test]
fn a_rule_fails_an_index_or_ignores_its_failure() {
    let rule = |action: &str, code: i32| json!({"action": action, "onExitCodes": {"operator": "In", "values": [code]}});
    let rules = json!({"rules": [rule("FailIndex", 42), rule("Ignore", 7)]});
    let job =
        indexed(&json!({"backoffLimitPerIndex": 2, "podFailurePolicy": rules, "completions": 2}), &json!({}));
    let seen = plan_later(&job, &[failed("a", 0, 0, 42), failed("b", 1, 1, 7)]);
    assert_eq!((seen.step.as_str(), seen.status.failed_indexes.as_deref()), ("create 1(1+1)", Some("0")));
    assert_eq!(seen.release.join(" "), "a");
}

#[test]
fn a_success_policy_ends_the_job_before_all_indexes_have_succeeded() {
    let policy = |rule: Value| json!({"successPolicy": {"rules": [{"succeededIndexes": "4", "succeededCount": 1}, rule]}});
    for (rule, completed, is_met) in [
        (json!({"succeededIndexes": "0-2", "succeededCount": 2}), "0,2", true),
        (json!({"succeededIndexes": "0-2", "succeededCount": 2}), "0,3", false),
        (json!({"succeededIndexes": "0,2"}), "0,2", true),
        (json!({"succeededIndexes": "0,2"}), "0", false),
        (json!({"succeededCount": 2}), "1,3", true),
        (json!({"succeededCount": 3}), "1,3", false),
    ] {
        let job = indexed(&policy(rule.clone()), &json!({"completedIndexes": completed}));
        let pods = [indexed_pod("a", "Running", 1)];
        let seen = plan_later(&job, &pods);
        let expected = is_met.then_some("SuccessPolicy");
        assert_eq!(seen.target.as_deref(), expected, "{rule} {completed}");
        if is_met {
            // The other pods are removed, and do not count as failed.
            assert_eq!((seen.step.as_str(), seen.release.len()), ("remove a", 0));
            let message = &seen.status.condition("SuccessCriteriaMet").unwrap().message;
            assert_eq!(&**message, "Matched rules at index 1");
        }
    }
}
