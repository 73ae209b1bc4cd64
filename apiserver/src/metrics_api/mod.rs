//! Metrics API (`metrics.k8s.io`): resource usage of nodes and pods, for `kubectl top` and autoscalers.
//!
//! If there is no recent sample of a node, [`NodeSampler`] takes two. [`Window`] computes the usage between two samples.
//! The results are put into a store that exists for one request, so that lists, selectors and tables work as for all
//! other resources.

mod resources;
mod sampler;
mod summary;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use axum::routing::MethodRouter;
use http::Request;
use tower::ServiceExt as _;

pub use self::resources::{GROUP, VERSION, nodes, pods, resources};
pub use self::sampler::NodeSampler;
pub use self::summary::{Counts, Json, Subject, Window, node_metrics_object, pod_metrics_object};
use crate::api::Api;
use crate::catalog::Catalog;
use crate::resource::Resource;
use crate::status::Status;
use crate::watch_cache::{Draft, WatchCache};

/// Query parameters that are ignored, because the whole snapshot of a request is always returned.
const PAGING_PARAMETERS: &[&str] = &["limit", "continue", "resourceVersion", "resourceVersionMatch"];

/// The routes of the metrics API, with the handlers for NodeMetrics and PodMetrics.
pub fn routes<S: Clone + Send + Sync + 'static>(nodes: MethodRouter<S>, pods: MethodRouter<S>) -> Router<S> {
    let path = |rest: &str| format!("/apis/{GROUP}/{VERSION}/{rest}");
    Router::new()
        .route(&path("nodes"), nodes.clone())
        .route(&path("nodes/{name}"), nodes)
        .route(&path("pods"), pods.clone())
        .route(&path("namespaces/{namespace}/pods"), pods.clone())
        .route(&path("namespaces/{namespace}/pods/{name}"), pods)
        .method_not_allowed_fallback(|| async { Status::no_such_method() })
}

/// Answers a request for one of the [`resources()`] from these objects. `revision` is the resource version of a list.
pub async fn answer(
    row: &Resource,
    objects: impl Iterator<Item = Json>,
    revision: u64,
    request: Request<Body>,
) -> Response {
    let snapshot = WatchCache::new(revision);
    for object in objects {
        snapshot.put(row.stored(), &Draft::new(&object, &row.fields));
    }
    let api = Api::new(snapshot, Catalog::new(resources()), crate::VERSION);
    match api.router().oneshot(without_paging(request)).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// Removes the paging parameters of a request.
fn without_paging(mut request: Request<Body>) -> Request<Body> {
    let parameters = request.uri().query().unwrap_or_default().split('&');
    let is_of_pages = |part: &&str| PAGING_PARAMETERS.contains(&part.split('=').next().unwrap_or_default());
    let parameters: Vec<&str> = parameters.filter(|part| !is_of_pages(part)).collect();
    let target = format!("{}?{}", request.uri().path(), parameters.join("&"));
    if let Ok(uri) = target.parse() {
        *request.uri_mut() = uri;
    }
    request
}
