//! Metrics API (`metrics.k8s.io`) of a cluster: resource usage of nodes and pods, for `kubectl top` and autoscalers.
//! Kubelets are queried only on demand. [`apiserver::metrics_api`] computes the usage.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver::Identity;
use apiserver::metrics_api::{self, Counts, NodeSampler, Subject, Window};
use apiserver::request::ListOptions;
use apiserver::watch_cache::{Object, Scope, WatchCache};
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

use crate::node_proxy::NodeProxy;
use crate::objects::{self, Conditioned};

/// Maximum number of concurrent requests to kubelets. Each needs a connection.
const MAX_CONCURRENT_REQUESTS: usize = 64;
/// Timeout of a request to a kubelet.
const NODE_TIMEOUT: Duration = Duration::from_secs(5);
/// Path of the kubelet's stats summary.
const SUMMARY_PATH: &str = "/stats/summary?only_cpu_and_memory=true";

/// Serves the metrics API.
pub struct MetricsApi {
    nodes: Arc<NodeProxy>,
    objects: WatchCache,
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
            samplers: Mutex::default(),
            permits: Semaphore::new(MAX_CONCURRENT_REQUESTS),
        })
    }

    /// The routes of `metrics.k8s.io`.
    pub fn router(self: Arc<Self>) -> Router {
        metrics_api::routes(get(node_metrics), get(pod_metrics)).with_state(self)
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
        if is_unreachable(&objects::decode(object.json())) {
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
}

/// Parameters of a matched route.
type Names = Path<HashMap<String, String>>;

fn identity(request: &Request<Body>) -> Identity {
    request.extensions().get().cloned().unwrap_or_else(Identity::anonymous)
}

/// True if the Ready condition is Unknown, because the node sends no heartbeats.
fn is_unreachable(node: &Conditioned) -> bool {
    node.status.conditions.of_type("Ready").is_some_and(|ready| &*ready.status == "Unknown")
}

async fn node_metrics(
    State(usage): State<Arc<MetricsApi>>,
    Path(names): Names,
    request: Request<Body>,
) -> Response {
    let nodes = usage.objects.list("nodes", &Scope::All).objects;
    let named = |node: &&Object| names.get("name").is_none_or(|name| name == node.name());
    let nodes: BTreeMap<String, Subject> =
        nodes.iter().filter(named).map(|node| (node.name().to_owned(), Subject::of(node))).collect();
    let windows = usage.windows(nodes.keys().cloned().collect(), identity(&request)).await;
    let objects = nodes
        .iter()
        .filter_map(|(name, node)| Some(metrics_api::node_metrics_object(node, windows.get(name)?)));
    metrics_api::answer(&metrics_api::nodes(), objects, usage.objects.revision(), request).await
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
    let objects = pods
        .iter()
        .filter_map(|pod| metrics_api::pod_metrics_object(&Subject::of(pod), windows.get(&node(pod))?));
    metrics_api::answer(&metrics_api::pods(), objects, usage.objects.revision(), request).await
}

#[cfg(test)]
mod tests {
    //! Tests of nodes that are not queried.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_whose_ready_condition_is_unknown_is_unreachable() {
        for (status, expected) in [("True", false), ("False", false), ("Unknown", true)] {
            let conditions =
                json!([{"type": "DiskPressure", "status": "Unknown"}, {"type": "Ready", "status": status}]);
            let node = serde_json::from_value(json!({"status": {"conditions": conditions}})).unwrap();
            assert_eq!(is_unreachable(&node), expected, "{status}");
        }
        assert!(!is_unreachable(&Conditioned::default()));
    }
}
