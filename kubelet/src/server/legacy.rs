//! Kubelet endpoints outside the Kubernetes API: pods, configz, metrics and resource usage.

use apiserver::list::Page;
use apiserver::request::{ListOptions, query_switch};
use apiserver::watch_cache::Scope;
use apiserver::{Status, exposition};
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use super::Context;
use super::logs::Pairs;
use crate::metrics::Running;
use crate::observed::Timestamp;
use crate::stats::{resource, summary};
use crate::status::resources::{self, PODS};

const JSON: [(http::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

/// Serves `/pods`: the pods of this node with their status.
pub async fn pods(State(context): State<Context>) -> Result<Response, Status> {
    let everything = ListOptions::default();
    let page = Page::read(context.status_manager.store(), PODS, &Scope::All, &everything)?;
    let row = resources::row_of(PODS).ok_or_else(Status::no_such_path)?;
    Ok((JSON, page.json(row)).into_response())
}

/// Serves `/runningpods`: names and images of running containers.
pub async fn running_pods(State(context): State<Context>) -> Response {
    let items: Vec<Value> = context
        .status_manager
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

/// Serves `/configz`: the effective configuration.
pub async fn configuration(State(context): State<Context>) -> Response {
    (JSON, json!({"kubeletconfig": *context.configuration}).to_string()).into_response()
}

/// Serves `/metrics` in Prometheus or OpenMetrics format.
pub async fn metrics(State(context): State<Context>, headers: HeaderMap) -> Response {
    let mut running = Running::default();
    for object in context.status_manager.store().list(PODS, &Scope::All).objects {
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
    exposition::respond(&headers, context.metrics.text(running))
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"]
        .into_iter()
        .filter_map(|list| pod.get("status")?.get(list)?.as_array())
        .flatten()
}

/// Serves `/stats/summary`: the usage of node and pods as JSON.
pub async fn summary(State(context): State<Context>, Query(query): Query<Pairs>) -> Result<Response, Status> {
    let only_cpu_and_memory =
        query.iter().any(|(name, value)| name == "only_cpu_and_memory" && query_switch(value));
    let usage = context.stats.take(Timestamp::now()).await.map_err(|error| {
        let message = format!("cannot read resource usage: {error}");
        Status::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    })?;
    let summary = summary::summary(&context.stats.node, &usage, only_cpu_and_memory);
    Ok(([(header::CONTENT_TYPE, "application/json")], summary.to_string()).into_response())
}

/// Serves `/metrics/resource`: the usage of node and pods as metrics.
pub async fn resource_metrics(State(context): State<Context>) -> Response {
    let usage = context.stats.take(Timestamp::now()).await;
    if let Err(error) = &usage {
        tracing::warn!(%error, "cannot read resource usage");
    }
    ([(header::CONTENT_TYPE, resource::MEDIA_TYPE)], resource::text(usage.as_ref().ok())).into_response()
}
