//! Tests of how many pods a Job has, and when it replaces them.

use super::*;

#[test]
fn a_job_runs_pods_up_to_parallelism_and_remaining_completions() {
    // parallelism, completions, succeeded, active pods, step
    for (parallelism, completions, succeeded, active, expected) in [
        (1, json!(1), 0, 0, "create 1"),
        (1, json!(1), 0, 1, ""),
        (3, json!(5), 0, 1, "create 2"),
        (3, json!(5), 3, 1, "create 1"),
        (3, json!(5), 4, 1, ""),
        (0, json!(5), 0, 0, ""),
        (1, json!(5), 0, 2, "remove p0"),
        (3, json!(5), 4, 2, "remove p0"),
        (1000, json!(1000), 0, 0, "create 500"),
        (2, json!(null), 0, 0, "create 2"),
        (2, json!(null), 1, 1, ""),
        (1, json!(null), 0, 2, "remove p0"),
    ] {
        let spec = json!({"parallelism": parallelism, "completions": completions});
        let job = job(spec, json!({"succeeded": succeeded, "startTime": at(0).to_string()}));
        let pods: Vec<Object> = (0..active).map(|at| pod(&format!("p{at}"), "Running")).collect();
        let seen = plan_later(&job, &pods);
        assert_eq!(seen.step, expected, "{parallelism} {completions} {succeeded} {active}");
        assert_eq!(seen.status.active, i64::from(active));
    }
}

#[test]
fn a_suspended_job_has_no_pods_and_restarts_its_clock() {
    let spec = |suspend: bool| json!({"completions": 1, "suspend": suspend, "activeDeadlineSeconds": 60});
    let first = plan_at(5, &job(spec(true), json!({})), &[]);
    assert_eq!((first.step.as_str(), first.status.start_time, first.requeue_after), ("", None, None));
    assert_eq!(conditions(&first.status), "Suspended:JobSuspended");
    let running = job(spec(true), json!({"startTime": at(0).to_string()}));
    let suspended = plan_at(5, &running, &[pod("a", "Running")]);
    assert_eq!((suspended.step.as_str(), suspended.release.len()), ("remove a", 0));
    let status = suspended.status.to_json();
    let resumed = plan_at(100, &job(spec(false), status), &[]);
    assert_eq!((resumed.step.as_str(), resumed.requeue_after), ("create 1", Some(60)));
    assert_eq!(resumed.status.start_time, Some(at(100)));
    assert_eq!(conditions(&resumed.status), "!Suspended:JobResumed");
    // A Job that never was suspended has no such condition.
    assert_eq!(conditions(&plan_at(5, &job(spec(false), json!({})), &[]).status), "");
}

#[test]
fn an_active_pod_without_its_finalizer_is_deleted_and_replaced() {
    let untracked = |name: &str, index: u32| {
        let mut pod = indexed_pod(name, "Running", index);
        pod.finalizers = Vec::new().into();
        pod
    };
    for mode in ["NonIndexed", "Indexed"] {
        let spec = json!({"completions": 2, "parallelism": 2, "completionMode": mode});
        let job = job(spec, json!({"startTime": at(0).to_string()}));
        let pods = [untracked("a", 0), indexed_pod("b", "Running", 0)];
        assert_eq!(plan_later(&job, &pods).step, "remove a", "{mode}");
    }
}

#[test]
fn failed_pods_are_replaced_after_a_delay_that_doubles() {
    let job = job(json!({"completions": 1, "backoffLimit": 99}), json!({"startTime": at(0).to_string()}));
    for (failures, delay) in [(1, 10), (2, 20), (3, 40), (6, 320), (7, 360), (40, 360)] {
        let pods: Vec<Object> =
            (0..failures).map(|at| pod_at(&format!("p{at}"), "Failed", 0, &json!({}))).collect();
        let early = plan_at(delay - 1, &job, &pods);
        assert_eq!((early.step.as_str(), early.requeue_after), ("", Some(1)), "{failures}");
        assert_eq!(plan_at(delay, &job, &pods).step, "create 1", "{failures}");
    }
    // A success ends the series.
    let (failed, succeeded) = (pod_at("a", "Failed", 0, &json!({})), pod_at("b", "Succeeded", 5, &json!({})));
    let two = super::job(json!({"completions": 2}), json!({"startTime": at(0).to_string()}));
    assert_eq!(plan_at(6, &two, &[failed, succeeded]).step, "create 1");
    // A failure in the future, after the clock was set back, delays by the usual time.
    let future = pod_at("a", "Failed", 5000, &json!({}));
    assert_eq!(plan_at(0, &job, &[future]).requeue_after, Some(10));
}

#[test]
fn failures_are_remembered_and_found_again_after_a_restart() {
    let job = job(json!({"completions": 1}), json!({"startTime": at(0).to_string(), "failed": 2}));
    let counted = |name: &str, second| {
        let mut pod = pod_at(name, "Failed", second, &json!({}));
        pod.finalizers = [].into_iter().collect::<Vec<Box<str>>>().into();
        pod
    };
    let pods = [counted("a", 0), counted("b", 15)];
    let views: Vec<JobPod<'_>> = pods.iter().map(|pod| JobPod::of(pod).unwrap()).collect();
    let restarted = plan(Input { job: &job, pods: &views, backoff: None, now: at(20) });
    assert_eq!(restarted.requeue_after.map(|after| after.as_secs()), Some(15));
    let known = Backoff { failures: 3, last_failure: Some(at(15)) };
    let remembered = plan(Input { job: &job, pods: &views, backoff: Some(known), now: at(20) });
    assert_eq!(
        (remembered.requeue_after.map(|after| after.as_secs()), remembered.backoff),
        (Some(35), known)
    );
}

#[test]
fn a_pod_is_replaced_when_it_is_deleted_or_only_when_it_has_failed() {
    for (policy, expected, released) in [("TerminatingOrFailed", "create 1", 1), ("Failed", "", 0)] {
        let spec = json!({"completions": 1, "podReplacementPolicy": policy});
        let job = job(spec, json!({"startTime": at(0).to_string()}));
        let seen = plan_later(&job, &[terminating("a")]);
        assert_eq!((seen.step.as_str(), seen.release.len()), (expected, released), "{policy}");
        assert_eq!((seen.status.active, seen.status.terminating), (0, Some(1)));
    }
}

#[test]
fn pods_of_a_job_that_is_being_deleted_are_counted_and_not_replaced() {
    let mut job = job(json!({"completions": 3, "parallelism": 3}), json!({"startTime": at(0).to_string()}));
    job.metadata.deletion_timestamp = Some(at(10));
    let seen = plan_later(&job, &[pod("a", "Running"), pod("b", "Failed")]);
    assert_eq!((seen.step.as_str(), seen.release), ("", vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(uids(&seen.status.uncounted_terminated_pods.failed), ["b"]);
}
