//! The binding subresource, which assigns a pod to a node.

use api::strategy::{Cause, Json};
use api::time::seconds;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::body::{self, Sent};
use super::scale::{at, put};
use super::{Write, object_meta, response};
use crate::status::Status;

const KIND: &str = "Binding";

/// Content of a Binding.
struct Binding {
    node: String,
    annotations: Json,
    labels: Json,
    uid: String,
    revision: String,
}

impl Write<'_> {
    /// Binds a pod, which the path or the binding names.
    pub(super) async fn bind(
        &self,
        name: Option<&str>,
        media_type: &str,
        bytes: &[u8],
    ) -> Result<Response, Status> {
        let sent = body::of_kind(body::document(media_type, bytes)?, &["v1", "v1beta3"], KIND)?;
        let given = object_meta::text(&sent, "name");
        let name = name.unwrap_or(given);
        if !given.is_empty() && given != name {
            return Err(Status::bad_request("name in URL does not match name in Binding object"));
        }
        let binding = Binding::read(&sent, name)?;
        let is_pinned = !binding.revision.is_empty();
        let written = self.change(name, is_pinned, |pod, _| {
            if let Some(why) = binding.conflict_reason(name, pod) {
                return Err(self.cannot_bind(name, &why));
            }
            let object = binding.bind_pod(pod, &seconds(self.now));
            // The stored pod is normalized already; annotations and labels from the binding may not be.
            let fits = binding.annotations.is_empty() && binding.labels.is_empty();
            Ok(Sent { fits, ..Sent::decided(object) })
        });
        written.await?;
        let made =
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
        Ok(response(StatusCode::CREATED, made.to_string(), &[]))
    }

    fn cannot_bind(&self, name: &str, why: &str) -> Status {
        let message = format!("Operation cannot be fulfilled on pods/binding \"{name}\": {why}");
        let details = json!({"name": name, "kind": "pods/binding"});
        Status { details: Some(details), ..Status::new(StatusCode::CONFLICT, "Conflict", message) }
    }
}

impl Binding {
    fn read(sent: &Json, name: &str) -> Result<Self, Status> {
        let text = |path: &str| at(sent, path).and_then(Value::as_str).unwrap_or_default();
        let map = |path: &str| at(sent, path).and_then(Value::as_object).cloned().unwrap_or_default();
        let mut causes = Vec::new();
        if !matches!(text("target.kind"), "" | "Node") {
            causes.push(Cause::not_supported("target.kind", text("target.kind"), &["Node", "<empty>"]));
        }
        if text("target.name").is_empty() {
            causes.push(Cause::required("target.name", ""));
        }
        if name.is_empty() {
            causes.push(Cause::required("metadata.name", "it names the pod"));
        }
        if !causes.is_empty() {
            return Err(Status::invalid_kind("", KIND, name, &causes));
        }
        Ok(Self {
            node: text("target.name").to_owned(),
            annotations: map("metadata.annotations"),
            labels: map("metadata.labels"),
            uid: text("metadata.uid").to_owned(),
            revision: text("metadata.resourceVersion").to_owned(),
        })
    }

    /// The reason why the pod cannot be bound.
    fn conflict_reason(&self, name: &str, pod: &Json) -> Option<String> {
        let uid = object_meta::text(pod, "uid");
        if !self.uid.is_empty() && self.uid != uid {
            return Some(format!(
                "Precondition failed: UID in precondition: {}, UID in object meta: {uid}",
                self.uid
            ));
        }
        if object_meta::is_terminating(pod) {
            return Some(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let node = at(pod, "spec.nodeName").and_then(Value::as_str).unwrap_or_default();
        if !node.is_empty() {
            return Some(format!("pod {name} is already assigned to node \"{node}\""));
        }
        let gates = at(pod, "spec.schedulingGates").and_then(Value::as_array);
        let is_gated = gates.is_some_and(|gates| !gates.is_empty());
        is_gated.then(|| format!("pod {name} has non-empty .spec.schedulingGates"))
    }

    fn bind_pod(&self, pod: &Json, now: &str) -> Json {
        let mut pod = pod.clone();
        put(&mut pod, "spec.nodeName", self.node.as_str().into());
        for (field, more) in [("annotations", &self.annotations), ("labels", &self.labels)] {
            for (key, value) in more {
                let all = object_meta::metadata(&mut pod).entry(field).or_insert_with(|| json!({}));
                if let Some(all) = all.as_object_mut() {
                    all.insert(key.clone(), value.clone());
                }
            }
        }
        if !self.revision.is_empty() {
            object_meta::metadata(&mut pod)
                .insert("resourceVersion".to_owned(), self.revision.as_str().into());
        }
        let mut conditions =
            at(&pod, "status.conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        conditions.retain(|condition| condition.get("type").and_then(Value::as_str) != Some("PodScheduled"));
        conditions.push(json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now}));
        put(&mut pod, "status.conditions", conditions.into());
        pod
    }
}
