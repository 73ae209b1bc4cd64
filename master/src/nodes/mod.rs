//! What only a node can answer: the logs, commands and ports of its pods, and everything it tells of itself; and what listens
//! in pods, asked through them or through services.
//!
//! A request is read (`ask`), whoever answers it found (`place`, `workload`), reached (`line`), a node over TLS as the node that
//! it is (`verify`), and the request passed on (`pass`, `headers`, `redirect`, `relay`) until it has ended or its client is gone
//! (`progress`). Everybody has a share of it (`apiserver::shares`). Nothing is kept from one request to the next but the certificate that
//! is shown to nodes (`shown`).

mod ask;
mod headers;
mod line;
mod pass;
mod place;
mod progress;
mod redirect;
mod relay;
mod shown;
mod verify;
mod workload;

use std::sync::Arc;

use apiserver::shares::{Most, Shares};
use apiserver::store::{Memory, Scope};
use apiserver::{Identity, Status, container};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use serde_json::{Map, Value};

use self::ask::Part;
use self::line::Line;
use self::pass::{Errand, Failed, To, Way};
use self::place::Place;
pub use self::shown::Shown;
use self::verify::Trust;
use self::workload::Named;
use crate::options::AddressType;

/// The label by which the slices of a service are found.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The most that is read of what the master itself asks a node: 500 pods of ten containers say 2 MiB.
const ANSWER_BYTES: usize = 16 << 20;
/// Each is two connections and some 100 KiB, and more than one for every second pod of a big cluster is nobody's wish.
/// Four users who ask for too much leave nothing for a fifth, and something for administrators.
const AT_ONCE: Most = Most { all: 2_000, user: 500, others: 1_800, what: "being passed to nodes and pods" };
/// Methods by which something behind the master is asked; the stock server's.
const METHODS: MethodFilter = MethodFilter::GET
    .or(MethodFilter::POST)
    .or(MethodFilter::PUT)
    .or(MethodFilter::PATCH)
    .or(MethodFilter::DELETE)
    .or(MethodFilter::HEAD)
    .or(MethodFilter::OPTIONS);

/// How nodes and pods are reached.
#[derive(Debug)]
pub struct Nodes {
    objects: Memory,
    line: Line,
    preferred: Vec<AddressType>,
    shares: Arc<Shares>,
}

impl Nodes {
    /// Nodes and pods are those of the store; addresses are tried for in that order.
    pub fn new(objects: Memory, shown: Shown, preferred: Vec<AddressType>) -> Arc<Self> {
        Arc::new(Self { objects, line: Line::new(shown), preferred, shares: Shares::new(AT_ONCE) })
    }

    /// The paths that nodes and what listens in pods answer.
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
            .merge(below("/api/v1/nodes/{name}/proxy", || on(METHODS, node_proxy)))
            .merge(below(&pod("proxy"), || on(METHODS, pod_proxy)))
            .merge(below("/api/v1/namespaces/{namespace}/services/{name}/proxy", || {
                on(METHODS, service_proxy)
            }))
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
        let way = self.way(node, Trust::Node)?;
        let errand = Errand { target, prefix: None };
        self.pass(&way, &errand, request).await.map_err(Failed::dialing)
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
        let way = self.way(node, trust)?;
        let url = format!("https://{}{target}", way.place.authority());
        let errand = Errand { target, prefix: None };
        let answer = self.pass(&way, &errand, request).await.map_err(|failed| failed.getting(&url))?;
        pass::log(answer, name).await
    }

    /// Asks a node itself for what stands at that path and query, in somebody's name: what it answers.
    ///
    /// # Errors
    /// Why it cannot be asked, does not answer, or what it says instead.
    pub async fn ask(&self, node: &str, target: &str, who: &Identity) -> Result<Bytes, String> {
        let way = self.way(node, Trust::Node).map_err(|status| status.to_string())?;
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(who.clone());
        let errand = Errand { target: target.to_owned(), prefix: None };
        let answer = self.pass(&way, &errand, request).await;
        let answer = answer.map_err(|failed| failed.reaching().to_string())?;
        let code = answer.status();
        let said = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
        let said =
            said.map_err(|error| format!("its answer to {target} cannot be read: {error}"))?.to_bytes();
        if code != StatusCode::OK {
            return Err(format!(
                "it answers {target} with {code}: {}",
                String::from_utf8_lossy(&said).trim()
            ));
        }
        Ok(said)
    }

    async fn pass(&self, way: &Way, errand: &Errand, request: Request<Body>) -> Result<Response, Failed> {
        let nobody = Identity::anonymous();
        let who = request.extensions().get().unwrap_or(&nobody);
        let share = self.shares.take(who).map_err(Failed::Busy)?;
        self.line.pass(way, errand, request, share).await
    }

    /// Passes on what is asked below a path that ends with `/proxy` and has so many parts.
    async fn proxied(
        &self,
        parts: usize,
        request: Request<Body>,
        way: impl FnOnce() -> Result<Way, Status>,
    ) -> Result<Response, Status> {
        let is_upgrade = headers::upgrade(request.headers()).is_some();
        let is_read = !is_upgrade && matches!(*request.method(), Method::GET | Method::HEAD);
        let way = way()?;
        match ask::below(request.uri(), parts, is_read) {
            Ok(errand) => self.pass(&way, &errand, request).await.map_err(Failed::reaching),
            Err(whole) => Ok((StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, whole)]).into_response()),
        }
    }

    /// The way to what listens in a pod.
    fn way_to_pod(&self, namespace: &str, text: &str) -> Result<Way, Status> {
        let named = Named::read(text, "pod")?;
        let place = workload::of_pod(&self.pod(namespace, &named.name)?, &named)?;
        Ok(Way { to: To::Workload { tls: named.tls }, place })
    }

    /// The way to what listens behind a service: any of its endpoints.
    fn way_to_service(&self, namespace: &str, text: &str) -> Result<Way, Status> {
        let named = Named::read(text, "service")?;
        let service = self.objects.get("services", namespace, &named.name);
        let service = service.ok_or_else(|| Status::not_found("services", &named.name))?;
        let slices =
            self.objects.list("endpointslices.discovery.k8s.io", &Scope::Namespace(namespace.into()));
        let slices = slices.objects.iter().filter(|slice| slice.label(SERVICE_NAME) == Some(&named.name));
        let slices: Vec<_> = slices.map(|slice| slice.decode()).collect();
        let has = |pod: &str, address: &str| {
            let pod = self.objects.get("pods", namespace, pod);
            pod.is_some_and(|pod| workload::has_address(&pod.decode(), address))
        };
        let places = workload::of_service(&service.decode(), &slices, &named, has)?;
        // Anybody will do, and whoever asks again gets another.
        let chosen = usize::from(uuid::Uuid::new_v4().as_bytes()[0]).checked_rem(places.len());
        let place = chosen.and_then(|chosen| places.into_iter().nth(chosen));
        let place = place.ok_or_else(|| workload::no_endpoints(&named))?;
        Ok(Way { to: To::Workload { tls: named.tls }, place })
    }

    fn pod(&self, namespace: &str, name: &str) -> Result<Map<String, Value>, Status> {
        let pod = self.objects.get("pods", namespace, name);
        pod.map(|pod| pod.decode()).ok_or_else(|| Status::not_found("pods", name))
    }

    /// The way to a node.
    fn way(&self, node: &str, trust: Trust) -> Result<Way, Status> {
        let object = self.objects.get("nodes", "", node).ok_or_else(|| Status::not_found("nodes", node))?;
        let place = Place::of(&object.decode(), &self.preferred);
        let place = place.map_err(|why| Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", why))?;
        Ok(Way { to: To::Node { name: node.to_owned(), trust }, place })
    }
}

/// A path and all below it.
fn below(path: &str, handler: impl Fn() -> MethodRouter<Arc<Nodes>>) -> Router<Arc<Nodes>> {
    let ends = ["", "/", "/{*path}"].map(|end| format!("{path}{end}"));
    ends.iter().fold(Router::new(), |router, path| router.route(path, handler()))
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

/// What a path names.
type Names = Path<Vec<(String, String)>>;

fn named<'a>(names: &'a Names, wanted: &str) -> &'a str {
    names.iter().find(|(name, _)| name == wanted).map_or("", |(_, text)| text.as_str())
}

/// Whatever a node answers, under its own paths.
async fn node_proxy(State(nodes): State<Arc<Nodes>>, names: Names, request: Request<Body>) -> Response {
    let way = || {
        let (node, port) = ask::node_and_port(named(&names, "name"))?;
        let way = nodes.way(node, Trust::Node)?;
        if port.is_some_and(|port| port != way.place.port) {
            let own = way.place.port;
            let why = format!("of the node {node} only the kubelet's port {own} is reached through the API");
            return Err(Status::bad_request(why));
        }
        Ok(way)
    };
    answered(nodes.proxied(5, request, way).await)
}

/// Whatever listens in a pod.
async fn pod_proxy(State(nodes): State<Arc<Nodes>>, names: Names, request: Request<Body>) -> Response {
    let way = || nodes.way_to_pod(named(&names, "namespace"), named(&names, "name"));
    answered(nodes.proxied(7, request, way).await)
}

/// Whatever listens behind a service.
async fn service_proxy(State(nodes): State<Arc<Nodes>>, names: Names, request: Request<Body>) -> Response {
    let way = || nodes.way_to_service(named(&names, "namespace"), named(&names, "name"));
    answered(nodes.proxied(7, request, way).await)
}

#[cfg(test)]
mod tests;
