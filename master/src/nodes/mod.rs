//! What only a node can answer: the logs, commands and ports of its pods, and everything it tells of itself.
//!
//! A request is read (`ask`), its node found (`place`), reached over TLS as the node that it is (`line`, `verify`), and
//! passed on (`pass`). Nothing is kept from one request to the next but the certificate that is shown to nodes (`shown`).

mod ask;
mod line;
mod pass;
mod place;
mod shown;
mod verify;

use std::sync::Arc;

use apiserver::store::Memory;
use apiserver::{Status, container};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use http::{Request, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use self::ask::Part;
use self::line::Line;
use self::pass::Way;
use self::place::Place;
pub use self::shown::Shown;
use self::verify::Trust;
use crate::options::AddressType;

/// Requests that are passed to nodes at once, followed logs and open shells among them: each is two connections and some
/// 100 KiB, and more than one for every second pod of a big cluster is nobody's wish.
const AT_ONCE: usize = 2_000;

/// How nodes are reached.
#[derive(Debug)]
pub struct Nodes {
    objects: Memory,
    line: Line,
    preferred: Vec<AddressType>,
    places: Arc<Semaphore>,
}

impl Nodes {
    /// Nodes and pods are those of the store; addresses are tried for in that order.
    pub fn new(objects: Memory, shown: Shown, preferred: Vec<AddressType>) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        Arc::new(Self { objects, line: Line::new(shown), preferred, places })
    }

    /// The paths that nodes answer.
    pub fn router(self: Arc<Self>) -> Router {
        let pod = |part: &str| format!("/api/v1/namespaces/{{namespace}}/pods/{{name}}/{part}");
        let connected = |part: Part| {
            let handler = async move |State(nodes): State<Arc<Self>>, Path(path), request| {
                answered(nodes.connect(part, path, request).await)
            };
            get(handler).post(handler)
        };
        Router::new()
            .route(&pod("log"), get(log))
            .route(&pod("exec"), connected(Part::Exec))
            .route(&pod("attach"), connected(Part::Attach))
            .route(&pod("portforward"), connected(Part::PortForward))
            .route(&pod("proxy"), any(no_proxy))
            .route(&pod("proxy/{*path}"), any(no_proxy))
            .route("/api/v1/nodes/{name}/proxy", any(proxy))
            .route("/api/v1/nodes/{name}/proxy/", any(proxy))
            .route("/api/v1/nodes/{name}/proxy/{*path}", any(proxy))
            .method_not_allowed_fallback(|| async { Status::no_such_method() })
            .with_state(self)
    }

    /// Passes a request on to the node of a pod, which becomes a connection.
    async fn connect(
        &self,
        part: Part,
        (namespace, name): (String, String),
        request: Request<Body>,
    ) -> Result<Response, Status> {
        let pod = self.pod(&namespace, &name)?;
        let query = request.uri().query().unwrap_or_default();
        let container = match part {
            Part::PortForward => None,
            Part::Exec | Part::Attach | Part::Log => {
                Some(container::choose(&name, &pod, ask::container(query).as_deref())?)
            }
        };
        let node = node_of(&pod)
            .ok_or_else(|| Status::bad_request(format!("pod {name} does not have a host assigned")))?;
        let target = ask::target(part, &namespace, &name, container.as_deref(), query);
        let way = Way { trust: Trust::Node, ..self.way(node)? };
        self.pass(way, &target, request).await.map_err(|failed| failed.dialing())
    }

    /// Passes a request for a log on.
    async fn log(&self, namespace: &str, name: &str, request: Request<Body>) -> Result<Response, Status> {
        let pod = self.pod(namespace, name)?;
        let query = request.uri().query().unwrap_or_default();
        let container = container::choose(name, &pod, ask::container(query).as_deref())?;
        // Of a pod that is on no node there is no log, which is no mistake.
        let Some(node) = node_of(&pod) else { return Ok(StatusCode::NO_CONTENT.into_response()) };
        let target = ask::target(Part::Log, namespace, name, Some(&container), query);
        let trust = if ask::is_insecure(query) { Trust::Anybody } else { Trust::Node };
        let way = Way { trust, ..self.way(node)? };
        let url = format!("https://{}{target}", way.place.authority());
        let answer = self.pass(way, &target, request).await.map_err(|failed| failed.getting(&url))?;
        pass::log(answer, name).await
    }

    async fn pass(&self, way: Way, target: &str, request: Request<Body>) -> Result<Response, pass::Failed> {
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| pass::Failed::Busy)?;
        self.line.pass(&way, target, request, place).await
    }

    fn pod(&self, namespace: &str, name: &str) -> Result<Map<String, Value>, Status> {
        let pod = self.objects.get("pods", namespace, name);
        pod.map(|pod| pod.decode()).ok_or_else(|| Status::not_found("pods", name))
    }

    /// The way to a node.
    fn way(&self, node: &str) -> Result<Way, Status> {
        let object = self.objects.get("nodes", "", node).ok_or_else(|| Status::not_found("nodes", node))?;
        let place = Place::of(&object.decode(), &self.preferred);
        let place = place.map_err(|why| Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", why))?;
        Ok(Way { node: node.to_owned(), place, trust: Trust::Node })
    }
}

fn answered(answer: Result<Response, Status>) -> Response {
    answer.unwrap_or_else(Status::into_response)
}

fn node_of(pod: &Map<String, Value>) -> Option<&str> {
    let node = pod.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str);
    node.filter(|node| !node.is_empty())
}

async fn log(
    State(nodes): State<Arc<Nodes>>,
    Path((namespace, name)): Path<(String, String)>,
    request: Request<Body>,
) -> Response {
    answered(nodes.log(&namespace, &name, request).await)
}

/// Whatever a node answers, under its own paths.
async fn proxy(State(nodes): State<Arc<Nodes>>, request: Request<Body>) -> Response {
    let passed = async {
        let (name, target) = ask::of_node(request.uri()).ok_or_else(Status::no_such_path)?;
        let (node, port) = ask::node_and_port(&name)?;
        let way = nodes.way(node)?;
        if port.is_some_and(|port| port != way.place.port) {
            let own = way.place.port;
            let why = format!("of the node {node} only the kubelet's port {own} is reached through the API");
            return Err(Status::bad_request(why));
        }
        nodes.pass(way, &target, request).await.map_err(|failed| failed.reaching())
    };
    answered(passed.await)
}

/// A pod's own port, which is in a network that no master is in.
async fn no_proxy(State(nodes): State<Arc<Nodes>>, Path(path): Path<Vec<(String, String)>>) -> Status {
    let part =
        |wanted: &str| path.iter().find(|(name, _)| name == wanted).map_or("", |(_, text)| text.as_str());
    let name = part("name");
    match nodes.pod(part("namespace"), name) {
        Err(absent) => absent,
        Ok(_) => Status::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            format!("this master is not in the network of pods: reach {name} with `kubectl port-forward`"),
        ),
    }
}

#[cfg(test)]
mod tests;
