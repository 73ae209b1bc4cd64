//! Jobs and CronJobs on a real node: pods run, fail and are counted.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tests::IMAGE;

use crate::node::{Node, with};

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// Timeout for the Job of the next minute, which can be due only after a whole minute.
const NEXT_MINUTE: Duration = Duration::from_secs(120);

/// A Job whose container runs a script.
fn job(name: &str, script: &str, spec: &Value) -> Value {
    let template = json!({"spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
        "containers": [{"name": "main", "image": IMAGE, "command": ["sh", "-c", script]}],
    }});
    json!({"metadata": {"name": name}, "spec": with(json!({"template": template}), spec)})
}

async fn pods_of(node: &Node, job: &str) -> Vec<Value> {
    let selector = format!("{PODS}?labelSelector=batch.kubernetes.io%2Fjob-name%3D{job}");
    node.cluster.get(&selector).await.is(200)["items"].as_array().unwrap().clone()
}

fn has_condition(object: &Value, kind: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Types and reasons of the true conditions.
fn conditions(object: &Value) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let text = |one: &Value| {
        format!("{}:{}", one["type"].as_str().unwrap(), one["reason"].as_str().unwrap_or_default())
    };
    conditions.filter(|one| one["status"] == "True").map(text).collect()
}

/// Waits until a CronJob satisfies a condition that depends on the Job of the next minute.
async fn until_next_minute(node: &Node, name: &str, is: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{CRON_JOBS}/{name}");
    let look = async || match node.cluster.get(&path).await {
        answer if answer.code == 200 && is(&answer.body) => Ok(answer.body),
        answer => Err(format!("{} {}", answer.code, answer.text)),
    };
    node.world.wait_within(NEXT_MINUTE, &format!("the next Job of {name}"), look).await
}

async fn kubectl(node: &Node, line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let output = node.cluster.kubectl(&words).await;
    assert_eq!(output.code, 0, "kubectl {line}: {output:?}\n{}", node.cluster.master.log());
    output.stdout
}

#[tokio::test]
async fn a_job_runs_to_completion() {
    let node = Node::scheduled("jobs").await;
    kubectl(&node, &format!("create job hello --image={IMAGE} -- echo hello")).await;
    kubectl(&node, "wait --for=condition=complete job/hello --timeout=60s").await;
    assert_eq!(kubectl(&node, "logs job/hello").await.trim(), "hello");
    let own = format!("{JOBS}/hello");
    let done = node.cluster.get(&own).await.is(200);
    assert_eq!(conditions(&done), ["SuccessCriteriaMet:CompletionsReached", "Complete:CompletionsReached"]);
    let status = &done["status"];
    assert_eq!(
        (&status["succeeded"], &status["ready"], &status["terminating"]),
        (&json!(1), &json!(0), &json!(0))
    );
    assert_eq!(status["uncountedTerminatedPods"], json!({}));
    assert!(status["startTime"].is_string() && status["completionTime"].is_string(), "{status}");
    let pods = pods_of(&node, "hello").await;
    assert_eq!((pods.len(), &pods[0]["metadata"]["finalizers"]), (1, &Value::Null));
    node.cluster.until_events("hello", |reasons| reasons == ["SuccessfulCreate", "Completed"]).await;

    node.cluster
        .post(JOBS, &job("many", "exit 0", &json!({"completions": 3, "parallelism": 2})))
        .await
        .is(201);
    let done = node.cluster.until(&format!("{JOBS}/many"), |job| has_condition(job, "Complete")).await;
    assert_eq!(done["status"]["succeeded"], 3);
    // The kubelet restarts a container that fails.
    let script = "test -e /data/seen || { touch /data/seen; exit 1; }";
    let mut flaky = job("flaky", script, &json!({"completions": 2, "parallelism": 2}));
    let pod = &mut flaky["spec"]["template"]["spec"];
    pod["restartPolicy"] = json!("OnFailure");
    pod["volumes"] = json!([{"name": "data", "emptyDir": {}}]);
    pod["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    node.cluster.post(JOBS, &flaky).await.is(201);
    let done = node.cluster.until(&format!("{JOBS}/flaky"), |job| has_condition(job, "Complete")).await;
    assert_eq!((&done["status"]["succeeded"], &done["status"]["failed"]), (&json!(2), &Value::Null));
    // The pods go with the Job, and none waits for its finalizer.
    node.cluster
        .post(JOBS, &job("long", "sleep 3600", &json!({"parallelism": 2, "completions": 2})))
        .await
        .is(201);
    node.cluster.until(&format!("{JOBS}/long"), |job| job["status"]["ready"] == 2).await;
    node.cluster.delete_with(&format!("{JOBS}/long"), "Background").await.is(200);
    let pods = format!("{PODS}?labelSelector=job-name%3Dlong");
    node.cluster.until(&pods, |list| list["items"].as_array().unwrap().is_empty()).await;
}

#[tokio::test]
async fn an_indexed_job_completes_each_index() {
    let node = Node::scheduled("indexes").await;
    let script = "echo $JOB_COMPLETION_INDEX $(hostname); test $JOB_COMPLETION_INDEX != 1";
    let spec =
        json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4, "backoffLimitPerIndex": 0});
    node.cluster.post(JOBS, &job("indexed", script, &spec)).await.is(201);
    let own = format!("{JOBS}/indexed");
    let done = node.cluster.until(&own, |job| has_condition(job, "Failed")).await;
    assert_eq!(conditions(&done), ["FailureTarget:FailedIndexes", "Failed:FailedIndexes"]);
    let status = &done["status"];
    assert_eq!((&status["completedIndexes"], &status["failedIndexes"]), (&json!("0,2,3"), &json!("1")));
    assert_eq!((&status["succeeded"], &status["failed"]), (&json!(3), &json!(1)));
    for pod in pods_of(&node, "indexed").await {
        let metadata = &pod["metadata"];
        let index = metadata["annotations"]["batch.kubernetes.io/job-completion-index"].as_str().unwrap();
        let name = metadata["name"].as_str().unwrap();
        assert!(name.starts_with(&format!("indexed-{index}-")), "{name}");
        assert_eq!(metadata["labels"]["batch.kubernetes.io/job-completion-index"], index);
        assert_eq!(node.log(name, "main").await.trim(), format!("{index} indexed-{index}"));
    }
}

#[tokio::test]
async fn rules_end_an_indexed_job_or_an_index_early() {
    let node = Node::scheduled("rules").await;
    let rule = json!({"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}});
    let ignored = json!({"rules": [rule]});
    let rules = |rule: Value| json!({"successPolicy": {"rules": [rule]}});
    // name, script by index, fields, condition, completed indexes, failed pods
    let cases = [
        (
            "index",
            "test $JOB_COMPLETION_INDEX = 1 || exit 42",
            json!({"backoffLimitPerIndex": 1, "podFailurePolicy": ignored}),
            "Failed:FailedIndexes",
            "1",
            json!(1),
        ),
        (
            "most",
            "test $JOB_COMPLETION_INDEX = 1 && exit 1; sleep 3600",
            json!({"backoffLimitPerIndex": 0, "maxFailedIndexes": 0}),
            "Failed:MaxFailedIndexesExceeded",
            "",
            json!(2),
        ),
        (
            "some",
            "test $JOB_COMPLETION_INDEX = 0 || sleep 3600",
            rules(json!({"succeededIndexes": "0"})),
            "Complete:SuccessPolicy",
            "0",
            json!(null),
        ),
        (
            "count",
            "test $JOB_COMPLETION_INDEX = 1 || sleep 3600",
            rules(json!({"succeededCount": 1})),
            "Complete:SuccessPolicy",
            "1",
            json!(null),
        ),
        (
            "all",
            "exit 0",
            rules(json!({"succeededIndexes": "0-1"})),
            "Complete:SuccessPolicy",
            "0,1",
            json!(null),
        ),
    ];
    for (name, script, fields, _, _, _) in &cases {
        let spec = with(json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2}), fields);
        node.cluster.post(JOBS, &job(name, script, &spec)).await.is(201);
    }
    for (name, _, _, end, completed, failed) in cases {
        let is_done = |job: &Value| has_condition(job, "Complete") || has_condition(job, "Failed");
        let done = node.cluster.until(&format!("{JOBS}/{name}"), is_done).await;
        let status = &done["status"];
        assert_eq!(conditions(&done)[1], end, "{name}: {status}");
        let indexes = status["completedIndexes"].as_str().unwrap_or_default();
        assert_eq!((indexes, &status["failed"]), (completed, &failed), "{name}: {status}");
    }
}

#[tokio::test]
async fn an_eviction_that_a_rule_ignores_does_not_count() {
    let node = Node::scheduled("ignoring").await;
    let rule = json!({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]});
    let spec = json!({"backoffLimit": 0, "podFailurePolicy": {"rules": [rule]}});
    node.cluster.post(JOBS, &job("evicted", "sleep 3600", &spec)).await.is(201);
    let own = format!("{JOBS}/evicted");
    node.cluster.until(&own, |job| job["status"]["ready"] == 1).await;
    let pods = pods_of(&node, "evicted").await;
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    node.cluster.post(&format!("{PODS}/{name}/eviction"), &eviction).await.is(201);
    node.cluster.gone(&format!("{PODS}/{name}")).await;
    let is_replaced =
        |reasons: &[&str]| reasons.iter().filter(|one| **one == "SuccessfulCreate").count() == 2;
    node.cluster.until_events("evicted", is_replaced).await;
    let next = node
        .cluster
        .until(&own, |job| job["status"]["ready"] == 1 && job["status"]["terminating"] == 0)
        .await;
    assert_eq!((&next["status"]["failed"], conditions(&next).len()), (&Value::Null, 0), "{}", next["status"]);
}

#[tokio::test]
async fn a_job_fails_at_its_limits() {
    let node = Node::scheduled("failing").await;
    node.cluster.post(JOBS, &job("limit", "exit 1", &json!({"backoffLimit": 1}))).await.is(201);
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    let spec =
        json!({"backoffLimit": 6, "podFailurePolicy": {"rules": [rule]}, "parallelism": 2, "completions": 2});
    let script = "case $(hostname) in *) exit 42;; esac";
    node.cluster.post(JOBS, &job("policy", script, &spec)).await.is(201);
    node.cluster.post(JOBS, &job("late", "sleep 3600", &json!({"activeDeadlineSeconds": 3}))).await.is(201);
    for (name, reason, failed) in [
        ("policy", "PodFailurePolicy", None),
        ("late", "DeadlineExceeded", Some(1)),
        ("limit", "BackoffLimitExceeded", Some(2)),
    ] {
        let done = node.cluster.until(&format!("{JOBS}/{name}"), |job| has_condition(job, "Failed")).await;
        assert_eq!(conditions(&done), [format!("FailureTarget:{reason}"), format!("Failed:{reason}")]);
        assert!(failed.is_none_or(|failed| done["status"]["failed"] == failed), "{}", done["status"]);
        node.cluster.until_events(name, |reasons| reasons.contains(&reason)).await;
        let pods = pods_of(&node, name).await;
        assert!(
            pods.iter().all(|pod| !pod["metadata"]["finalizers"].to_string().contains(FINALIZER)),
            "{pods:?}"
        );
    }
    // The second pod came ten seconds after the first had failed.
    let mut created: Vec<Timestamp> = pods_of(&node, "limit")
        .await
        .iter()
        .map(|pod| pod["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap())
        .collect();
    created.sort();
    assert!(created[1].duration_since(created[0]).as_secs() >= 10, "{created:?}");
}

#[tokio::test]
async fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    let node = Node::scheduled("suspending").await;
    node.cluster.post(JOBS, &job("pause", "sleep 3600", &json!({"suspend": true}))).await.is(201);
    let own = format!("{JOBS}/pause");
    let first = node.cluster.until(&own, |job| has_condition(job, "Suspended")).await;
    assert_eq!((&first["status"]["startTime"], pods_of(&node, "pause").await.len()), (&Value::Null, 0));
    let suspend = |suspend: bool| json!({"spec": {"suspend": suspend}});
    node.cluster.patch(&own, &suspend(false)).await.is(200);
    node.cluster.until(&own, |job| job["status"]["ready"] == 1 && !has_condition(job, "Suspended")).await;
    node.cluster.patch(&own, &suspend(true)).await.is(200);
    let paused = node
        .cluster
        .until(&own, |job| {
            has_condition(job, "Suspended")
                && job["status"]["terminating"] == 0
                && job["status"]["active"].is_null()
        })
        .await;
    assert_eq!(paused["status"]["failed"], Value::Null, "a pod of a suspended Job does not count");
    let expected = [("Suspended", 2), ("Resumed", 1), ("SuccessfulDelete", 1)];
    let count = |reasons: &[&str], reason| reasons.iter().filter(|one| **one == reason).count();
    let has_all = |reasons: &[&str]| expected.iter().all(|(reason, times)| count(reasons, *reason) == *times);
    node.cluster.until_events("pause", has_all).await;
}

#[tokio::test]
async fn a_cron_job_starts_jobs_on_its_schedule() {
    let node = Node::scheduled("schedules").await;
    let cron_job = |name: &str, spec: &Value| {
        let template = json!({"metadata": {"labels": {"of": name}}, "spec": job(name, "sleep 3600", &json!({}))["spec"]});
        json!({"metadata": {"name": name}, "spec": with(json!({"schedule": "@every 2s", "jobTemplate": template}), spec)})
    };
    for (name, spec) in [
        ("allow", json!({})),
        ("forbid", json!({"concurrencyPolicy": "Forbid"})),
        ("replace", json!({"concurrencyPolicy": "Replace"})),
        ("suspended", json!({"suspend": true})),
        ("zone", json!({"schedule": "* * * * *", "timeZone": "Asia/Kathmandu"})),
    ] {
        node.cluster.post(CRON_JOBS, &cron_job(name, &spec)).await.is(201);
    }
    let own = |name: &str| format!("{CRON_JOBS}/{name}");
    let active = |cron_job: &Value| cron_job["status"]["active"].as_array().map_or(0, Vec::len);
    // Two Jobs are active at once if the minute ends in between.
    let allowed = node.cluster.until(&own("allow"), |cron_job| active(cron_job) >= 1).await;
    let name = allowed["status"]["active"][0]["name"].as_str().unwrap();
    let started = node.cluster.get(&format!("{JOBS}/{name}")).await.is(200);
    let metadata = &started["metadata"];
    let scheduled: Timestamp = metadata["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(name, format!("allow-{}", scheduled.as_second() / 60));
    assert_eq!(
        (&metadata["labels"]["of"], &metadata["ownerReferences"][0]["kind"]),
        (&json!("allow"), &json!("CronJob"))
    );
    node.cluster.until(&own("forbid"), |cron_job| active(cron_job) == 1).await;
    let uid = |cron_job: &Value| cron_job["status"]["active"][0]["uid"].clone();
    let first = uid(&node.cluster.until(&own("replace"), |cron_job| active(cron_job) == 1).await);
    let is_replaced = |cron_job: &Value| active(cron_job) == 1 && uid(cron_job) != first;
    until_next_minute(&node, "replace", is_replaced).await;
    let zone = until_next_minute(&node, "zone", |cron_job| active(cron_job) >= 1).await;
    let name = zone["status"]["active"][0]["name"].as_str().unwrap();
    let started = node.cluster.get(&format!("{JOBS}/{name}")).await.is(200);
    let annotation = &started["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"];
    assert!(annotation.as_str().unwrap().ends_with(":00+05:45"), "{annotation}");
    until_next_minute(&node, "allow", |cron_job| active(cron_job) >= 2).await;
    assert_eq!(active(&node.cluster.get(&own("forbid")).await.is(200)), 1);
    node.cluster.until_events("forbid", |reasons| reasons.contains(&"JobAlreadyActive")).await;
    assert_eq!(node.cluster.get(&own("suspended")).await.is(200)["status"], json!({}));
    node.cluster.delete_with(&own("allow"), "Foreground").await;
    node.cluster.gone(&own("allow")).await;
    let left = node.cluster.get(&format!("{JOBS}?labelSelector=of%3Dallow")).await.is(200);
    assert_eq!(left["items"], json!([]));
}
