//! Builds the request to the backend, the response to the client, and the errors for failed requests.

use std::net::IpAddr;

use apiserver::shares::Share;
use apiserver::{GuardedBody, Identity, Status};
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;

use super::backend_address::BackendAddress;
use super::headers::{self, Side};
use super::html::{self, Links};
use super::redirect;
use super::tunnel::Tunnel;
use super::verify::Trust;

/// Maximum size of an error response that is read, in bytes, as in the stock API server.
const REFUSAL_BYTES: usize = 50_000;
/// Header that gives workloads the original path, as the stock API server does.
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// Header that gives workloads the address of the client, as the stock API server does.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The backend of a request.
#[derive(Clone, Debug)]
pub struct Backend {
    /// The kind of backend: kubelet or workload.
    pub kind: BackendKind,
    /// Host and port.
    pub address: BackendAddress,
}

/// The kind of backend, with its TLS settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendKind {
    /// The kubelet of a node, over TLS.
    Node {
        /// Name of the node.
        name: String,
        /// How the certificate of the node is verified.
        trust: Trust,
    },
    /// A pod or service. Its certificate is never verified.
    Workload {
        /// True for https.
        tls: bool,
    },
}

impl Backend {
    fn side(&self) -> Side {
        match self.kind {
            BackendKind::Node { .. } => Side::Node,
            BackendKind::Workload { .. } => Side::Workload,
        }
    }
}

/// The request to send to the backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRequest {
    /// Path and query.
    pub target: String,
    /// Path of the proxy that corresponds to `/` of the backend. `None` if links and redirects are not rewritten.
    pub prefix: Option<String>,
    /// The client's WebSocket, if the request was one for a tunnel.
    pub tunnel: Option<Tunnel>,
}

/// The reason why a request was not forwarded.
#[derive(Debug)]
pub enum ProxyError {
    /// There are too many concurrent requests.
    Busy(Status),
    /// The request cannot be forwarded.
    InvalidRequest(String),
    /// The backend cannot be reached or does not respond correctly.
    Unreachable(String),
}

impl ProxyError {
    /// The status for exec, attach and portforward.
    pub fn dialing(self) -> Status {
        self.status(StatusCode::INTERNAL_SERVER_ERROR, "", |why| format!("error dialing backend: {why}"))
    }

    /// The status for logs. `url` is the URL at the kubelet.
    pub fn getting(self, url: &str) -> Status {
        self.status(StatusCode::INTERNAL_SERVER_ERROR, "", |why| format!("Get {url:?}: {why}"))
    }

    /// The status for the `proxy` subresources.
    pub fn reaching(self) -> Status {
        let unavailable = (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable");
        self.status(unavailable.0, unavailable.1, |why| format!("error trying to reach service: {why}"))
    }

    fn status(self, code: StatusCode, reason: &'static str, message_of: impl Fn(String) -> String) -> Status {
        match self {
            Self::Busy(status) => status,
            Self::InvalidRequest(why) => Status::bad_request(why),
            Self::Unreachable(why) => Status::new(code, reason, message_of(why)),
        }
    }
}

/// Builds the request to the backend.
///
/// # Errors
/// If the request cannot be represented.
pub fn backend_request(
    parts: &Parts,
    body: Body,
    proxied_request: &ProxyRequest,
    backend: &Backend,
) -> Result<Request<Body>, ProxyError> {
    let senseless = |error: http::Error| {
        ProxyError::InvalidRequest(format!("cannot build the request to the backend: {error}"))
    };
    // A request body before an upgrade would have no end.
    let body = if headers::upgrade(&parts.headers).is_some() { Body::empty() } else { body };
    let backend_request =
        Request::builder().method(parts.method.clone()).uri(&proxied_request.target).body(body);
    let mut backend_request = backend_request.map_err(senseless)?;
    *backend_request.headers_mut() = headers::request_headers(backend.side(), &parts.headers);
    let host = match backend.side() {
        Side::Node => backend.address.authority(),
        Side::Workload => {
            let peer = parts.extensions.get::<Identity>().and_then(|who| who.peer);
            let peer = peer.as_ref().map(IpAddr::to_string).and_then(|peer| peer.try_into().ok());
            peer.and_then(|peer| backend_request.headers_mut().insert(FORWARDED_FOR, peer));
            let came_by: Option<HeaderValue> = parts.uri.path().try_into().ok();
            came_by.and_then(|path| backend_request.headers_mut().insert(FORWARDED_URI, path));
            host(parts).unwrap_or_default().to_owned()
        }
    };
    let host = HeaderValue::try_from(host).map_err(|error| senseless(error.into()))?;
    backend_request.headers_mut().insert(header::HOST, host);
    Ok(backend_request)
}

/// The host that the client used for the master.
fn host(parts: &Parts) -> Option<&str> {
    let in_url = parts.uri.authority().map(http::uri::Authority::as_str);
    in_url.or_else(|| parts.headers.get(header::HOST)?.to_str().ok())
}

/// Builds the response to the client. It keeps `share` until its body is sent.
///
/// # Errors
/// If a kubelet redirects to another host, or any backend redirects outside the proxy's path. A client that follows
/// such a redirect would send its credentials to another server, or an unintended request to the master.
pub fn client_response(
    mut answer: Response<Body>,
    parts: &Parts,
    proxied_request: &ProxyRequest,
    backend: &Backend,
    share: Option<Share>,
) -> Result<Response, ProxyError> {
    let switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    let mut got = headers::response_headers(backend.side(), answer.headers(), switched);
    if let Some(location) = got.get(header::LOCATION) {
        let own = backend.address.authority();
        let hosts = [own.as_str(), host(parts).unwrap_or_default()];
        // A Location that is not text is treated as an escape.
        let location = location.to_str().unwrap_or("/..");
        let is_away = backend.side() == Side::Node && redirect::is_other_host(location, hosts);
        let prefix = proxied_request.prefix.as_deref().unwrap_or_default();
        let requested_path = parts.uri.path().strip_prefix(prefix).unwrap_or_default();
        if is_away || redirect::escapes_prefix(location, prefix, requested_path) {
            let why = format!("{own} attempted to redirect this request elsewhere, which is not permitted");
            return Err(ProxyError::Unreachable(why));
        }
        let leads = redirect::rewritten(location, prefix, hosts).try_into();
        leads.ok().and_then(|leads| got.insert(header::LOCATION, leads));
    } else if let Some(prefix) = &proxied_request.prefix
        && parts.method != Method::HEAD
        && !matches!(answer.status(), StatusCode::PARTIAL_CONTENT | StatusCode::SWITCHING_PROTOCOLS)
    {
        let hosts = [backend.address.authority(), host(parts).unwrap_or_default().to_owned()];
        let links = Links { prefix: prefix.clone(), hosts };
        answer = answer.map(|body| html::rewrite(&mut got, body, links));
    }
    *answer.headers_mut() = got;
    Ok(match share {
        None => answer,
        Some(share) => answer.map(|body| Body::new(GuardedBody::new(body, share))),
    })
}

/// Builds the response to a log request.
///
/// # Errors
/// If the kubelet answers with an error. The error is the status for the client.
pub async fn log(answer: Response, pod: &str) -> Result<Response, Status> {
    let code = answer.status();
    if code.is_success() {
        return Ok(([(header::CONTENT_TYPE, "text/plain")], answer.into_body()).into_response());
    }
    let body = Limited::new(answer.into_body(), REFUSAL_BYTES).collect().await;
    let bytes = body.map(|body| body.to_bytes()).map_err(Status::internal)?;
    // Our kubelet returns a Status object, the stock kubelet plain text.
    if serde_json::from_slice::<Value>(&bytes).is_ok_and(|bytes| bytes["kind"] == "Status") {
        return Ok((code, [(header::CONTENT_TYPE, "application/json")], bytes).into_response());
    }
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    Err(match code {
        StatusCode::INTERNAL_SERVER_ERROR => Status::internal(text),
        StatusCode::BAD_REQUEST => Status::bad_request(text),
        StatusCode::NOT_FOUND => {
            let message =
                format!("the server could not find the requested resource ({text}) ( pods/log {pod})");
            Status::new(StatusCode::NOT_FOUND, "NotFound", message)
        }
        _ => {
            let message = format!("the node answered with {code} ({text}) ( pods/log {pod})");
            Status::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
        }
    })
}
