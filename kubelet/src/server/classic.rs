//! The endpoints kubelets have always had beside the API.

use apiserver::Status;
use apiserver::list::Page;
use apiserver::request::ListOptions;
use apiserver::store::Scope;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::{Value, json};

use super::Context;
use crate::metrics::Running;
use crate::status::resources::{self, PODS};

const JSON: [(http::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// `/pods`: the pods of this node, as they are shown.
pub async fn pods(State(context): State<Context>) -> Result<Response, Status> {
    let everything = ListOptions::default();
    let page = Page::read(context.board.store(), PODS, &Scope::All, &everything)?;
    let row = resources::row_of(PODS).ok_or_else(Status::no_such_path)?;
    Ok((JSON, page.json(row)).into_response())
}

/// `/runningpods`: no more than names and images of what runs.
pub async fn running_pods(State(context): State<Context>) -> Response {
    let items: Vec<Value> = context
        .board
        .store()
        .list(PODS, &Scope::All)
        .objects
        .iter()
        .filter_map(|object| {
            let pod = Value::Object(object.decode());
            let running: Vec<Value> = statuses(&pod)
                .filter(|status| status.pointer("/state/running").is_some())
                .map(|status| json!({"name": status["name"], "image": status["image"], "resources": {}}))
                .collect();
            let metadata = json!({
                "name": object.name(),
                "namespace": object.namespace(),
                "uid": object.uid(),
                "creationTimestamp": null,
            });
            let shown = json!({"metadata": metadata, "spec": {"containers": running}, "status": {}});
            (!running.is_empty()).then_some(shown)
        })
        .collect();
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items});
    (JSON, list.to_string()).into_response()
}

/// `/configz`: the settings in force.
pub async fn configuration(State(context): State<Context>) -> Response {
    (JSON, json!({"kubeletconfig": *context.configuration}).to_string()).into_response()
}

/// `/metrics`.
pub async fn metrics(State(context): State<Context>) -> Response {
    let mut running = Running::default();
    for object in context.board.store().list(PODS, &Scope::All).objects {
        let pod = Value::Object(object.decode());
        let mut runs = false;
        for status in statuses(&pod) {
            let state = |name: &str| status.get("state").is_some_and(|state| state.get(name).is_some());
            runs |= state("running");
            match (state("running"), state("terminated")) {
                (true, _) => running.running += 1,
                (false, true) => running.exited += 1,
                (false, false) => running.created += 1,
            }
        }
        running.pods += i64::from(runs);
    }
    ([(header::CONTENT_TYPE, OPEN_METRICS)], context.metrics.text(running)).into_response()
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"]
        .into_iter()
        .filter_map(|list| pod.get("status")?.get(list)?.as_array())
        .flatten()
}
