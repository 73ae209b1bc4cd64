//! API server proxy to nodes, pods and services: `pods/log`, `pods/exec`, `pods/attach`, `pods/portforward`, and
//! the `proxy` subresources.
//!
//! `kubelet_request` translates a request, and `backend_address` and `workload` find its backend. `dialer`
//! connects, and `verify` checks that the certificate belongs to the node. `forward`, `headers`, `redirect`, `html`,
//! `tunnel` and `relay` forward the request until it ends. `progress` notices when the client is gone.
//!
//! `apiserver::shares` limits the concurrent requests per user. The only state between requests is the client
//! certificate of the master (`backend_tls`).

mod backend_address;
mod backend_tls;
mod dialer;
mod forward;
mod headers;
mod html;
mod kubelet_request;
mod progress;
mod redirect;
mod relay;
mod tunnel;
mod verify;
mod workload;

use std::sync::Arc;

use apiserver::shares::{ShareLimits, Shares};
use apiserver::watch_cache::{Object, Scope, WatchCache};
use apiserver::{Identity, Status, container};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, get, on};
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};

use self::backend_address::BackendAddress;
pub use self::backend_tls::BackendTls;
use self::dialer::Dialer;
use self::forward::{Backend, BackendKind, ProxyError, ProxyRequest};
use self::kubelet_request::PodSubresource;
use self::tunnel::Tunnel;
use self::verify::Trust;
use self::workload::ProxyTarget;
use crate::objects::pod::PodSpec;
use crate::objects::{self, Spec};
use crate::options::AddressType;

/// Label of an EndpointSlice that names its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Maximum size of a response to the master's own requests to a kubelet, in bytes. The stats of 500 pods with ten
/// containers need 2 MiB.
const ANSWER_BYTES: usize = 16 << 20;
/// Limits of concurrent requests. Each request uses two connections and about 100 KiB. If four users are at their
/// limit, only administrators can send further requests.
const PROXY_LIMITS: ShareLimits =
    ShareLimits { all: 2_000, user: 500, others: 1_800, what: "being passed to nodes and pods" };
/// HTTP methods that the proxy forwards, as in the stock API server.
const METHODS: MethodFilter = MethodFilter::GET
    .or(MethodFilter::POST)
    .or(MethodFilter::PUT)
    .or(MethodFilter::PATCH)
    .or(MethodFilter::DELETE)
    .or(MethodFilter::HEAD)
    .or(MethodFilter::OPTIONS);

/// The proxy and its limits.
#[derive(Debug)]
pub struct NodeProxy {
    objects: WatchCache,
    dialer: Dialer,
    preferred: Vec<AddressType>,
    shares: Arc<Shares>,
}

impl NodeProxy {
    /// Creates the proxy. It reads nodes, pods and services from `objects`. `preferred` orders the address types of
    /// nodes.
    pub fn new(objects: WatchCache, tls: BackendTls, preferred: Vec<AddressType>) -> Arc<Self> {
        Arc::new(Self { objects, dialer: Dialer::new(tls), preferred, shares: Shares::new(PROXY_LIMITS) })
    }

    /// The routes of all proxied subresources.
    pub fn router(self: Arc<Self>) -> Router {
        let pod = |subresource: &str| format!("/api/v1/namespaces/{{namespace}}/pods/{{name}}/{subresource}");
        let connected = |subresource: PodSubresource| {
            let handler = async move |State(nodes): State<Arc<Self>>, Path(path), request| {
                into_response(nodes.connect(subresource, path, request).await)
            };
            get(handler).post(handler)
        };
        Router::new()
            .route(&pod("log"), get(log))
            .route(&pod("exec"), connected(PodSubresource::Exec))
            .route(&pod("attach"), connected(PodSubresource::Attach))
            .route(&pod("portforward"), connected(PodSubresource::PortForward))
            .merge(below("/api/v1/nodes/{name}/proxy", || on(METHODS, node_proxy)))
            .merge(below(&pod("proxy"), || on(METHODS, pod_proxy)))
            .merge(below("/api/v1/namespaces/{namespace}/services/{name}/proxy", || {
                on(METHODS, service_proxy)
            }))
            .method_not_allowed_fallback(|| async { Status::no_such_method() })
            .with_state(self)
    }

    /// Forwards exec, attach and portforward requests to the kubelet of a pod.
    async fn connect(
        &self,
        subresource: PodSubresource,
        (namespace, name): (String, String),
        mut request: Request<Body>,
    ) -> Result<Response, Status> {
        let pod = self.pod(&namespace, &name)?;
        let query = request.uri().query().unwrap_or_default();
        let container = match subresource {
            PodSubresource::PortForward => None,
            PodSubresource::Exec | PodSubresource::Attach | PodSubresource::Log => {
                Some(container::choose(&name, &pod.decode(), kubelet_request::container(query).as_deref())?)
            }
        };
        let node = node_of(&pod)
            .ok_or_else(|| Status::bad_request(format!("pod {name} does not have a host assigned")))?;
        let target = kubelet_request::target(subresource, &namespace, &name, container.as_deref(), query);
        let backend = self.node_backend(&node, Trust::Node)?;
        let tunnel = match subresource {
            PodSubresource::PortForward => Tunnel::open(&mut request)?,
            PodSubresource::Exec | PodSubresource::Attach | PodSubresource::Log => None,
        };
        let proxied_request = ProxyRequest { target, prefix: None, tunnel };
        self.forward(&backend, &proxied_request, request).await.map_err(ProxyError::dialing)
    }

    /// Forwards a log request to the kubelet of a pod.
    async fn log(&self, namespace: &str, name: &str, request: Request<Body>) -> Result<Response, Status> {
        let pod = self.pod(namespace, name)?;
        let query = request.uri().query().unwrap_or_default();
        let container = container::choose(name, &pod.decode(), kubelet_request::container(query).as_deref())?;
        // A pod without a node has no log yet, which is no error.
        let Some(node) = node_of(&pod) else { return Ok(StatusCode::NO_CONTENT.into_response()) };
        let target = kubelet_request::target(PodSubresource::Log, namespace, name, Some(&container), query);
        let trust = if kubelet_request::is_insecure(query) { Trust::SkipVerify } else { Trust::Node };
        let backend = self.node_backend(&node, trust)?;
        let url = format!("https://{}{target}", backend.address.authority());
        let proxied_request = ProxyRequest { target, prefix: None, tunnel: None };
        let answer =
            self.forward(&backend, &proxied_request, request).await.map_err(|failed| failed.getting(&url))?;
        forward::log(answer, name).await
    }

    /// Sends a GET request to a kubelet for a user, and returns the response body.
    ///
    /// # Errors
    /// If the kubelet cannot be reached or returns a status other than 200.
    pub async fn send_request(&self, node: &str, target: &str, who: &Identity) -> Result<Bytes, String> {
        let backend = self.node_backend(node, Trust::Node).map_err(|status| status.to_string())?;
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(who.clone());
        let proxied_request = ProxyRequest { target: target.to_owned(), prefix: None, tunnel: None };
        let answer = self.forward(&backend, &proxied_request, request).await;
        let answer = answer.map_err(|failed| failed.reaching().to_string())?;
        let code = answer.status();
        let collected = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await;
        let collected =
            collected.map_err(|error| format!("its answer to {target} cannot be read: {error}"))?.to_bytes();
        if code != StatusCode::OK {
            return Err(format!(
                "it answers {target} with {code}: {}",
                String::from_utf8_lossy(&collected).trim()
            ));
        }
        Ok(collected)
    }

    async fn forward(
        &self,
        backend: &Backend,
        proxied_request: &ProxyRequest,
        request: Request<Body>,
    ) -> Result<Response, ProxyError> {
        let anonymous_identity = Identity::anonymous();
        let who = request.extensions().get().unwrap_or(&anonymous_identity);
        let share = self.shares.take(who).map_err(ProxyError::Busy)?;
        self.dialer.forward(backend, proxied_request, request, share).await
    }

    /// Forwards a request whose path up to `/proxy` has `parts` segments.
    async fn proxy(
        &self,
        parts: usize,
        request: Request<Body>,
        backend: impl FnOnce() -> Result<Backend, Status>,
    ) -> Result<Response, Status> {
        let is_upgrade = headers::upgrade(request.headers()).is_some();
        let is_read = !is_upgrade && matches!(*request.method(), Method::GET | Method::HEAD);
        let backend = backend()?;
        match kubelet_request::below(request.uri(), parts, is_read) {
            Ok(proxied_request) => {
                self.forward(&backend, &proxied_request, request).await.map_err(ProxyError::reaching)
            }
            Err(whole) => Ok((StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, whole)]).into_response()),
        }
    }

    fn pod_backend(&self, namespace: &str, text: &str) -> Result<Backend, Status> {
        let named = ProxyTarget::read(text, "pod")?;
        let address =
            workload::pod_address(&objects::decode(self.pod(namespace, &named.name)?.json()), &named)?;
        Ok(Backend { kind: BackendKind::Workload { tls: named.tls }, address })
    }

    /// The backend for a service, which is a random endpoint.
    fn service_backend(&self, namespace: &str, text: &str) -> Result<Backend, Status> {
        let named = ProxyTarget::read(text, "service")?;
        let service = self.objects.get("services", namespace, &named.name);
        let service = service.ok_or_else(|| Status::not_found("services", &named.name))?;
        let slices =
            self.objects.list("endpointslices.discovery.k8s.io", &Scope::Namespace(namespace.into()));
        let slices = slices.objects.iter().filter(|slice| slice.label(SERVICE_NAME) == Some(&named.name));
        let slices: Vec<_> = slices.map(|slice| objects::decode(slice.json())).collect();
        let has = |pod: &str, address: &str| {
            let pod = self.objects.get("pods", namespace, pod);
            pod.is_some_and(|pod| workload::has_address(&objects::decode(pod.json()), address))
        };
        let addresses = workload::service_addresses(&objects::decode(service.json()), &slices, &named, has)?;
        // Random, so that a retry may reach another endpoint.
        let chosen = usize::from(uuid::Uuid::new_v4().as_bytes()[0]).checked_rem(addresses.len());
        let address = chosen.and_then(|chosen| addresses.into_iter().nth(chosen));
        let address = address.ok_or_else(|| workload::no_endpoints(&named))?;
        Ok(Backend { kind: BackendKind::Workload { tls: named.tls }, address })
    }

    fn pod(&self, namespace: &str, name: &str) -> Result<Object, Status> {
        let pod = self.objects.get("pods", namespace, name);
        pod.ok_or_else(|| Status::not_found("pods", name))
    }

    /// The backend for the kubelet of a node.
    fn node_backend(&self, node: &str, trust: Trust) -> Result<Backend, Status> {
        let object = self.objects.get("nodes", "", node).ok_or_else(|| Status::not_found("nodes", node))?;
        let address = BackendAddress::of(&objects::decode(object.json()), &self.preferred);
        let address = address.map_err(|why| Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", why))?;
        Ok(Backend { kind: BackendKind::Node { name: node.to_owned(), trust }, address })
    }
}

/// The routes for a path and everything below it.
fn below(path: &str, handler: impl Fn() -> MethodRouter<Arc<NodeProxy>>) -> Router<Arc<NodeProxy>> {
    let ends = ["", "/", "/{*path}"].map(|end| format!("{path}{end}"));
    ends.iter().fold(Router::new(), |router, path| router.route(path, handler()))
}

fn into_response(answer: Result<Response, Status>) -> Response {
    answer.unwrap_or_else(Status::into_response)
}

fn node_of(pod: &Object) -> Option<Box<str>> {
    let Spec { spec } = objects::decode::<Spec<PodSpec>>(pod.json());
    Some(spec.node_name).filter(|node| !node.is_empty())
}

async fn log(
    State(nodes): State<Arc<NodeProxy>>,
    Path((namespace, name)): Path<(String, String)>,
    request: Request<Body>,
) -> Response {
    into_response(nodes.log(&namespace, &name, request).await)
}

/// Parameters of a matched route.
type Names = Path<Vec<(String, String)>>;

fn named<'a>(names: &'a Names, wanted: &str) -> &'a str {
    names.iter().find(|(name, _)| name == wanted).map_or("", |(_, text)| text.as_str())
}

/// Handles `nodes/proxy`.
async fn node_proxy(State(nodes): State<Arc<NodeProxy>>, names: Names, request: Request<Body>) -> Response {
    let backend = || {
        let (node, port) = kubelet_request::node_and_port(named(&names, "name"))?;
        let backend = nodes.node_backend(node, Trust::Node)?;
        if port.is_some_and(|port| port != backend.address.port) {
            let own = backend.address.port;
            let why = format!("only the kubelet's port {own} of node {node} can be reached through the API");
            return Err(Status::bad_request(why));
        }
        Ok(backend)
    };
    into_response(nodes.proxy(5, request, backend).await)
}

/// Handles `pods/proxy`.
async fn pod_proxy(State(nodes): State<Arc<NodeProxy>>, names: Names, request: Request<Body>) -> Response {
    let backend = || nodes.pod_backend(named(&names, "namespace"), named(&names, "name"));
    into_response(nodes.proxy(7, request, backend).await)
}

/// Handles `services/proxy`.
async fn service_proxy(
    State(nodes): State<Arc<NodeProxy>>,
    names: Names,
    request: Request<Body>,
) -> Response {
    let backend = || nodes.service_backend(named(&names, "namespace"), named(&names, "name"));
    into_response(nodes.proxy(7, request, backend).await)
}

#[cfg(test)]
mod tests;
