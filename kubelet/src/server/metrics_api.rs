//! Metrics API (`metrics.k8s.io`) of this node, for `kubectl top` without a cluster.

use std::collections::HashMap;
use std::sync::Arc;

use apiserver::Status;
use apiserver::metrics_api::{self, NodeSampler, Subject, Window};
use apiserver::watch_cache::{Object, Scope};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use http::Request;

use super::Context;
use crate::observed::Timestamp;
use crate::stats::summary::summary;
use crate::status::resources::{NODES, PODS};

/// Parameters of a matched route.
type Names = Path<HashMap<String, String>>;

/// The handlers' state.
#[derive(Clone)]
struct MetricsApi {
    context: Context,
    sampler: Arc<NodeSampler>,
}

/// The routes of `metrics.k8s.io`.
pub fn router(context: &Context) -> Router {
    metrics_api::routes(get(node_metrics), get(pod_metrics))
        .with_state(MetricsApi { context: context.clone(), sampler: Arc::default() })
}

impl MetricsApi {
    /// The usage in the last seconds.
    async fn window(&self) -> Result<Window, Status> {
        let stats = &self.context.stats;
        let fetch = || async {
            let usage = stats.take(Timestamp::now()).await.map_err(|error| error.to_string())?;
            serde_json::from_value(summary(&stats.node, &usage, true)).map_err(|error| error.to_string())
        };
        let unreadable =
            |why| Status::internal(format!("cannot read the resource usage of this node: {why}"));
        self.sampler.window(fetch).await.map_err(unreadable)
    }

    /// The objects of a resource in a scope, only the one with this name if it is not `None`.
    fn objects(&self, plural: &str, scope: &Scope, name: Option<&String>) -> Vec<Object> {
        let mut objects = self.context.status_manager.store().list(plural, scope).objects;
        objects.retain(|object| name.is_none_or(|name| name == object.name()));
        objects
    }
}

async fn node_metrics(
    State(metrics): State<MetricsApi>,
    Path(names): Names,
    request: Request<Body>,
) -> Result<Response, Status> {
    let window = metrics.window().await?;
    let nodes = metrics.objects(NODES, &Scope::All, names.get("name"));
    let objects = nodes.iter().map(|node| metrics_api::node_metrics_object(&Subject::of(node), &window));
    let revision = metrics.context.status_manager.store().revision();
    Ok(metrics_api::answer(&metrics_api::nodes(), objects, revision, request).await)
}

async fn pod_metrics(
    State(metrics): State<MetricsApi>,
    Path(names): Names,
    request: Request<Body>,
) -> Result<Response, Status> {
    let window = metrics.window().await?;
    let scope = names.get("namespace").cloned().map_or(Scope::All, Scope::Namespace);
    let pods = metrics.objects(PODS, &scope, names.get("name"));
    let objects = pods.iter().filter_map(|pod| metrics_api::pod_metrics_object(&Subject::of(pod), &window));
    let revision = metrics.context.status_manager.store().revision();
    Ok(metrics_api::answer(&metrics_api::pods(), objects, revision, request).await)
}
