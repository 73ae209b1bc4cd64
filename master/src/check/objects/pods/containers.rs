//! Checks containers that cannot start, crash repeatedly, or were restarted often. Pure.

use jiff::SignedDuration;

use super::super::World;
use super::super::kinds::{ContainerStatus, Pod, joined};
use crate::check::finding::{Finding, Subject};

/// Number of restarts from which they are reported, if the last one was recent.
const OFTEN: i64 = 5;
/// Maximum age of a recent restart.
const LATE: SignedDuration = SignedDuration::from_hours(1);

/// Waiting reasons that need action, with their meaning and remedy.
const STUCK: &[(&str, &str, &str)] = &[
    ("ImagePullBackOff", "has no image", IMAGE),
    ("ErrImagePull", "has no image", IMAGE),
    ("InvalidImageName", "has no image", "correct the name of the image"),
    ("ErrImageNeverPull", "has no image", "load the image on the node, or change imagePullPolicy"),
    (
        "CreateContainerConfigError",
        "cannot be created",
        "create the ConfigMap or Secret in the message, or correct the name",
    ),
    (
        "CreateContainerError",
        "cannot be created",
        "correct the cause in the message, in the pod or on the node",
    ),
    (
        "RunContainerError",
        "cannot be started",
        "correct its command, mounts or devices according to the message",
    ),
];
const IMAGE: &str = "check the name and tag of the image, the connection from the node to the registry, and the pod's imagePullSecrets";

/// Findings for the containers of a pod.
pub fn findings(world: &World, pod: &Pod) -> Vec<Finding> {
    let all = pod.status.init_container_statuses.iter().chain(&pod.status.container_statuses);
    all.filter_map(|status| of_container(world, pod, status)).collect()
}

fn of_container(world: &World, pod: &Pod, status: &ContainerStatus) -> Option<Finding> {
    let (name, restarts) = (&*status.name, status.restart_count);
    let waiting = status.state.waiting.as_ref();
    let (reason, message) = waiting.map_or(("", ""), |waiting| (&*waiting.reason, &*waiting.message));
    let subject = || Subject::of("Pod", &pod.metadata);
    if reason == "CrashLoopBackOff" {
        let what = format!("the container {name} crashes repeatedly ({restarts} restarts)");
        return Some(Finding::problem(subject(), what, last_words(pod, name, status)).because(last(status)));
    }
    if let Some((reason, what, remedy)) = STUCK.iter().find(|(known, ..)| *known == reason) {
        let why = joined(reason, message);
        return Some(
            Finding::problem(subject(), format!("the container {name} {what}"), *remedy).because(why),
        );
    }
    let ended = status.last_state.terminated.as_ref().and_then(|ended| ended.finished_at);
    let is_of_late = ended.is_some() && world.since(ended) < LATE;
    (restarts >= OFTEN && is_of_late).then(|| {
        let what = format!("the container {name} was restarted {restarts} times");
        Finding::warning(subject(), what, last_words(pod, name, status)).because(last(status))
    })
}

/// How the last run ended.
fn last(status: &ContainerStatus) -> String {
    let Some(ended) = &status.last_state.terminated else { return String::new() };
    let code = ended.exit_code;
    let how = match &*ended.reason {
        "" | "Error" => format!("it exited with code {code}"),
        reason => format!("it exited with code {code}, {reason}"),
    };
    joined(&how, &ended.message)
}

fn last_words(pod: &Pod, container: &str, status: &ContainerStatus) -> String {
    let logs = format!(
        "`kubectl logs -n {} {} -c {container} --previous`",
        pod.metadata.namespace, pod.metadata.name
    );
    match status.last_state.terminated.as_ref().map_or("", |ended| &*ended.reason) {
        "OOMKilled" => format!("raise its memory limit, or find out what uses so much: {logs}"),
        _ => format!("see its last log lines: {logs}"),
    }
}
