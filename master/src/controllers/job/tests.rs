//! Tests of plans of Jobs, from the Kubernetes documentation.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod ends;
mod indexed;
mod scaling;

use std::collections::HashSet;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::backoff::Backoff;
use super::plan::{Input, Plan, plan};
use super::pod::JobPod;
use super::scaling::Step;
use crate::controllers::fields::JOB_TRACKING;
use crate::controllers::object::Object;
use crate::objects::Job;
use crate::objects::job::JobStatus;

fn at(second: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
}

fn job(spec: Value, status: Value) -> Job {
    let metadata = json!({"name": "pi", "namespace": "n", "uid": "1"});
    serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
}

/// A pod that finished at the second of the given number.
fn pod_at(name: &str, phase: &str, second: i64, more: &Value) -> Object {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "finalizers": [JOB_TRACKING], "creationTimestamp": at(0).to_string(),
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": "1", "controller": true}]},
        "spec": {"nodeName": "a"},
        "status": {"phase": phase},
    });
    if matches!(phase, "Succeeded" | "Failed") {
        let code = i32::from(phase == "Failed");
        let end = json!({"exitCode": code, "finishedAt": at(second).to_string()});
        pod["status"]["containerStatuses"] = json!([{"name": "main", "state": {"terminated": end}}]);
    }
    merge(&mut pod, more);
    Object::decode("pods", pod.as_object().unwrap()).unwrap()
}

fn pod(name: &str, phase: &str) -> Object {
    pod_at(name, phase, 0, &json!({}))
}

fn indexed_pod(name: &str, phase: &str, index: u32) -> Object {
    let annotations = json!({"batch.kubernetes.io/job-completion-index": index.to_string()});
    pod_at(name, phase, 0, &json!({"metadata": {"annotations": annotations}}))
}

/// A pod that is being deleted.
fn terminating(name: &str) -> Object {
    let metadata = json!({"deletionTimestamp": at(30).to_string(), "deletionGracePeriodSeconds": 30});
    pod_at(name, "Running", 0, &json!({"metadata": metadata}))
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            from.iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Value::Null), value));
        }
        (into, from) => *into = from.clone(),
    }
}

/// What a plan does, as texts.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    step: String,
    release: Vec<String>,
    target: Option<String>,
    status: JobStatus,
    requeue_after: Option<u64>,
}

fn seen(plan: &Plan<'_>) -> Seen {
    let names = |pods: &[&JobPod<'_>]| pods.iter().map(|pod| pod.replica.name).collect::<Vec<_>>().join(" ");
    let step = match &plan.step {
        Step::Nothing => String::new(),
        Step::Create(new) if new.iter().all(|new| new.index.is_none()) => format!("create {}", new.len()),
        Step::Create(new) => {
            let indexes = new.iter().map(|new| match (new.index.unwrap(), new.earlier_failures) {
                (index, None | Some((0, 0))) => index.to_string(),
                (index, Some((counted, ignored))) => format!("{index}({counted}+{ignored})"),
            });
            format!("create {}", indexes.collect::<Vec<_>>().join(" "))
        }
        Step::DeleteCounted(pods) => format!("delete {}", names(pods)),
        Step::DeleteUncounted(pods) => format!("remove {}", names(pods)),
    };
    Seen {
        step,
        release: plan.release.iter().map(|pod| pod.replica.name.to_owned()).collect(),
        target: plan.target.as_ref().map(|target| target.reason.to_string()),
        status: plan.status.clone(),
        requeue_after: plan.requeue_after.map(|after| after.as_secs()),
    }
}

/// Plans at a second, without failures before.
fn plan_at(second: i64, job: &Job, pods: &[Object]) -> Seen {
    let views: Vec<JobPod<'_>> = pods.iter().map(|pod| JobPod::of(pod).unwrap()).collect();
    seen(&plan(Input { job, pods: &views, backoff: Some(Backoff::default()), now: at(second) }))
}

/// Plans long after all pods finished.
fn plan_later(job: &Job, pods: &[Object]) -> Seen {
    plan_at(3600, job, pods)
}

/// The status after all finalizers of the plan are removed, except those of the pods with these names.
fn concluded(job: &Job, pods: &[Object], kept: &[&str]) -> JobStatus {
    let views: Vec<JobPod<'_>> = pods.iter().map(|pod| JobPod::of(pod).unwrap()).collect();
    let plan = plan(Input { job, pods: &views, backoff: None, now: at(3600) });
    let released: Vec<&str> = plan.release.iter().map(|pod| pod.replica.name).collect();
    let is_kept = |pod: &&Object| kept.contains(&pod.name.as_str()) || !released.contains(&pod.name.as_str());
    let tracked: HashSet<&str> = pods.iter().filter(is_kept).map(|pod| pod.uid.as_str()).collect();
    plan.conclude(&tracked, at(3600))
}

/// Types, statuses and reasons of the conditions.
fn conditions(status: &JobStatus) -> String {
    let text = |one: &crate::objects::job::JobCondition| {
        let sign = if &*one.status == "True" { "" } else { "!" };
        format!("{sign}{}:{}", one.r#type, one.reason)
    };
    status.conditions.iter().map(text).collect::<Vec<_>>().join(" ")
}

fn uids(list: &[Box<str>]) -> Vec<&str> {
    list.iter().map(|uid| &**uid).collect()
}
