//! Metrics API (`metrics.k8s.io`): resource usage of nodes and pods, for `kubectl top` and autoscalers.
//!
//! Kubelets are queried only on demand. If there is no recent sample of a node, `sampler` reads its stats twice.
//! `summary` computes the usage between two samples. The results are put into a store that exists for one request,
//! so that lists, selectors and tables work as for all other resources.

mod resources;
mod sampler;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver::request::ListOptions;
use apiserver::watch_cache::{Draft, Object, Scope, WatchCache};
use apiserver::{Api, Catalog, Identity, Resource, Status, VERSION};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::Request;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::ServiceExt as _;

pub use self::resources::resources;
use self::sampler::NodeSampler;
use self::summary::{Counts, Json, Window};
use crate::node_proxy::NodeProxy;
use crate::objects::{self, ObjectMeta, PartialObject};

/// Maximum number of concurrent requests to kubelets. Each needs a connection.
const MAX_CONCURRENT_REQUESTS: usize = 64;
/// Timeout of a request to a kubelet.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// Path of the kubelet's stats summary.
const SUMMARY_PATH: &str = "/stats/summary?only_cpu_and_memory=true";
/// Query parameters that are ignored, because the whole snapshot of a request is always returned.
const PAGING_PARAMETERS: &[&str] = &["limit", "continue", "resourceVersion", "resourceVersionMatch"];

/// Serves the metrics API.
pub struct MetricsApi {
    nodes: Arc<NodeProxy>,
    objects: WatchCache,
    catalog: Catalog,
    /// Samplers of the nodes that were queried recently.
    samplers: Mutex<HashMap<String, Arc<NodeSampler>>>,
    permits: Semaphore,
}

impl MetricsApi {
    /// Creates the API. It reads nodes and pods from `objects`, and queries kubelets through `nodes`.
    pub fn new(nodes: Arc<NodeProxy>, objects: WatchCache) -> Arc<Self> {
        Arc::new(Self {
            nodes,
            objects,
            catalog: Catalog::new(resources()),
            samplers: Mutex::default(),
            permits: Semaphore::new(MAX_CONCURRENT_REQUESTS),
        })
    }

    /// The routes of `metrics.k8s.io`.
    pub fn router(self: Arc<Self>) -> Router {
        let path = |rest: &str| format!("/apis/{}/{}/{rest}", resources::GROUP, resources::VERSION);
        Router::new()
            .route(&path("nodes"), get(node_metrics))
            .route(&path("nodes/{name}"), get(node_metrics))
            .route(&path("pods"), get(pod_metrics))
            .route(&path("namespaces/{namespace}/pods"), get(pod_metrics))
            .route(&path("namespaces/{namespace}/pods/{name}"), get(pod_metrics))
            .method_not_allowed_fallback(|| async { Status::no_such_method() })
            .with_state(self)
    }

    /// The recent usage of the nodes. Nodes that are unreachable or do not respond are missing.
    async fn windows(
        self: &Arc<Self>,
        nodes: BTreeSet<String>,
        identity: Identity,
    ) -> HashMap<String, Window> {
        let samplers: Vec<_> = {
            let mut all = self.samplers.lock().unwrap_or_else(PoisonError::into_inner);
            // Drops samplers that are not in use and have no usable sample.
            all.retain(|_, samplers| Arc::strong_count(samplers) > 1 || samplers.is_usable());
            nodes.into_iter().map(|node| (all.entry(node.clone()).or_default().clone(), node)).collect()
        };
        let windows = samplers
            .into_iter()
            .map(|(samplers, node)| self.clone().window(samplers, node, identity.clone()));
        let windows: FuturesUnordered<_> = windows.collect();
        windows.filter_map(std::future::ready).collect().await
    }

    async fn window(
        self: Arc<Self>,
        samplers: Arc<NodeSampler>,
        node: String,
        identity: Identity,
    ) -> Option<(String, Window)> {
        let object = self.objects.get("nodes", "", &node)?;
        if summary::is_unreachable(&objects::decode(object.json())) {
            return None;
        }
        let window = samplers.window(|| self.counts(&node, &identity)).await.ok()?;
        Some((node, window))
    }

    /// Queries a kubelet. A semaphore limits the concurrent queries.
    async fn counts(&self, node: &str, identity: &Identity) -> Result<Counts, String> {
        let _place = self.permits.acquire().await.map_err(|closed| closed.to_string())?;
        let late = |_| Err(format!("no answer within {} s", NODE_TIMEOUT.as_secs()));
        let result = timeout(NODE_TIMEOUT, self.nodes.send_request(node, SUMMARY_PATH, identity))
            .await
            .unwrap_or_else(late);
        let counts = result.and_then(|result| {
            serde_json::from_slice(&result).map_err(|error| format!("{SUMMARY_PATH} makes no sense: {error}"))
        });
        if let Err(why) = &counts {
            tracing::info!(%node, why, "cannot read the resource usage of a node");
        }
        counts
    }

    /// Answers a request from these objects.
    async fn answer(
        &self,
        row: &Resource,
        objects: impl Iterator<Item = Json>,
        request: Request<Body>,
    ) -> Response {
        let snapshot = WatchCache::new(self.objects.revision());
        for object in objects {
            snapshot.put(row.stored(), &Draft::new(&object, &row.fields));
        }
        let api = Api::new(snapshot, self.catalog.clone(), VERSION);
        match api.router().oneshot(without_paging(request)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// Removes the paging parameters of a request.
fn without_paging(mut request: Request<Body>) -> Request<Body> {
    let samplers = request.uri().query().unwrap_or_default().split('&');
    let is_of_pages = |part: &&str| PAGING_PARAMETERS.contains(&part.split('=').next().unwrap_or_default());
    let samplers: Vec<&str> = samplers.filter(|part| !is_of_pages(part)).collect();
    let target = format!("{}?{}", request.uri().path(), samplers.join("&"));
    if let Ok(uri) = target.parse() {
        *request.uri_mut() = uri;
    }
    request
}

/// Parameters of a matched route.
type Names = Path<HashMap<String, String>>;

fn identity(request: &Request<Body>) -> Identity {
    request.extensions().get().cloned().unwrap_or_else(Identity::anonymous)
}

fn metadata(object: &Object) -> ObjectMeta {
    objects::decode::<PartialObject>(object.json()).metadata
}

async fn node_metrics(
    State(usage): State<Arc<MetricsApi>>,
    Path(names): Names,
    request: Request<Body>,
) -> Response {
    let nodes = usage.objects.list("nodes", &Scope::All).objects;
    let named = |node: &&Object| names.get("name").is_none_or(|name| name == node.name());
    let nodes: BTreeMap<String, ObjectMeta> =
        nodes.iter().filter(named).map(|node| (node.name().to_owned(), metadata(node))).collect();
    let windows = usage.windows(nodes.keys().cloned().collect(), identity(&request)).await;
    let objects =
        nodes.iter().filter_map(|(name, node)| Some(summary::node_metrics_object(node, windows.get(name)?)));
    usage.answer(&resources::nodes(), objects, request).await
}

async fn pod_metrics(
    State(usage): State<Arc<MetricsApi>>,
    Path(names): Names,
    request: Request<Body>,
) -> Response {
    let scope = names.get("namespace").cloned().map_or(Scope::All, Scope::Namespace);
    let is_named = |pod: &Object| names.get("name").is_none_or(|name| name == pod.name());
    let mut pods = usage.objects.list("pods", &scope).objects;
    // Only the nodes of the selected pods are queried. An invalid selector is reported with the answer.
    let selected = ListOptions::parse(request.uri(), false).unwrap_or_default().labels;
    pods.retain(|pod| is_named(pod) && selected.matches(pod) && pod.field("status.phase") == Some("Running"));
    let node = |pod: &Object| pod.field("spec.nodeName").unwrap_or_default().to_owned();
    let windows = usage.windows(pods.iter().map(node).collect(), identity(&request)).await;
    let objects =
        pods.iter().filter_map(|pod| summary::pod_metrics_object(&metadata(pod), windows.get(&node(pod))?));
    usage.answer(&resources::pods(), objects, request).await
}
