//! Containers that cannot start, crash again and again, or were restarted often of late. Pure.

use jiff::SignedDuration;
use serde_json::Value;

use super::super::World;
use super::super::field::{joined, list, part};
use crate::check::finding::{Finding, Subject};
use crate::controllers::Object;

/// So many restarts, the last of them of late, are told of.
const OFTEN: i64 = 5;
/// What counts as of late.
const LATE: SignedDuration = SignedDuration::from_hours(1);

/// Reasons for which a container waits that do not pass by themselves, what they mean, and the cure.
const STUCK: &[(&str, &str, &str)] = &[
    ("ImagePullBackOff", "gets no image", IMAGE),
    ("ErrImagePull", "gets no image", IMAGE),
    ("InvalidImageName", "gets no image", "correct the name of the image"),
    ("ErrImageNeverPull", "gets no image", "bring the image to the node, or change imagePullPolicy"),
    (
        "CreateContainerConfigError",
        "cannot be made",
        "make the ConfigMap or Secret that the message names, or correct the name",
    ),
    ("CreateContainerError", "cannot be made", "correct what the message names in the pod, or on the node"),
    ("RunContainerError", "cannot be started", "correct its command, mounts or devices as the message says"),
];
const IMAGE: &str = "check the name and tag of the image, whether the registry is reached from the node, and the pod's imagePullSecrets";

/// What is wrong with a pod's containers.
pub fn findings(world: &World, pod: &Object) -> Vec<Finding> {
    let all = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let all = all.into_iter().flat_map(|pointer| list(pod, pointer));
    all.filter_map(|status| of_container(world, pod, status)).collect()
}

fn of_container(world: &World, pod: &Object, status: &Value) -> Option<Finding> {
    let name = part(status, "name");
    let reason = part(status, "/state/waiting/reason");
    let subject = || Subject::of("Pod", pod);
    let restarts = status.get("restartCount").and_then(Value::as_i64).unwrap_or_default();
    if reason == "CrashLoopBackOff" {
        let what = format!("the container {name} crashes again and again ({restarts} restarts)");
        return Some(Finding::problem(subject(), what, last_words(pod, name, status)).because(last(status)));
    }
    if let Some((reason, what, remedy)) = STUCK.iter().find(|(known, ..)| *known == reason) {
        let why = joined(reason, part(status, "/state/waiting/message"));
        return Some(
            Finding::problem(subject(), format!("the container {name} {what}"), *remedy).because(why),
        );
    }
    let ended = part(status, "/lastState/terminated/finishedAt");
    let is_of_late = !ended.is_empty() && world.since(ended) < LATE;
    (restarts >= OFTEN && is_of_late).then(|| {
        let what = format!("the container {name} was restarted {restarts} times");
        Finding::warning(subject(), what, last_words(pod, name, status)).because(last(status))
    })
}

/// How it ended the last time.
fn last(status: &Value) -> String {
    let Some(ended) = status.pointer("/lastState/terminated") else { return String::new() };
    let code = ended.get("exitCode").and_then(Value::as_i64).unwrap_or_default();
    let how = match part(ended, "reason") {
        "" | "Error" => format!("it ended with exit code {code}"),
        reason => format!("it ended with exit code {code}, {reason}"),
    };
    joined(&how, part(ended, "message"))
}

fn last_words(pod: &Object, container: &str, status: &Value) -> String {
    let logs = format!("`kubectl logs -n {} {} -c {container} --previous`", pod.namespace, pod.name);
    match part(status, "/lastState/terminated/reason") {
        "OOMKilled" => format!("raise its memory limit, or see what takes so much: {logs}"),
        _ => format!("see what it said last: {logs}"),
    }
}
