//! WebSockets for pod logs and watches, for clients such as browsers.
//!
//! The request is served without the upgrade headers, and the body of a successful response is sent in messages. A
//! watch sends one text message per event. A log starts with an empty message and continues with messages of any
//! length.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts as _, Request};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use http::header::{self, HeaderMap, HeaderName};
use http::{Method, StatusCode, Uri};

use crate::request::{header_values, query_switch};
use crate::status::Status;

/// Subprotocol of logs with binary messages. It is also the default.
const BINARY: &str = "binary.k8s.io";
/// Subprotocol of logs with base64 text messages.
const BASE64: &str = "base64.binary.k8s.io";
/// How long the client may take to close the connection at the end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Headers that are removed from the inner request: those of the upgrade, and `Accept-Encoding`.
const OF_UPGRADE: [HeaderName; 7] = [
    header::CONNECTION,
    header::UPGRADE,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_PROTOCOL,
    header::SEC_WEBSOCKET_EXTENSIONS,
    header::ACCEPT_ENCODING,
];

/// The kind of content that a WebSocket carries.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Content {
    Log,
    Watch,
}

/// How the body is divided into messages.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Framing {
    Binary,
    Base64,
    Lines,
}

/// Adds WebSocket support to a router.
pub fn with_websockets(router: Router) -> Router {
    router.layer(from_fn(serve))
}

async fn serve(request: Request, next: Next) -> Response {
    match Content::of(&request) {
        Some(content) => upgraded(content, request, next).await.unwrap_or_else(Status::into_response),
        None => next.run(request).await,
    }
}

async fn upgraded(content: Content, request: Request, next: Next) -> Result<Response, Status> {
    let (mut parts, body) = request.into_parts();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, &()).await;
    let upgrade =
        upgrade.map_err(|error| Status::bad_request(format!("invalid upgrade request: {error}")))?;
    let offered: Vec<String> =
        header_values(&parts.headers, header::SEC_WEBSOCKET_PROTOCOL).map(str::to_owned).collect();
    let upgrade = match content {
        Content::Log => upgrade.protocols([BINARY, BASE64]),
        // Any subprotocol is accepted: a browser fails unless the server selects an offered one.
        Content::Watch => upgrade.protocols(offered.first().cloned()),
    };
    let agreed = upgrade.selected_protocol();
    if agreed.is_none() && !offered.is_empty() {
        let message = format!("no WebSocket subprotocol in common: this path has {BINARY} and {BASE64}");
        return Err(Status::new(StatusCode::FORBIDDEN, "Forbidden", message));
    }
    let framing = match content {
        Content::Watch => Framing::Lines,
        Content::Log if agreed.is_some_and(|agreed| agreed.as_bytes() == BASE64.as_bytes()) => {
            Framing::Base64
        }
        Content::Log => Framing::Binary,
    };
    OF_UPGRADE.iter().for_each(|name| drop(parts.headers.remove(name)));
    if content == Content::Watch {
        prefer_json(&mut parts.headers);
    }
    let response = next.run(Request::from_parts(parts, body)).await;
    if response.status() != StatusCode::OK {
        return Ok(response);
    }
    Ok(upgrade.on_upgrade(move |socket| send(socket, response.into_body(), framing)))
}

impl Content {
    fn of<B>(request: &http::Request<B>) -> Option<Self> {
        let is_upgrade = header_values(request.headers(), header::UPGRADE)
            .any(|word| word.eq_ignore_ascii_case("websocket"));
        if !is_upgrade || request.method() != Method::GET {
            return None;
        }
        let segments: Vec<&str> = request.uri().path().split('/').skip(1).collect();
        match segments[..] {
            ["api", "v1", "namespaces", _, "pods", _, "log"] => Some(Self::Log),
            // Requests through a proxy belong to another server.
            _ if segments.contains(&"proxy") => None,
            ["api", "v1", "watch", ..] | ["apis", _, _, "watch", ..] => Some(Self::Watch),
            ["api" | "apis", ..] if is_watch(request.uri()) => Some(Self::Watch),
            _ => None,
        }
    }
}

fn is_watch(uri: &Uri) -> bool {
    let mut pairs =
        uri.query().unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.any(|(name, value)| name == "watch" && query_switch(value))
}

/// Removes an `Accept` header with a binary encoding, because messages end at line ends.
fn prefer_json(headers: &mut HeaderMap) {
    if header_values(headers, header::ACCEPT).any(|word| word.contains("protobuf") || word.contains("cbor")) {
        headers.remove(header::ACCEPT);
    }
}

/// Sends a body until it ends or the client is gone.
async fn send(socket: WebSocket, body: Body, framing: Framing) {
    let (mut sink, mut incoming) = socket.split();
    let mut body = body.into_data_stream();
    {
        let gone = async { while let Some(Ok(_)) = incoming.next().await {} };
        tokio::select! {
            sent = messages(&mut body, &mut sink, framing) => if sent.is_err() { return },
            () = gone => return,
        }
    }
    let read = async { while let Some(Ok(_)) = incoming.next().await {} };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, read).await;
}

async fn messages<S: Sink<Message> + Unpin>(
    body: &mut (impl Stream<Item = Result<Bytes, axum::Error>> + Unpin),
    sink: &mut S,
    framing: Framing,
) -> Result<(), S::Error> {
    if framing != Framing::Lines {
        sink.send(message(framing, Bytes::new())).await?;
    }
    let mut held = BytesMut::new();
    while let Some(Ok(piece)) = body.next().await {
        if framing != Framing::Lines {
            sink.send(message(framing, piece)).await?;
            continue;
        }
        let mut searched = held.len();
        held.extend_from_slice(&piece);
        while let Some(end) = held[searched..].iter().position(|byte| *byte == b'\n') {
            let line = held.split_to(searched + end + 1).freeze();
            sink.feed(message(framing, line)).await?;
            searched = 0;
        }
        sink.flush().await?;
    }
    sink.send(Message::Close(Some(CloseFrame { code: 1000, reason: "".into() }))).await
}

fn message(framing: Framing, bytes: Bytes) -> Message {
    match framing {
        Framing::Binary => Message::Binary(bytes),
        Framing::Base64 => Message::Text(STANDARD.encode(bytes).into()),
        Framing::Lines => match Utf8Bytes::try_from(bytes.clone()) {
            Ok(text) => Message::Text(text),
            Err(_) => Message::Binary(bytes),
        },
    }
}

#[cfg(test)]
mod tests {
    //! Tests of requests with and without WebSocket.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use http::Request;

    use super::*;

    #[test]
    fn websocket_upgrades_of_logs_and_watches_are_recognized() {
        for (path, upgrade, expected) in [
            ("/api/v1/namespaces/a/pods/b/log?follow=1", "websocket", Some(Content::Log)),
            ("/api/v1/namespaces/a/pods/b/log", "SPDY/3.1", None),
            ("/api/v1/namespaces/a/pods/b/exec?command=watch=1", "websocket", None),
            ("/api/v1/pods?watch=1", "WebSocket", Some(Content::Watch)),
            ("/api/v1/pods?watch=0", "websocket", None),
            ("/apis/apps/v1/namespaces/a/deployments?limit=1&watch", "websocket", Some(Content::Watch)),
            ("/api/v1/watch/namespaces/a/pods", "websocket", Some(Content::Watch)),
            ("/api/v1/namespaces/a/pods/b/proxy/events?watch=1", "websocket", None),
            ("/watch?watch=1", "websocket", None),
        ] {
            let request = Request::get(path).header("connection", "Upgrade").header("upgrade", upgrade);
            assert_eq!(Content::of(&request.body(()).unwrap()), expected, "{path} {upgrade}");
        }
    }
}
