//! What is passed on of a request and of its answer, and what a client is told when there is none.

use apiserver::{Held, Status};
use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{self, HeaderMap, HeaderName};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::place::Place;
use super::verify::Trust;

/// The most of a refusal that is read, as the stock server does.
const REFUSAL_BYTES: usize = 50_000;
/// Headers that are about a connection, not about what is sent over it.
const OF_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
/// Headers that are for the master alone; whom it acts for is no node's business, which knows the master only.
const OURS: [HeaderName; 4] = [header::HOST, header::AUTHORIZATION, header::COOKIE, header::EXPECT];
const IMPERSONATION: &str = "impersonate-";

/// The way to a node.
#[derive(Clone, Debug)]
pub struct Way {
    /// Its name.
    pub node: String,
    /// Where it says that it is.
    pub place: Place,
    /// Who is believed to be it.
    pub trust: Trust,
}

/// Why there is no answer.
#[derive(Debug)]
pub enum Failed {
    /// Too many requests are passed to nodes already.
    Busy,
    /// The request makes no sense to a node.
    Senseless(String),
    /// The node is not reached.
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
            Self::Busy => Status::too_many_requests(),
            Self::Senseless(why) => Status::bad_request(why),
            Self::Unreached(why) => Status::new(code, reason, say(why)),
        }
    }
}

/// What is sent to a node for a request.
pub fn asked(request: Request<Body>, target: &str, authority: &str) -> Result<Request<Body>, Failed> {
    let (parts, body) = request.into_parts();
    let upgrade = upgrade(&parts.headers);
    // What is sent before an upgrade has no end.
    let body = if upgrade.is_some() { Body::empty() } else { body };
    let mut asked = Request::builder().method(parts.method).uri(target).header(header::HOST, authority);
    for (name, value) in &parts.headers {
        if upgrade.is_some() && name == header::CONTENT_LENGTH {
            continue;
        }
        if !OURS.contains(name) && !OF_CONNECTION.contains(name) && !name.as_str().starts_with(IMPERSONATION)
        {
            asked = asked.header(name, value);
        }
    }
    if let Some(protocol) = upgrade {
        asked = asked.header(header::CONNECTION, "Upgrade").header(header::UPGRADE, protocol);
    }
    asked.body(body).map_err(|error| Failed::Senseless(format!("nothing to ask of a node: {error}")))
}

/// What a client asks to upgrade to.
fn upgrade(headers: &HeaderMap) -> Option<&http::HeaderValue> {
    let words = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let mut words = words.flat_map(|value| value.split(','));
    words.any(|word| word.trim().eq_ignore_ascii_case("upgrade")).then(|| headers.get(header::UPGRADE))?
}

/// What a client gets of an answer; `place` is kept until it has all of it.
pub fn passed(mut answer: Response<Body>, place: Option<OwnedSemaphorePermit>) -> Response {
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        OF_CONNECTION.iter().for_each(|name| drop(answer.headers_mut().remove(name)));
    }
    match place {
        None => answer,
        Some(place) => answer.map(|body| Body::new(Held::new(body, place))),
    }
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
