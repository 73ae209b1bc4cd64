//! Upgrades an HTTP request to a SPDY session, with the error messages of kube-apiserver.

use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::session::{Admit, Session};
use crate::request::header_values;
use crate::tasks;

/// `Upgrade` header value.
const SPDY: &str = "SPDY/3.1";
/// Header with the subprotocols of the client in order of preference. In the response, it has the selected one.
const PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Header with the supported subprotocols, sent if none matches.
const ACCEPTED: HeaderName = HeaderName::from_static("x-accepted-stream-protocol-versions");

/// The reason why an upgrade was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Status code: 400 or 403.
    pub code: StatusCode,
    /// Error message.
    pub message: String,
    /// Supported subprotocols.
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

/// Selects a subprotocol.
///
/// # Errors
/// 400 if the client sends none, 403 if none is supported.
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
    let requested: Vec<&str> =
        header_values(headers, PROTOCOL).map(str::trim).filter(|name| !name.is_empty()).collect();
    if requested.is_empty() {
        let message = "header X-Stream-Protocol-Version contains [], but no valid protocols".to_owned();
        return Err(refuse(StatusCode::BAD_REQUEST, message, &[]));
    }
    let both = requested.iter().find_map(|name| spoken.iter().find(|known| *known == name));
    both.copied().ok_or_else(|| {
        let message = format!(
            "unable to negotiate protocol: client supports [{}], server accepts [{}]",
            requested.join(" "),
            spoken.join(" ")
        );
        refuse(StatusCode::FORBIDDEN, message, spoken)
    })
}

/// A request to be upgraded.
#[derive(Debug)]
pub struct Upgrade {
    /// Selected subprotocol.
    pub protocol: &'static str,
    connection: OnUpgrade,
}

impl Upgrade {
    /// Whether a request asks for a SPDY upgrade.
    pub fn is_requested(headers: &HeaderMap) -> bool {
        let has_word = |name: HeaderName, word: &str| {
            let mut values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.any(|value| value.to_ascii_lowercase().contains(&word.to_ascii_lowercase()))
        };
        has_word(CONNECTION, "upgrade") && has_word(UPGRADE, SPDY)
    }

    /// Negotiates the upgrade.
    ///
    /// # Errors
    /// If no subprotocol matches, or the request does not ask for SPDY.
    pub fn read(parts: &mut Parts, spoken: &'static [&'static str]) -> Result<Self, Refusal> {
        let protocol = choose(&parts.headers, spoken)?;
        let is_requested = Self::is_requested(&parts.headers);
        match parts.extensions.remove::<OnUpgrade>().filter(|_| is_requested) {
            Some(connection) => Ok(Self { protocol, connection }),
            None => Err(Refusal {
                code: StatusCode::BAD_REQUEST,
                message:
                    "unable to upgrade: missing upgrade headers in request: send `Connection: Upgrade` and \
                          `Upgrade: SPDY/3.1`, over HTTP/1.1"
                        .to_owned(),
                accepted: &[],
            }),
        }
    }

    /// Returns the 101 response. The session runs in its own task, and ends after `idle` without activity.
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
        tasks::supervise("SPDY connection", async move {
            match connection.await {
                Ok(connection) => serve(Session::start(TokioIo::new(connection), admit, idle)).await,
                Err(error) => tracing::debug!(%error, "the client disconnected before the session started"),
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
