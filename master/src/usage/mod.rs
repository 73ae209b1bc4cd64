//! What nodes and pods use, as `metrics.k8s.io`: `kubectl top`, and whoever else asks.
//!
//! Nobody is asked before somebody wants to know. A node is asked for what it has counted (`ask`), twice where nothing of it is known
//! from a short while before, and what was used between two answers is told as objects (`tell`), which a store of their own holds for
//! as long as the request lasts: lists, selectors and tables are made as of all others.

mod ask;
mod kinds;
mod tell;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use apiserver::store::{Draft, Memory, Object, Scope};
use apiserver::{Api, Catalog, Identity, Resource, Status};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::get;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::Request;
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::ServiceExt as _;

use self::ask::Asked;
pub use self::kinds::rows;
use self::tell::{Counts, Told, Window};
use crate::nodes::Nodes;
use crate::server::VERSION;

/// So many nodes are asked at once: each is a connection, and one that does not answer holds up nobody but those behind it.
const AT_ONCE: usize = 64;
/// Longest that a node is waited for.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a node is asked for.
const SUMMARY: &str = "/stats/summary?only_cpu_and_memory=true";
/// What is asked of a picture that lasts no longer than its request: all of it, as it is.
const PAGES: &[&str] = &["limit", "continue", "resourceVersion", "resourceVersionMatch"];

/// Who knows what is used.
pub struct Usage {
    nodes: Arc<Nodes>,
    objects: Memory,
    catalog: Catalog,
    /// What each node has said, of those that were asked a short while ago.
    asked: Mutex<HashMap<String, Arc<Asked>>>,
    places: Semaphore,
}

impl Usage {
    /// Nodes and pods are those of the store, and nodes are reached that way.
    pub fn new(nodes: Arc<Nodes>, objects: Memory) -> Arc<Self> {
        Arc::new(Self {
            nodes,
            objects,
            catalog: Catalog::new(rows()),
            asked: Mutex::default(),
            places: Semaphore::new(AT_ONCE),
        })
    }

    /// The paths of `metrics.k8s.io`.
    pub fn router(self: Arc<Self>) -> Router {
        let path = |rest: &str| format!("/apis/{}/{}/{rest}", kinds::GROUP, kinds::VERSION);
        Router::new()
            .route(&path("nodes"), get(of_nodes))
            .route(&path("nodes/{name}"), get(of_nodes))
            .route(&path("pods"), get(of_pods))
            .route(&path("namespaces/{namespace}/pods"), get(of_pods))
            .route(&path("namespaces/{namespace}/pods/{name}"), get(of_pods))
            .method_not_allowed_fallback(|| async { Status::no_such_method() })
            .with_state(self)
    }

    /// What these nodes have used of late; whoever is silent or does not answer is not in it.
    async fn windows(self: &Arc<Self>, nodes: BTreeSet<String>, who: Identity) -> HashMap<String, Window> {
        let asked: Vec<_> = {
            let mut all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            // Of those that nobody has asked for long nothing is kept.
            all.retain(|_, asked| Arc::strong_count(asked) > 1 || asked.is_of_use());
            nodes.into_iter().map(|node| (all.entry(node.clone()).or_default().clone(), node)).collect()
        };
        let windows = asked.into_iter().map(|(asked, node)| self.clone().window(asked, node, who.clone()));
        let windows: FuturesUnordered<_> = windows.collect();
        windows.filter_map(std::future::ready).collect().await
    }

    async fn window(
        self: Arc<Self>,
        asked: Arc<Asked>,
        node: String,
        who: Identity,
    ) -> Option<(String, Window)> {
        let object = self.objects.get("nodes", "", &node)?;
        if tell::is_silent(&object.decode()) {
            return None;
        }
        let window = asked.window(|| self.counts(&node, &who)).await.ok()?;
        Some((node, window))
    }

    /// Asks a node for what it has counted, when it is its turn.
    async fn counts(&self, node: &str, who: &Identity) -> Result<Counts, String> {
        let _place = self.places.acquire().await.map_err(|closed| closed.to_string())?;
        let late = |_| Err(format!("no answer within {} s", PATIENCE.as_secs()));
        let said = timeout(PATIENCE, self.nodes.ask(node, SUMMARY, who)).await.unwrap_or_else(late);
        let counts = said.and_then(|said| {
            serde_json::from_slice(&said).map_err(|error| format!("{SUMMARY} makes no sense: {error}"))
        });
        if let Err(why) = &counts {
            tracing::info!(%node, why, "what a node uses is not known");
        }
        counts
    }

    /// Answers a request for what these objects tell.
    async fn answer(
        &self,
        row: &Resource,
        told: impl Iterator<Item = Told>,
        request: Request<Body>,
    ) -> Response {
        let picture = Memory::new(self.objects.revision());
        for object in told {
            picture.put(row.stored(), &Draft::new(&object, &row.fields));
        }
        let api = Api::new(picture, self.catalog.clone(), VERSION);
        match api.router().oneshot(whole(request)).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

/// The same request for all of it.
fn whole(mut request: Request<Body>) -> Request<Body> {
    let asked = request.uri().query().unwrap_or_default().split('&');
    let is_of_pages = |part: &&str| PAGES.contains(&part.split('=').next().unwrap_or_default());
    let asked: Vec<&str> = asked.filter(|part| !is_of_pages(part)).collect();
    let target = format!("{}?{}", request.uri().path(), asked.join("&"));
    if let Ok(uri) = target.parse() {
        *request.uri_mut() = uri;
    }
    request
}

/// What the path of a request names.
type Names = Path<HashMap<String, String>>;

fn who(request: &Request<Body>) -> Identity {
    request.extensions().get().cloned().unwrap_or_else(Identity::anonymous)
}

async fn of_nodes(State(usage): State<Arc<Usage>>, Path(names): Names, request: Request<Body>) -> Response {
    let nodes = usage.objects.list("nodes", &Scope::All).objects;
    let named = |node: &&Object| names.get("name").is_none_or(|name| name == node.name());
    let nodes = nodes.iter().filter(named).map(Object::decode);
    let nodes: BTreeMap<String, Told> = nodes.map(|node| (tell::name(&node).to_owned(), node)).collect();
    let windows = usage.windows(nodes.keys().cloned().collect(), who(&request)).await;
    let now = Timestamp::now();
    let told = nodes.iter().filter_map(|(name, node)| Some(tell::of_node(node, windows.get(name)?, now)));
    usage.answer(&kinds::nodes(), told, request).await
}

async fn of_pods(State(usage): State<Arc<Usage>>, Path(names): Names, request: Request<Body>) -> Response {
    let scope = names.get("namespace").cloned().map_or(Scope::All, Scope::Namespace);
    let is_named = |pod: &Object| names.get("name").is_none_or(|name| name == pod.name());
    let mut pods = usage.objects.list("pods", &scope).objects;
    pods.retain(|pod| is_named(pod) && pod.field("status.phase") == Some("Running"));
    let node = |pod: &Object| pod.field("spec.nodeName").unwrap_or_default().to_owned();
    let windows = usage.windows(pods.iter().map(node).collect(), who(&request)).await;
    let now = Timestamp::now();
    let told = pods.iter().filter_map(|pod| tell::of_pod(&pod.decode(), windows.get(&node(pod))?, now));
    usage.answer(&kinds::pods(), told, request).await
}
