//! What is passed on of a request and of its answer, and what a client is told when there is none.

use std::net::IpAddr;

use apiserver::shares::Share;
use apiserver::{Held, Identity, Status};
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;

use super::headers::{self, Side};
use super::place::Place;
use super::redirect;
use super::verify::Trust;

/// The most of a refusal that is read, as the stock server does.
const REFUSAL_BYTES: usize = 50_000;
/// By which path and from where a client came, as the stock server tells it to what listens in pods.
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The way to whoever answers.
#[derive(Clone, Debug)]
pub struct Way {
    /// Who that is.
    pub to: To,
    /// Where he says that he is.
    pub place: Place,
}

/// Who answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// A kubelet, over TLS.
    Node {
        /// Its name.
        name: String,
        /// Who is believed to be it.
        trust: Trust,
    },
    /// Whatever listens in a pod; nobody vouches for it, over TLS or not.
    Workload {
        /// Whether TLS is spoken.
        tls: bool,
    },
}

impl Way {
    fn side(&self) -> Side {
        match self.to {
            To::Node { .. } => Side::Node,
            To::Workload { .. } => Side::Workload,
        }
    }
}

/// What is asked on the way, and below which path of the master it stands; none for what is no place of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errand {
    /// Path and query.
    pub target: String,
    /// The path of the master that stands for all that is asked there.
    pub prefix: Option<String>,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Failed {
    /// Too many requests are passed on already.
    Busy(Status),
    /// The request makes no sense.
    Senseless(String),
    /// Nobody is reached, or he does not answer.
    Unreached(String),
}

impl Failed {
    /// What a client is told that would have got a connection.
    pub fn dialing(self) -> Status {
        self.told(StatusCode::INTERNAL_SERVER_ERROR, "", |why| format!("error dialing backend: {why}"))
    }

    /// What a client is told that would have got what is at that URL.
    pub fn getting(self, url: &str) -> Status {
        self.told(StatusCode::INTERNAL_SERVER_ERROR, "", |why| format!("Get {url:?}: {why}"))
    }

    /// What a client is told that would have got anything else.
    pub fn reaching(self) -> Status {
        let unavailable = (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable");
        self.told(unavailable.0, unavailable.1, |why| format!("error trying to reach service: {why}"))
    }

    fn told(self, code: StatusCode, reason: &'static str, say: impl Fn(String) -> String) -> Status {
        match self {
            Self::Busy(told) => told,
            Self::Senseless(why) => Status::bad_request(why),
            Self::Unreached(why) => Status::new(code, reason, say(why)),
        }
    }
}

/// What is sent for a request.
///
/// # Errors
/// When nothing can be made of it.
pub fn asked(parts: &Parts, body: Body, errand: &Errand, way: &Way) -> Result<Request<Body>, Failed> {
    let senseless = |error: http::Error| Failed::Senseless(format!("nothing can be asked for that: {error}"));
    // What is sent before an upgrade has no end.
    let body = if headers::upgrade(&parts.headers).is_some() { Body::empty() } else { body };
    let asked = Request::builder().method(parts.method.clone()).uri(&errand.target).body(body);
    let mut asked = asked.map_err(senseless)?;
    *asked.headers_mut() = headers::there(way.side(), &parts.headers);
    let host = match way.side() {
        Side::Node => way.place.authority(),
        Side::Workload => {
            let peer = parts.extensions.get::<Identity>().and_then(|who| who.peer);
            let peer = peer.as_ref().map(IpAddr::to_string).and_then(|peer| peer.try_into().ok());
            peer.and_then(|peer| asked.headers_mut().insert(FORWARDED_FOR, peer));
            let came_by: Option<HeaderValue> = parts.uri.path().try_into().ok();
            came_by.and_then(|path| asked.headers_mut().insert(FORWARDED_URI, path));
            host(parts).unwrap_or_default().to_owned()
        }
    };
    let host = HeaderValue::try_from(host).map_err(|error| senseless(error.into()))?;
    asked.headers_mut().insert(header::HOST, host);
    Ok(asked)
}

/// By which name a client asks for the master.
fn host(parts: &Parts) -> Option<&str> {
    let in_url = parts.uri.authority().map(http::uri::Authority::as_str);
    in_url.or_else(|| parts.headers.get(header::HOST)?.to_str().ok())
}

/// What a client gets of an answer; `share` is kept until it has all of it.
///
/// # Errors
/// When a node would lead the client away, or anybody above the path by which he is reached: whoever follows shows to others what is for
/// the master alone, or asks the master for what he never wanted.
pub fn passed(
    mut answer: Response<Body>,
    parts: &Parts,
    errand: &Errand,
    way: &Way,
    share: Option<Share>,
) -> Result<Response, Failed> {
    let switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    let mut got = headers::back(way.side(), answer.headers(), switched);
    if let Some(location) = got.get(header::LOCATION) {
        let own = way.place.authority();
        let hosts = [own.as_str(), host(parts).unwrap_or_default()];
        // What is no text leads nobody anywhere.
        let location = location.to_str().unwrap_or("/..");
        let is_away = way.side() == Side::Node && redirect::is_elsewhere(location, hosts);
        let prefix = errand.prefix.as_deref().unwrap_or_default();
        let asked = parts.uri.path().strip_prefix(prefix).unwrap_or_default();
        if is_away || redirect::climbs(location, prefix, asked) {
            let why = format!("{own} attempted to redirect this request elsewhere, which is not permitted");
            return Err(Failed::Unreached(why));
        }
        let leads = redirect::rewritten(location, prefix, hosts).try_into();
        leads.ok().and_then(|leads| got.insert(header::LOCATION, leads));
    }
    *answer.headers_mut() = got;
    Ok(match share {
        None => answer,
        Some(share) => answer.map(|body| Body::new(Held::new(body, share))),
    })
}

/// The answer to whoever asked for a log: the log, or why there is none.
///
/// # Errors
/// What the node said instead.
pub async fn log(answer: Response, pod: &str) -> Result<Response, Status> {
    let code = answer.status();
    if code.is_success() {
        return Ok(([(header::CONTENT_TYPE, "text/plain")], answer.into_body()).into_response());
    }
    let body = Limited::new(answer.into_body(), REFUSAL_BYTES).collect().await;
    let said = body.map(|body| body.to_bytes()).map_err(Status::internal)?;
    // Our own kubelets say it as the API does, stock ones in plain text.
    if serde_json::from_slice::<Value>(&said).is_ok_and(|said| said["kind"] == "Status") {
        return Ok((code, [(header::CONTENT_TYPE, "application/json")], said).into_response());
    }
    let text = String::from_utf8_lossy(&said).trim().to_owned();
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
