//! From a request to a session: which protocol is spoken over it, in the stock server's words where none can be.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::session::{Admit, Session};
use crate::request::words;

/// What a request asks to upgrade to.
const SPDY: &str = "SPDY/3.1";
/// Names protocols that a client speaks, the best first, and in the answer the one that is spoken.
const PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Names those that the server speaks, when it is none of them.
const ACCEPTED: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// Why there is no session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// 400 or 403.
    pub code: StatusCode,
    /// Why, for people.
    pub message: String,
    /// What would have been taken.
    pub accepted: &'static [&'static str],
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.code, format!("{}\n", self.message)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        for protocol in self.accepted {
            headers.append(ACCEPTED, HeaderValue::from_static(protocol));
        }
        response
    }
}

/// The protocol that a client likes best of those that are spoken here.
///
/// # Errors
/// 400 when it names none, 403 when none of its is spoken.
pub fn choose(headers: &HeaderMap, spoken: &'static [&'static str]) -> Result<&'static str, Refusal> {
    let refuse = |code, message: String, accepted| Refusal {
        code,
        message: format!("unable to upgrade: {message}"),
        accepted,
    };
    if !headers.contains_key(&PROTOCOL) {
        let message = format!(
            "header X-Stream-Protocol-Version does not exist in request with {} headers",
            headers.keys_len()
        );
        return Err(refuse(StatusCode::BAD_REQUEST, message, &[]));
    }
    let asked: Vec<&str> = words(headers, PROTOCOL).map(str::trim).filter(|name| !name.is_empty()).collect();
    if asked.is_empty() {
        let message = "header X-Stream-Protocol-Version contains [], but no valid protocols".to_owned();
        return Err(refuse(StatusCode::BAD_REQUEST, message, &[]));
    }
    let both = asked.iter().find_map(|name| spoken.iter().find(|known| *known == name));
    both.copied().ok_or_else(|| {
        let message = format!(
            "unable to negotiate protocol: client supports [{}], server accepts [{}]",
            asked.join(" "),
            spoken.join(" ")
        );
        refuse(StatusCode::FORBIDDEN, message, spoken)
    })
}

/// A request that becomes a session once it is answered.
#[derive(Debug)]
pub struct Upgrade {
    /// The protocol spoken over it.
    pub protocol: &'static str,
    connection: OnUpgrade,
}

impl Upgrade {
    /// Whether a request asks for SPDY at all, and not for WebSocket or for nothing.
    pub fn is_asked(headers: &HeaderMap) -> bool {
        let says = |name: HeaderName, word: &str| {
            let mut values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.any(|value| value.to_ascii_lowercase().contains(&word.to_ascii_lowercase()))
        };
        says(CONNECTION, "upgrade") && says(UPGRADE, SPDY)
    }

    /// Agrees with a request on a protocol.
    ///
    /// # Errors
    /// When there is none in common, or it does not ask for SPDY.
    pub fn read(parts: &mut Parts, spoken: &'static [&'static str]) -> Result<Self, Refusal> {
        let protocol = choose(&parts.headers, spoken)?;
        let asked = Self::is_asked(&parts.headers);
        match parts.extensions.remove::<OnUpgrade>().filter(|_| asked) {
            Some(connection) => Ok(Self { protocol, connection }),
            None => Err(Refusal {
                code: StatusCode::BAD_REQUEST,
                message:
                    "unable to upgrade: missing upgrade headers in request: say `Connection: Upgrade` and \
                          `Upgrade: SPDY/3.1`, over HTTP/1.1"
                        .to_owned(),
                accepted: &[],
            }),
        }
    }

    /// The answer, after which the session is served in a task of its own, as long as something moves within `idle`.
    pub fn serve<F>(
        self,
        admit: Admit,
        idle: Duration,
        serve: impl FnOnce(Session) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self { protocol, connection } = self;
        tokio::spawn(async move {
            match connection.await {
                Ok(connection) => serve(Session::start(TokioIo::new(connection), admit, idle)).await,
                Err(error) => tracing::debug!(%error, "a client went away before its session began"),
            }
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        for (name, value) in [(CONNECTION, "Upgrade"), (UPGRADE, SPDY), (PROTOCOL, protocol)] {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
