//! Jobs whose pods lose their owner or labels, and policies that deny what the Job and the CronJob controller do.

use std::sync::atomic::{AtomicBool, Ordering};

use apiserver::admission::{AdmissionRequest, Operation};
use apiserver::status::Status;
use async_trait::async_trait;
use http::StatusCode;
use tokio::sync::watch;

use super::*;
use crate::controllers::fields::JOB_TRACKING;

/// A policy that denies that pods lose the finalizer of Jobs, and that Jobs are deleted.
#[derive(Debug)]
struct Policy {
    is_off: AtomicBool,
    /// Number of requests that it has denied.
    denied: watch::Sender<usize>,
}

fn has_finalizer(pod: &Json) -> bool {
    let finalizers = at(pod, "/metadata/finalizers").and_then(Value::as_array);
    finalizers.is_some_and(|all| all.iter().any(|finalizer| finalizer == JOB_TRACKING))
}

#[async_trait]
impl Admission for Policy {
    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_release = attempt.operation == Operation::Update
            && attempt.is_of("pods")
            && attempt.old.is_some_and(has_finalizer)
            && !has_finalizer(&attempt.object);
        let is_deletion = attempt.operation == Operation::Delete && attempt.is_of("jobs.batch");
        if self.is_off.load(Ordering::SeqCst) || !(is_release || is_deletion) {
            return Ok(());
        }
        self.denied.send_modify(|denied| *denied += 1);
        Err(Status::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", "denied by a policy"))
    }
}

impl Policy {
    fn new() -> Arc<Self> {
        Arc::new(Self { is_off: AtomicBool::new(false), denied: watch::Sender::new(0) })
    }

    async fn until_denied(&self, times: usize) {
        let mut denied = self.denied.subscribe();
        tokio::time::timeout(DEADLINE, denied.wait_for(|denied| *denied >= times)).await.unwrap().unwrap();
    }
}

/// A server with the controllers of these names and the garbage collector, and a policy if one is given.
async fn cluster(names: &[&str], policy: Option<Arc<Policy>>) -> Client {
    let names = names.iter().chain(&[garbage_collector::NAME]).map(|name| (*name).to_owned()).collect();
    let admission = policy.into_iter().map(|policy| policy as Arc<dyn Admission>).collect();
    let client = running_on(api(admission).await, Controllers::Only(names));
    namespace(&client, "shop").await;
    client
}

async fn job(client: &Client, name: &str, mut spec: Value) {
    spec["template"] = json!({"metadata": {"labels": {"app": name}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec});
    client.create(&Kind::JOB, "shop", job).await.unwrap();
}

/// Waits until there are so many pods in the phase, and returns their names.
async fn pods(client: &Client, phase: &str, count: usize) -> Vec<String> {
    let mut names = Vec::new();
    let of_phase = |found: &BTreeMap<String, Json>| -> Vec<String> {
        let pods = found.values().filter(|pod| text(at(pod, "/status/phase")) == phase);
        pods.map(|pod| text(at(pod, "/metadata/name"))).collect()
    };
    until(client, &Kind::POD, |found| of_phase(found).len() == count).await;
    client
        .list(&Kind::POD, "shop", |pod| {
            if text(at(&pod, "/status/phase")) == phase {
                names.push(text(at(&pod, "/metadata/name")));
            }
        })
        .await
        .unwrap();
    names
}

async fn set_phase(client: &Client, pod: &str, phase: &str) {
    let patch = json!({"status": {"phase": phase}});
    client.patch_subresource(&Kind::POD, "shop", pod, "status", patch).await.unwrap();
}

/// Waits until a pod has no finalizer of Jobs, or is gone.
async fn until_released(client: &Client, pod: &str) {
    let key = format!("shop/{pod}");
    until(client, &Kind::POD, |found| !found.get(&key).is_some_and(has_finalizer)).await;
}

/// Waits for a number in the status of a Job.
async fn until_counted(client: &Client, job: &str, field: &str, count: i64) {
    let (key, pointer) = (format!("shop/{job}"), format!("/status/{field}"));
    until(client, &Kind::JOB, |found| {
        found.get(&key).and_then(|job| at(job, &pointer)).and_then(Value::as_i64) == Some(count)
    })
    .await;
}

#[tokio::test]
async fn a_pod_is_not_counted_while_a_policy_denies_that_it_loses_its_finalizer() {
    let policy = Policy::new();
    let client = cluster(&[job::NAME], Some(policy.clone())).await;
    job(&client, "pi", json!({"completions": 2, "parallelism": 1})).await;
    let first = pods(&client, "Pending", 1).await.remove(0);
    set_phase(&client, &first, "Succeeded").await;
    policy.until_denied(3).await;
    let found = client.get(&Kind::JOB, "shop", "pi").await.unwrap();
    let uncounted = at(&found, "/status/uncountedTerminatedPods/succeeded").and_then(Value::as_array);
    assert_eq!(uncounted.map_or(0, Vec::len), 1, "{found:?}");
    assert_eq!(at(&found, "/status/succeeded"), None, "{found:?}");
    policy.is_off.store(true, Ordering::SeqCst);
    until_counted(&client, "pi", "succeeded", 1).await;
    let second = pods(&client, "Pending", 1).await.remove(0);
    set_phase(&client, &second, "Succeeded").await;
    until(&client, &Kind::JOB, |found| condition_is(&found["shop/pi"], "Complete", "True")).await;
    until_counted(&client, "pi", "succeeded", 2).await;
}

#[tokio::test]
async fn pods_of_a_job_deleted_with_orphan_propagation_lose_their_finalizers() {
    let client = cluster(&[job::NAME], None).await;
    job(&client, "pi", json!({"completions": 4, "parallelism": 4})).await;
    let names = pods(&client, "Pending", 4).await;
    set_phase(&client, &names[0], "Running").await;
    let how = DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() };
    client.delete(&Kind::JOB, "shop", "pi", &how).await.unwrap();
    until(&client, &Kind::JOB, |found| found.is_empty()).await;
    for pod in &names {
        until_released(&client, pod).await;
    }
    assert_eq!(pods(&client, "Pending", 3).await.len(), 3, "the pods are not deleted");
}

#[tokio::test]
async fn a_pod_that_its_job_no_longer_selects_is_released_even_while_it_is_deleted() {
    let client = cluster(&[job::NAME], None).await;
    job(&client, "pi", json!({"completions": 5, "parallelism": 2, "podReplacementPolicy": "Failed"})).await;
    let names = pods(&client, "Pending", 2).await;
    client.delete(&Kind::POD, "shop", &names[0], &DeleteOptions::default()).await.unwrap();
    for pod in &names {
        let labels = json!({"batch.kubernetes.io/controller-uid": "other", "controller-uid": "other"});
        let patch = json!({"metadata": {"labels": labels}});
        client.patch(&Kind::POD, "shop", pod, patch).await.unwrap();
        until_released(&client, pod).await;
    }
    let found = client.get(&Kind::JOB, "shop", "pi").await.unwrap();
    assert_eq!(at(&found, "/status/failed"), None, "released pods do not count: {found:?}");
}

/// Writes the status of a failed Job, as another controller does.
async fn fail_job(client: &Client, name: &str) {
    let mut job = client.get(&Kind::JOB, "shop", name).await.unwrap();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "m"});
    let conditions = json!([condition("FailureTarget"), condition("Failed")]);
    job.insert("status".to_owned(), json!({"startTime": "2026-01-01T00:00:00Z", "conditions": conditions}));
    client.update(&Kind::JOB, "status", job).await.unwrap();
}

/// Creates a pod with this label and these finalizers, and without an owner.
async fn orphan(client: &Client, name: &str, app: &str, finalizers: &[&str]) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": app}, "finalizers": finalizers},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    client.create(&Kind::POD, "shop", pod).await.unwrap();
}

/// Waits until the controller has cached all earlier Jobs: creates another Job, and waits for its pod.
async fn until_jobs_are_cached(client: &Client) {
    job(client, "later", json!({})).await;
    pods(client, "Pending", 1).await;
}

/// Waits until the controller has checked all earlier orphans: creates another orphan that no Job selects, and waits
/// until it is released.
async fn until_orphans_are_checked(client: &Client) {
    orphan(client, "later", "none", &[JOB_TRACKING]).await;
    until_released(client, "later").await;
}

#[tokio::test]
async fn an_ended_orphan_is_adopted_and_counted() {
    let client = cluster(&[job::NAME], None).await;
    orphan(&client, "o", "a", &[]).await;
    set_phase(&client, "o", "Succeeded").await;
    let selector = json!({"matchLabels": {"app": "a"}});
    job(
        &client,
        "a",
        json!({"parallelism": 0, "completions": 1, "manualSelector": true, "selector": selector}),
    )
    .await;
    until_counted(&client, "a", "succeeded", 1).await;
    until(&client, &Kind::JOB, |found| condition_is(&found["shop/a"], "Complete", "True")).await;
    until_released(&client, "o").await;
}

#[tokio::test]
async fn an_orphan_is_released_when_no_job_adopts_it_any_more() {
    let client = cluster(&[job::NAME], None).await;
    let selector = json!({"matchLabels": {"app": "a"}});
    // Another controller manages the Job, so it adopts no pods here.
    let spec = json!({"manualSelector": true, "selector": selector, "managedBy": "example.com/other"});
    job(&client, "a", spec).await;
    until_jobs_are_cached(&client).await;
    orphan(&client, "kept", "a", &[JOB_TRACKING]).await;
    orphan(&client, "deleted", "a", &[JOB_TRACKING, "example.com/hold"]).await;
    until_orphans_are_checked(&client).await;
    for pod in ["kept", "deleted"] {
        assert!(
            has_finalizer(&client.get(&Kind::POD, "shop", pod).await.unwrap()),
            "{pod} is released early"
        );
    }
    client.delete(&Kind::POD, "shop", "deleted", &DeleteOptions::default()).await.unwrap();
    until_released(&client, "deleted").await;
    client.delete(&Kind::JOB, "shop", "a", &DeleteOptions::default()).await.unwrap();
    until_released(&client, "kept").await;
}

#[tokio::test]
async fn an_orphan_is_released_when_the_job_that_selects_it_finishes() {
    let client = cluster(&[job::NAME], None).await;
    let selector = json!({"matchLabels": {"app": "a"}});
    job(
        &client,
        "a",
        json!({"manualSelector": true, "selector": selector, "managedBy": "example.com/other"}),
    )
    .await;
    until_jobs_are_cached(&client).await;
    orphan(&client, "o", "a", &[JOB_TRACKING]).await;
    until_orphans_are_checked(&client).await;
    assert!(has_finalizer(&client.get(&Kind::POD, "shop", "o").await.unwrap()), "the pod is released early");
    fail_job(&client, "a").await;
    until_released(&client, "o").await;
}

#[tokio::test]
async fn a_cron_job_starts_a_job_although_a_policy_denies_that_an_old_one_is_deleted() {
    let policy = Policy::new();
    let client = cluster(&[cron_job::NAME], Some(policy.clone())).await;
    let template = json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let spec = json!({"schedule": "@every 1s", "suspend": true, "failedJobsHistoryLimit": 0, "jobTemplate": template});
    let cron_job =
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": spec});
    let cron_job = client.create(&Kind::CRON_JOB, "shop", cron_job).await.unwrap();
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "controller": true,
        "uid": at(&cron_job, "/metadata/uid")});
    let old = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "old", "ownerReferences": [owner]},
        "spec": template["spec"]});
    client.create(&Kind::JOB, "shop", old).await.unwrap();
    fail_job(&client, "old").await;
    policy.until_denied(1).await;
    client.patch(&Kind::CRON_JOB, "shop", "tick", json!({"spec": {"suspend": false}})).await.unwrap();
    until(&client, &Kind::JOB, |found| found.keys().any(|key| key.starts_with("shop/tick-"))).await;
    until(&client, &Kind::EVENT, |found| {
        let reasons: Vec<String> = found.values().map(|event| text(event.get("reason"))).collect();
        ["FailedDelete", "SuccessfulCreate"].iter().all(|reason| reasons.iter().any(|seen| seen == reason))
    })
    .await;
}
