//! Port forwarding over a WebSocket whose messages carry SPDY, as in kubectl 1.31 and later.
//!
//! A stock kubelet speaks only SPDY for port forwarding. Therefore the proxy asks every kubelet for SPDY, accepts the
//! WebSocket after the kubelet has switched protocols, and relays the bytes of its messages.

use std::future::ready;
use std::io;

use apiserver::Status;
use apiserver::request::header_values;
use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_util::io::{CopyToBytes, SinkWriter, StreamReader};

use super::forward::ProxyError;
use super::headers;

/// WebSocket subprotocol of a tunnel.
const SUBPROTOCOL: HeaderValue = HeaderValue::from_static("SPDY/3.1+portforward.k8s.io");
const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");
/// Protocol between the master and the kubelet.
const SPDY: HeaderValue = HeaderValue::from_static("SPDY/3.1");
/// Header with the subprotocol of SPDY.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Subprotocol of SPDY for port forwarding.
const PORT_FORWARD: HeaderValue = HeaderValue::from_static("portforward.k8s.io");
/// The only version of the WebSocket protocol.
const VERSION: &str = "13";
/// Headers of a WebSocket handshake, which the kubelet must not get.
const HANDSHAKE: [HeaderName; 4] = [
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_PROTOCOL,
    header::SEC_WEBSOCKET_EXTENSIONS,
];
/// Maximum size of a client's message in bytes. kubectl sends at most 32 KiB of data in a message.
const MESSAGE_BYTES: usize = 256 * 1024;
/// Read buffer of a WebSocket in bytes, as large as the buffer of the relay.
const READ_BUFFER_BYTES: usize = 16 * 1024;

/// The WebSocket handshake of a tunnel. The proxy completes it after the kubelet has switched to SPDY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Value of `Sec-WebSocket-Accept`.
    accept: HeaderValue,
}

impl Tunnel {
    /// Changes a request for a tunnel to a request for SPDY. Returns `None` for other requests, which stay as they are.
    ///
    /// # Errors
    /// 400 if the WebSocket handshake is invalid.
    pub fn open(request: &mut Request<Body>) -> Result<Option<Self>, Status> {
        let headers = request.headers();
        let is_websocket = headers::upgrade(headers)
            .is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(WEBSOCKET.as_bytes()));
        let is_tunnel = header_values(headers, header::SEC_WEBSOCKET_PROTOCOL)
            .any(|protocol| protocol.as_bytes() == SUBPROTOCOL.as_bytes());
        if !is_websocket || !is_tunnel {
            return Ok(None);
        }
        let invalid = |what: &str| Status::bad_request(format!("invalid WebSocket handshake: {what}"));
        if request.method() != Method::GET {
            return Err(invalid("the method is not GET"));
        }
        if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
            return Err(invalid("the version is not 13"));
        }
        let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or_else(|| invalid("there is no key"))?;
        let accept = derive_accept_key(key.as_bytes()).try_into().map_err(Status::internal)?;
        *request.method_mut() = Method::POST;
        let headers = request.headers_mut();
        HANDSHAKE.iter().for_each(|name| drop(headers.remove(name)));
        headers.insert(header::UPGRADE, SPDY);
        headers.insert(STREAM_PROTOCOL, PORT_FORWARD);
        Ok(Some(Self { accept }))
    }

    /// The response to the client after the kubelet has switched protocols.
    ///
    /// # Errors
    /// If the kubelet switched to another protocol than SPDY for port forwarding.
    pub fn response(&self, answer: &HeaderMap) -> Result<Response, ProxyError> {
        let is_spdy = headers::upgrade(answer)
            .is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(SPDY.as_bytes()));
        if !is_spdy || answer.get(STREAM_PROTOCOL).is_some_and(|protocol| *protocol != PORT_FORWARD) {
            return Err(ProxyError::Unreachable(
                "the kubelet switched to another protocol than SPDY".to_owned(),
            ));
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().extend([
            (header::CONNECTION, HeaderValue::from_static("Upgrade")),
            (header::UPGRADE, WEBSOCKET),
            (header::SEC_WEBSOCKET_ACCEPT, self.accept.clone()),
            (header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL),
        ]);
        Ok(response)
    }
}

/// The bytes in the messages of a client's WebSocket. `before` is data that the client sent after its request. A close
/// frame ends the input; the end of the output sends one.
pub async fn bytes(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    before: Bytes,
) -> impl AsyncRead + AsyncWrite {
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER_BYTES)
        // Each piece of the relay is a message that is sent at once.
        .write_buffer_size(0)
        .max_frame_size(Some(MESSAGE_BYTES))
        .max_message_size(Some(MESSAGE_BYTES));
    let socket =
        WebSocketStream::from_partially_read(stream, before.into(), Role::Server, Some(config)).await;
    let (sink, messages) = socket.split();
    let input = messages.take_while(|message| ready(!matches!(message, Ok(Message::Close(_))))).filter_map(
        |message| {
            ready(match message {
                Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
                Ok(Message::Text(_)) => Some(Err(io::Error::other("a message of a tunnel is not binary"))),
                Ok(_) => None,
                Err(error) => Some(Err(io::Error::other(error))),
            })
        },
    );
    let output = sink
        .sink_map_err(io::Error::other)
        .with(|bytes: Bytes| ready(Ok::<_, io::Error>(Message::Binary(bytes))));
    tokio::io::join(StreamReader::new(input), SinkWriter::new(CopyToBytes::new(output)))
}

#[cfg(test)]
mod tests {
    //! Tests of handshakes, and of messages in both directions.
    #![allow(clippy::unwrap_used, reason = "tests")]

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A handshake with the key of RFC 6455, without the header `without`.
    fn handshake(method: Method, protocols: &str, without: &str) -> Request<Body> {
        let mut request = Request::builder().method(method).uri("/").body(Body::empty()).unwrap();
        for (name, value) in [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", VERSION),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-protocol", protocols),
            ("sec-websocket-extensions", "permessage-deflate"),
        ] {
            if name != without {
                request.headers_mut().insert(HeaderName::from_static(name), value.parse().unwrap());
            }
        }
        request
    }

    fn answer(upgrade: &str, protocol: &str) -> HeaderMap {
        let headers =
            [("connection", "Upgrade"), ("upgrade", upgrade), ("x-stream-protocol-version", protocol)];
        headers
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .into_iter()
            .collect()
    }

    #[test]
    fn a_handshake_for_a_tunnel_becomes_a_request_for_spdy() {
        let mut request = handshake(Method::GET, "v4.channel.k8s.io, SPDY/3.1+portforward.k8s.io", "");
        let tunnel = Tunnel::open(&mut request).unwrap().unwrap();
        let mut sent: Vec<_> = request.headers().iter().collect();
        sent.sort_by_key(|(name, _)| name.as_str());
        let sent: Vec<_> =
            sent.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(request.method(), Method::POST);
        assert_eq!(
            sent,
            [
                ("connection", "keep-alive, Upgrade"),
                ("upgrade", "SPDY/3.1"),
                ("x-stream-protocol-version", "portforward.k8s.io"),
            ]
        );
        let response = tunnel.response(&answer("spdy/3.1", "portforward.k8s.io")).unwrap();
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(response.headers()["sec-websocket-protocol"], "SPDY/3.1+portforward.k8s.io");
        for (upgrade, protocol) in [("websocket", "portforward.k8s.io"), ("SPDY/3.1", "v4.channel.k8s.io")] {
            assert!(tunnel.response(&answer(upgrade, protocol)).is_err(), "{upgrade} {protocol}");
        }
    }

    #[test]
    fn other_requests_stay_as_they_are_and_invalid_handshakes_are_rejected() {
        let tunnel = "SPDY/3.1+portforward.k8s.io";
        for (protocols, without) in [("v4.channel.k8s.io", ""), (tunnel, "upgrade"), (tunnel, "connection")] {
            let mut request = handshake(Method::GET, protocols, without);
            let before = request.headers().clone();
            assert_eq!(Tunnel::open(&mut request).unwrap(), None, "{protocols} {without}");
            assert_eq!((request.method(), request.headers()), (&Method::GET, &before));
        }
        for (method, without) in
            [(Method::POST, ""), (Method::GET, "sec-websocket-version"), (Method::GET, "sec-websocket-key")]
        {
            let refused = Tunnel::open(&mut handshake(method, tunnel, without)).unwrap_err();
            assert_eq!(refused.code, 400, "{without}");
        }
    }

    #[tokio::test]
    async fn bytes_of_messages_are_relayed_until_the_client_sends_a_close_frame() {
        let (near, far) = tokio::io::duplex(1024);
        let mut client = WebSocketStream::from_raw_socket(near, Role::Client, None).await;
        let tunnel = tokio::spawn(async move {
            let (mut from, mut to) = tokio::io::split(bytes(far, Bytes::new()).await);
            let mut come = vec![0; 8000];
            from.read_exact(&mut come).await.unwrap();
            to.write_all(b"answer").await.unwrap();
            to.flush().await.unwrap();
            assert_eq!(from.read(&mut [0]).await.unwrap(), 0, "a close frame ends the input");
            to.shutdown().await.unwrap();
            come
        });
        for piece in [&[1; 5000][..], b"", &[2; 3000]] {
            client.send(Message::Binary(piece.to_vec().into())).await.unwrap();
        }
        let answer = client.next().await.unwrap().unwrap();
        assert_eq!(answer, Message::Binary(Bytes::from_static(b"answer")));
        client.close(None).await.unwrap();
        while let Some(message) = client.next().await {
            assert!(matches!(message, Ok(Message::Close(_))), "{message:?}");
        }
        assert_eq!(tunnel.await.unwrap(), [vec![1; 5000], vec![2; 3000]].concat());
    }
}
