//! Negotiation and the streams of each protocol.

use http::{HeaderMap, StatusCode};
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use super::client::{Client, data, headers};
use crate::spdy::exec::{self, PROTOCOLS, StreamOptions, Streams, encode_status};
use crate::spdy::frame::Frame;
use crate::spdy::port_forward::{self, ForwardedConnections};
use crate::spdy::{Upgrade, choose};

const PROTOCOL: &str = "x-stream-protocol-version";

#[test]
fn first_supported_protocol_of_the_client_is_selected() {
    let none = "unable to upgrade: header X-Stream-Protocol-Version does not exist in request with 0 headers";
    let empty = "unable to upgrade: header X-Stream-Protocol-Version contains [], but no valid protocols";
    let other = "unable to upgrade: unable to negotiate protocol: client supports [v9 v8], server accepts \
                 [v5.channel.k8s.io v4.channel.k8s.io v3.channel.k8s.io v2.channel.k8s.io channel.k8s.io]";
    let protocol_headers = |lines: &[&str]| -> HeaderMap {
        headers(&lines.iter().map(|line| (PROTOCOL, *line)).collect::<Vec<_>>())
    };
    for (lines, expected) in [
        (&["v4.channel.k8s.io", "v3.channel.k8s.io"][..], Ok("v4.channel.k8s.io")),
        (&["v9, v2.channel.k8s.io,channel.k8s.io"], Ok("v2.channel.k8s.io")),
        (&["v5.channel.k8s.io"], Ok("v5.channel.k8s.io")),
        (&[], Err((400, none))),
        (&["", " , "], Err((400, empty))),
        (&["v9", "v8"], Err((403, other))),
    ] {
        let found = choose(&protocol_headers(lines), PROTOCOLS);
        let found = found.as_ref().map_err(|no| (no.code.as_u16(), no.message.as_str()));
        assert_eq!(found.copied(), expected, "{lines:?}");
    }
}

#[test]
fn only_requests_with_upgrade_headers_are_upgraded() {
    for (connection, upgrade, expected) in [
        ("Upgrade", "SPDY/3.1", true),
        ("keep-alive, upgrade", "spdy/3.1", true),
        ("Upgrade", "websocket", false),
        ("keep-alive", "SPDY/3.1", false),
    ] {
        let headers = headers(&[("connection", connection), ("upgrade", upgrade)]);
        assert_eq!(Upgrade::is_requested(&headers), expected, "{connection} {upgrade}");
    }
    let mut parts =
        http::Request::get("/").header(PROTOCOL, "channel.k8s.io").body(()).unwrap().into_parts().0;
    let refusal = Upgrade::read(&mut parts, PROTOCOLS).unwrap_err();
    assert_eq!(refusal.code, StatusCode::BAD_REQUEST);
    assert!(refusal.message.starts_with("unable to upgrade: missing upgrade headers in request"));
}

#[test]
fn the_exit_status_has_the_form_of_the_protocol() {
    let success = json!({"metadata": {}, "status": "Success"});
    let failure = json!({"metadata": {}, "status": "Failure", "message": "exit status 3"});
    for (protocol, status, expected) in [
        ("v5.channel.k8s.io", &success, success.to_string()),
        ("v4.channel.k8s.io", &failure, failure.to_string()),
        ("v3.channel.k8s.io", &success, String::new()),
        ("channel.k8s.io", &failure, "exit status 3".to_owned()),
    ] {
        assert_eq!(encode_status(protocol, status), expected.as_bytes(), "{protocol}");
    }
}

#[tokio::test]
async fn command_has_the_requested_streams() {
    let tty = StreamOptions { stdin: true, stdout: true, stderr: true, tty: true };
    let plain = StreamOptions { tty: false, ..tty };
    for (protocol, wanted, kinds) in [
        ("v4.channel.k8s.io", tty, &["error", "stdin", "stdout", "resize"][..]),
        ("v2.channel.k8s.io", tty, &["error", "stdin", "stdout"]),
        ("v5.channel.k8s.io", plain, &["stderr", "stdout", "stdin", "error"]),
        (
            "v4.channel.k8s.io",
            StreamOptions { stdout: true, ..StreamOptions::default() },
            &["stdout", "error"],
        ),
    ] {
        let (mut client, session) = Client::new(exec::admit);
        let waiting = tokio::spawn(Streams::accept(session, protocol, wanted));
        client.send_request(1, &[("streamtype", "something")]).await;
        assert!(matches!(client.next().await, Some(Frame::Reset { stream: 1, .. })));
        for (n, kind) in (1_u32..).zip(kinds) {
            client.send_request(2 * n + 1, &[("streamtype", kind)]).await;
            assert!(matches!(client.next().await, Some(Frame::SynReply { .. })), "{protocol} {kind}");
        }
        let streams = waiting.await.unwrap().unwrap();
        let has = |kind: &str| kinds.contains(&kind);
        assert_eq!(streams.stdin.is_some(), has("stdin"), "{protocol}");
        assert_eq!(streams.stdout.is_some(), has("stdout"), "{protocol}");
        assert_eq!(streams.stderr.is_some(), has("stderr"), "{protocol}");
        assert_eq!(streams.resize.is_some(), has("resize"), "{protocol}");
        streams.end(&json!({"status": "Failure", "message": "gone"})).await;
        let mut ended = 0;
        let mut text = Vec::new();
        while let Some(frame) = client.next().await {
            if let Frame::Data { bytes, fin, .. } = frame {
                ended += usize::from(fin);
                text.extend_from_slice(&bytes);
            }
        }
        assert_eq!(ended, kinds.len(), "{protocol}: every stream ends");
        assert!(String::from_utf8(text).unwrap().contains("gone"), "{protocol}");
    }
}

#[tokio::test(start_paused = true)]
async fn command_without_its_streams_times_out() {
    let (mut client, session) = Client::new(exec::admit);
    client.send_request(1, &[("streamtype", "error")]).await;
    let wanted = StreamOptions { stdin: true, ..StreamOptions::default() };
    assert!(Streams::accept(session, "v4.channel.k8s.io", wanted).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn forwarded_connection_is_a_pair_of_streams() {
    let (mut client, session) = Client::new(port_forward::admit);
    let mut pairs = ForwardedConnections::new(session);
    for (kind, port) in [("stdin", "80"), ("data", "0"), ("data", "70000"), ("error", "http")] {
        assert!(!port_forward::admit(&headers(&[("streamtype", kind), ("port", port)])), "{kind} {port}");
    }
    // Two connections at once, and one of an old client without request IDs.
    for (stream, kind, request) in [
        (1, "error", "0"),
        (3, "error", "1"),
        (5, "data", "1"),
        (7, "data", "0"),
        (9, "error", ""),
        (11, "data", ""),
    ] {
        let port = if request == "1" { "81" } else { "80" };
        let mut protocol_headers = vec![("streamtype", kind), ("port", port)];
        protocol_headers.extend(Some(("requestid", request)).filter(|_| !request.is_empty()));
        client.send_request(stream, &protocol_headers).await;
        assert!(matches!(client.next().await, Some(Frame::SynReply { .. })), "{stream}");
    }
    let mut found = Vec::new();
    let mut held = Vec::new();
    for _ in 0..3 {
        let pair = pairs.next().await.unwrap();
        found.push((pair.port, pair.data.id, pair.error.id));
        held.push(pair);
    }
    assert_eq!(found, [(81, 5, 3), (80, 7, 1), (80, 11, 9)]);
    client.send(data(7, b"x", true)).await;
    let mut text = String::new();
    held[1].data.reader.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "x");
    // A pair whose second stream never arrives.
    client.send_request(13, &[("streamtype", "error"), ("port", "80"), ("requestid", "9")]).await;
    let waiting = tokio::spawn(async move { pairs.next().await.is_none() });
    assert!(matches!(client.next().await, Some(Frame::SynReply { stream: 13, .. })));
    // Paused time advances automatically; the client's deadline is shorter.
    tokio::time::advance(std::time::Duration::from_secs(31)).await;
    let remaining = client.rest(13).await;
    assert!(String::from_utf8(remaining).unwrap().contains("timed out waiting for streams"));
    drop((client, held));
    assert!(waiting.await.unwrap());
}
