//! Finds the container of a request, and checks that it supports the request. Error texts are those of the stock
//! kubelet.

use apiserver::Status;
use apiserver::watch_cache::WatchCache;
use http::StatusCode;
use serde_json::{Map, Value};

use crate::observed::PodUid;
use crate::status::resources::PODS;

/// Separator between runtime name and container id in a status.
const SCHEME: &str = "://";

/// A pod object with its status.
#[derive(Debug)]
pub struct ServedPod {
    name: String,
    object: Map<String, Value>,
}

impl ServedPod {
    /// Finds a pod.
    ///
    /// # Errors
    /// 404 if it does not exist.
    pub fn find(store: &WatchCache, namespace: &str, name: &str) -> Result<Self, Status> {
        let object = store.get(PODS, namespace, name).ok_or_else(|| Status::not_found(PODS, name))?;
        Ok(Self { name: name.to_owned(), object: object.decode() })
    }

    /// The named container, or the only container of the pod.
    ///
    /// # Errors
    /// 400 if the pod has no such container, or none is named and there are several.
    pub fn choose(&self, named: Option<&str>) -> Result<String, Status> {
        apiserver::container::choose(&self.name, &self.object, named)
    }

    /// Engine id of the container whose log is requested.
    ///
    /// # Errors
    /// 400 with the reason why there is no log.
    pub fn with_log(&self, container: &str, previous: bool) -> Result<String, Status> {
        let pod = &self.name;
        let refuse = |message: String| Err(Status::bad_request(message));
        let Some(status) = self.status(container) else {
            return refuse(format!("container \"{container}\" in pod \"{pod}\" is not available"));
        };
        let terminated = |state: &str| id(status.get(state)?.get("terminated")?);
        let waiting = status.pointer("/state/waiting");
        let before = terminated("lastState");
        if previous {
            return before.map_or_else(
                || {
                    refuse(format!(
                        "previous terminated container \"{container}\" in pod \"{pod}\" not found"
                    ))
                },
                Ok,
            );
        }
        let running = status.pointer("/state/running").and_then(|_| id(status));
        if let Some(found) = running.or_else(|| terminated("state")).or(before) {
            return Ok(found);
        }
        if status.pointer("/state/terminated").is_some() {
            return refuse(format!("container \"{container}\" in pod \"{pod}\" is terminated"));
        }
        let why = match waiting.and_then(|waiting| waiting.get("reason")).and_then(Value::as_str) {
            Some("ErrImagePull") => ": image can't be pulled".to_owned(),
            Some("ImagePullBackOff") => ": trying and failing to pull image".to_owned(),
            Some(reason) if !reason.is_empty() => format!(": {reason}"),
            _ => " - no logs yet".to_owned(),
        };
        refuse(format!("container \"{container}\" in pod \"{pod}\" is waiting to start{why}"))
    }

    /// Engine id of a running container.
    ///
    /// # Errors
    /// 404 if it is not running.
    pub fn running(&self, container: &str) -> Result<String, Status> {
        let phase = self.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
        if matches!(phase, "Succeeded" | "Failed") {
            let message =
                format!("cannot exec into a container in a completed pod; current phase is {phase}");
            return Err(Status::bad_request(message));
        }
        let status = self.status(container);
        let running = status.filter(|status| status.pointer("/state/running").is_some()).and_then(id);
        running.ok_or_else(|| {
            let message =
                format!("container not found (\"{container}\"): it does not run in pod \"{}\"", self.name);
            Status::new(StatusCode::NOT_FOUND, "NotFound", message)
        })
    }

    /// UID of the pod for port forwarding.
    ///
    /// # Errors
    /// 400 if the pod is not running.
    pub fn network(&self) -> Result<PodUid, Status> {
        let phase = self.pointer("/status/phase").and_then(Value::as_str).unwrap_or("Pending");
        // The pod network exists from before the first container starts, and between container restarts.
        let runs = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
            .iter()
            .flat_map(|list| self.list("/status", list))
            .any(|status| status.pointer("/state/running").is_some());
        if phase == "Running" || runs {
            let uid = self.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
            return Ok(PodUid::new(uid));
        }
        Err(Status::bad_request(format!(
            "unable to forward port because pod is not running. Current status={phase} (pod {})",
            self.name
        )))
    }

    /// Returns a field of the container's spec.
    pub fn spec(&self, container: &str, field: &str) -> Option<&Value> {
        ["containers", "initContainers", "ephemeralContainers"]
            .iter()
            .flat_map(|list| self.list("/spec", list))
            .find(|spec| name(spec) == container)
            .and_then(|spec| spec.get(field))
    }

    fn status(&self, container: &str) -> Option<&Value> {
        ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"]
            .iter()
            .flat_map(|list| self.list("/status", list))
            .find(|status| name(status) == container)
    }

    fn list(&self, part: &str, list: &str) -> &[Value] {
        let part = self.pointer(part).and_then(|part| part.get(list));
        part.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn pointer(&self, path: &str) -> Option<&Value> {
        let (first, rest) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
        let value = self.object.get(first)?;
        if rest.is_empty() { Some(value) } else { value.pointer(&format!("/{rest}")) }
    }
}

fn name(value: &Value) -> &str {
    value.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Reads the id from `docker://<id>`.
fn id(value: &Value) -> Option<String> {
    let text = value.get("containerID")?.as_str()?;
    let id = text.split_once(SCHEME).map_or(text, |(_, id)| id);
    (!id.is_empty()).then(|| id.to_owned())
}

#[cfg(test)]
mod tests;
