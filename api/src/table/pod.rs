//! Printer columns of Pods.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    AGE, Columns, NAME, NONE, Object, age, condition, field, list, name, or_none, shown, text, wide,
};

/// The printer columns of Pods.
pub const PODS: Columns = Columns {
    heads: &[
        NAME,
        shown("Ready", "The number of ready containers."),
        shown("Status", "The status."),
        shown("Restarts", "The number of container restarts."),
        AGE,
        wide("IP", "The pod IP."),
        wide("Node", "The node of the pod."),
        wide("Nominated Node", "The node on which preemption makes room for the pod."),
        wide("Readiness Gates", "The number of readiness gates that are true."),
    ],
    cells,
};

fn cells(pod: &Object, now: Timestamp) -> Vec<Value> {
    let summary = Summary::of(pod);
    let ips = list(pod, "status", "podIPs");
    let ip = ips.first().map_or(text(pod, "status", "podIP"), |ip| field(ip, "ip"));
    vec![
        name(pod),
        format!("{}/{}", summary.ready, summary.containers).into(),
        summary.reason.clone().into(),
        summary.restarts(now).into(),
        age::of(pod, now),
        or_none(ip),
        or_none(text(pod, "spec", "nodeName")),
        or_none(text(pod, "status", "nominatedNodeName")),
        gates(pod).into(),
    ]
}

fn gates(pod: &Object) -> String {
    let gates = list(pod, "spec", "readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open =
        gates.iter().filter(|gate| condition(pod, field(gate, "conditionType")) == Some("True")).count();
    format!("{open}/{}", gates.len())
}

/// The readiness, status and restarts of a pod, as its row shows them.
struct Summary {
    /// Number of ready containers; `containers` is the total.
    ready: usize,
    containers: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn of(pod: &Object) -> Self {
        let sidecars = sidecars(pod);
        let mut summary = Self {
            ready: 0,
            containers: list(pod, "spec", "containers").len() + sidecars.len(),
            reason: phase_or_reason(pod),
            restarts: 0,
            last_restart: None,
        };
        let initializing = summary.init_containers(pod, &sidecars);
        if !initializing || condition(pod, "Initialized") == Some("True") {
            summary.main_containers(pod, &sidecars);
        }
        let deleted = !text(pod, "metadata", "deletionTimestamp").is_empty();
        let ended = matches!(text(pod, "status", "phase"), "Succeeded" | "Failed");
        if deleted && text(pod, "status", "reason") == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if deleted && !ended {
            summary.reason = "Terminating".to_owned();
        }
        summary
    }

    /// Counts init containers up to the first one that is not complete. Returns true if there is one.
    fn init_containers(&mut self, pod: &Object, sidecars: &HashSet<&str>) -> bool {
        let statuses = list(pod, "status", "initContainerStatuses");
        for (index, status) in statuses.iter().enumerate() {
            self.count_restarts(status);
            let sidecar = sidecars.contains(field(status, "name"));
            let state = State::of(status);
            match state {
                State::Terminated { exit_code: 0, .. } => continue,
                _ if sidecar && flag(status, "started") => {
                    self.ready += usize::from(flag(status, "ready"));
                    continue;
                }
                State::Terminated { .. } => self.reason = format!("Init:{}", state.word()),
                State::Waiting { reason } if !matches!(reason, "" | "PodInitializing") => {
                    self.reason = format!("Init:{reason}");
                }
                State::Waiting { .. } | State::Running => {
                    self.reason = format!("Init:{index}/{}", list(pod, "spec", "initContainers").len());
                }
            }
            return true;
        }
        false
    }

    /// Counts the main containers. After initialization, only the restarts of these and of sidecars are shown.
    fn main_containers(&mut self, pod: &Object, sidecars: &HashSet<&str>) {
        (self.restarts, self.last_restart) = (0, None);
        for status in list(pod, "status", "initContainerStatuses") {
            if sidecars.contains(field(status, "name")) {
                self.count_restarts(status);
            }
        }
        let mut running = false;
        for status in list(pod, "status", "containerStatuses").iter().rev() {
            self.count_restarts(status);
            let state = State::of(status);
            match state {
                State::Waiting { reason: "" } => {}
                State::Waiting { reason } => self.reason = reason.to_owned(),
                State::Terminated { .. } => self.reason = state.word(),
                State::Running if flag(status, "ready") => {
                    running = true;
                    self.ready += 1;
                }
                State::Running => {}
            }
        }
        // A pod is not completed while one of its containers is running.
        if running && self.reason == "Completed" {
            let ready = condition(pod, "Ready") == Some("True");
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn count_restarts(&mut self, status: &Value) {
        self.restarts += status.get("restartCount").and_then(Value::as_i64).unwrap_or_default();
        let ended = status.pointer("/lastState/terminated/finishedAt").and_then(Value::as_str);
        let ended = ended.and_then(|ended| ended.parse::<Timestamp>().ok());
        self.last_restart = self.last_restart.max(ended);
    }

    fn restarts(&self, now: Timestamp) -> String {
        match self.last_restart {
            Some(last) if self.restarts != 0 => {
                format!("{} ({} ago)", self.restarts, age::duration(now.duration_since(last).as_secs()))
            }
            _ => self.restarts.to_string(),
        }
    }
}

/// The names of restartable init containers.
fn sidecars(pod: &Object) -> HashSet<&str> {
    let containers = list(pod, "spec", "initContainers").iter();
    containers
        .filter(|container| field(container, "restartPolicy") == "Always")
        .map(|c| field(c, "name"))
        .collect()
}

fn phase_or_reason(pod: &Object) -> String {
    let gated = list(pod, "status", "conditions").iter().any(|condition| {
        field(condition, "type") == "PodScheduled" && field(condition, "reason") == "SchedulingGated"
    });
    if gated {
        return "SchedulingGated".to_owned();
    }
    match text(pod, "status", "reason") {
        "" => text(pod, "status", "phase").to_owned(),
        reason => reason.to_owned(),
    }
}

/// The state of a container.
#[derive(Clone, Copy)]
enum State<'a> {
    Waiting { reason: &'a str },
    Running,
    Terminated { reason: &'a str, exit_code: i64, signal: i64 },
}

impl<'a> State<'a> {
    /// Returns the state in a container status. A status without a state counts as waiting.
    fn of(status: &'a Value) -> Self {
        let state =
            |name: &str| status.get("state").and_then(|state| state.get(name)).filter(|s| !s.is_null());
        if let Some(terminated) = state("terminated") {
            let number = |name: &str| terminated.get(name).and_then(Value::as_i64).unwrap_or_default();
            let reason = field(terminated, "reason");
            Self::Terminated { reason, exit_code: number("exitCode"), signal: number("signal") }
        } else if state("running").is_some() {
            Self::Running
        } else {
            Self::Waiting { reason: state("waiting").map_or("", |waiting| field(waiting, "reason")) }
        }
    }

    /// The reason of a terminated or waiting container.
    fn word(self) -> String {
        match self {
            Self::Terminated { reason: "", signal: 0, exit_code } => format!("ExitCode:{exit_code}"),
            Self::Terminated { reason: "", signal, .. } => format!("Signal:{signal}"),
            Self::Terminated { reason, .. } | Self::Waiting { reason } => reason.to_owned(),
            Self::Running => "Running".to_owned(),
        }
    }
}

fn flag(status: &Value, name: &str) -> bool {
    status.get(name).and_then(Value::as_bool) == Some(true)
}
