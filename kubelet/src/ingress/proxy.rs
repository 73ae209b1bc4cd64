//! Forwards requests to the endpoints of their route.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::body::Body;
use http::header::{CONNECTION, CONTENT_TYPE, UPGRADE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::{Body as _, Incoming};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as HttpClient, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::body::{Progress, RequestBody};
use super::headers::{self, Client};
use super::routes::{Route, Routes};
use crate::cluster::ingresses::NamespacedName;
use crate::metrics::Metrics;

/// How long a connection to an endpoint may take to be established. Pods are a few milliseconds away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of endpoints that a request tries.
const MAX_ATTEMPTS: usize = 3;
/// How long an endpoint may take to answer after the last part of the request, as in other Ingress controllers.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an unused connection to an endpoint stays open. Several servers close it after 5 s, and a request that is
/// sent at that moment fails.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Unused connections per endpoint.
const POOL_MAX_IDLE: usize = 64;

/// A client connection, with its permit of the connection limit.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// Counts the connection, also after an upgrade.
    pub permit: Arc<OwnedSemaphorePermit>,
}

/// The reverse proxy.
#[derive(Debug)]
pub struct Proxy {
    routes: RwLock<Arc<Routes>>,
    endpoints: HttpClient<HttpConnector, RequestBody>,
    metrics: Arc<Metrics>,
}

/// Why a request has no response of an endpoint.
#[derive(Clone, Copy, Debug)]
enum Failure {
    BadRequest,
    NoRule,
    NoEndpoints,
    Unreachable,
    Timeout,
}

impl Proxy {
    /// Creates a proxy without routes.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let endpoints = HttpClient::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_max_idle_per_host(POOL_MAX_IDLE)
            .build(connector);
        Self { routes: RwLock::default(), endpoints, metrics }
    }

    /// Replaces the routes. Requests in progress keep theirs.
    pub fn set_routes(&self, routes: Routes) {
        *self.routes.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(routes);
    }

    /// Answers one request.
    pub async fn answer(&self, request: Request<Incoming>, connection: &Connection) -> Response<Body> {
        let mut ingress = None;
        let response = match self.forward(request, connection, &mut ingress).await {
            Ok(response) => response,
            Err(failure) => failure.response(),
        };
        let ingress = ingress.as_ref().map(|name| (&*name.namespace, &*name.name));
        self.metrics.ingress_request(ingress, response.status());
        response
    }

    async fn forward(
        &self,
        mut request: Request<Incoming>,
        connection: &Connection,
        ingress: &mut Option<NamespacedName>,
    ) -> Result<Response<Body>, Failure> {
        let authority = headers::authority(request.uri(), request.headers()).ok_or(Failure::BadRequest)?;
        let path = request.uri().path();
        if request.method() == Method::CONNECT || !(path.starts_with('/') || path == "*") {
            return Err(Failure::BadRequest);
        }
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner).clone();
        let route = routes.find(&authority.host().to_ascii_lowercase(), path).ok_or(Failure::NoRule)?;
        *ingress = Some(route.ingress.clone());
        let upgrade = headers::upgrade(request.version(), request.headers());
        headers::prepare(request.headers_mut(), &authority, connection.client);
        let mut client_side = None;
        if let Some(protocol) = upgrade {
            client_side = Some(hyper::upgrade::on(&mut request));
            request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            request.headers_mut().insert(UPGRADE, protocol);
        }
        let mut response = self.send(request, route).await?;
        let protocol = response.headers().get(UPGRADE).cloned();
        headers::remove_hop_by_hop(response.headers_mut());
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            let (Some(client_side), Some(protocol)) = (client_side, protocol) else {
                return Err(Failure::Unreachable);
            };
            let endpoint_side = hyper::upgrade::on(&mut response);
            let permit = connection.permit.clone();
            apiserver::tasks::supervise("ingress upgrade", async move {
                if let (Ok(client), Ok(endpoint)) = tokio::join!(client_side, endpoint_side) {
                    let (mut client, mut endpoint) = (TokioIo::new(client), TokioIo::new(endpoint));
                    // Either side may end the connection at any time.
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut endpoint).await;
                }
                drop(permit);
            });
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
            response.headers_mut().insert(UPGRADE, protocol);
        }
        Ok(response.map(Body::new))
    }

    /// Sends a request to an endpoint. Tries another one if it cannot connect, or if a connection fails during a
    /// repeatable request.
    async fn send(&self, request: Request<Incoming>, route: &Route) -> Result<Response<Incoming>, Failure> {
        let (parts, body) = request.into_parts();
        let is_repeatable = headers::is_repeatable(&parts.method) && body.is_end_stream();
        let progress = Progress::new(body);
        let mut failure = Failure::NoEndpoints;
        for endpoint in route.endpoints().take(MAX_ATTEMPTS) {
            let Some(body) = progress.body() else { break };
            let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
            let uri = Uri::builder().scheme("http").authority(endpoint.to_string()).path_and_query(target);
            let mut attempt = Request::new(body);
            *attempt.method_mut() = parts.method.clone();
            *attempt.uri_mut() = uri.build().map_err(|_| Failure::BadRequest)?;
            *attempt.version_mut() = Version::HTTP_11;
            *attempt.headers_mut() = parts.headers.clone();
            match self.attempt(attempt, &progress).await {
                Ok(response) => return Ok(response),
                Err(None) => return Err(Failure::Timeout),
                Err(Some(error)) => {
                    tracing::debug!(%endpoint, ingress = %route.ingress, error = &error as &dyn std::error::Error, "an endpoint did not answer");
                    failure = Failure::Unreachable;
                    if !error.is_connect() && !is_repeatable {
                        break;
                    }
                }
            }
        }
        Err(failure)
    }

    /// Sends a request to one endpoint. Returns `None` as the error if the endpoint does not answer in time.
    async fn attempt(
        &self,
        request: Request<RequestBody>,
        progress: &Progress,
    ) -> Result<Response<Incoming>, Option<Error>> {
        let mut response = std::pin::pin!(self.endpoints.request(request));
        let mut deadline = Instant::now() + RESPONSE_TIMEOUT;
        loop {
            tokio::select! {
                answered = &mut response => return answered.map_err(Some),
                () = tokio::time::sleep_until(deadline) => {
                    let next = progress.last() + RESPONSE_TIMEOUT;
                    if next <= deadline {
                        return Err(None);
                    }
                    deadline = next;
                }
            }
        }
    }
}

impl Failure {
    fn response(self) -> Response<Body> {
        let (status, text) = match self {
            Self::BadRequest => {
                (StatusCode::BAD_REQUEST, "the request needs exactly one valid host and a path\n")
            }
            Self::NoRule => (StatusCode::NOT_FOUND, "no Ingress has a rule for this host and path\n"),
            Self::NoEndpoints => (StatusCode::SERVICE_UNAVAILABLE, "the Service has no ready endpoints\n"),
            Self::Unreachable => (StatusCode::BAD_GATEWAY, "no endpoint of the Service could be reached\n"),
            Self::Timeout => {
                (StatusCode::GATEWAY_TIMEOUT, "the endpoint of the Service did not answer in time\n")
            }
        };
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        response
    }
}
