//! HTTP and TCP probes against real servers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerPort, HTTPGetAction};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use super::bed::{Bed, Does, Engine, Server};
use crate::observed::probes::Kind::{Liveness, Readiness};
use crate::probes::handler::{Outcome, PROBE_USER_AGENT};
use crate::probes::http::{Get, judge};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Runs the probe once, with a timeout of one second.
async fn get(action: Value) -> Outcome {
    let action: HTTPGetAction = serde_json::from_value(action).unwrap();
    let named =
        ContainerPort { name: Some("nine".to_owned()), container_port: 9, ..ContainerPort::default() };
    let ip = Some("127.0.0.1".parse().unwrap());
    match Get::new(&action, &[named], ip, &PROBE_USER_AGENT) {
        Ok(get) => judge(get.run(Duration::from_secs(1)).await),
        Err(why) => Outcome::Unknown(why),
    }
}

/// Runs the probe against a server with these responses.
async fn answered(answers: &[&str]) -> (Outcome, Server) {
    let server = Server::start(answers).await;
    (get(json!({"port": server.port(), "path": "/healthz"})).await, server)
}

#[tokio::test]
async fn http_probe_result_follows_the_status_code() {
    let failure = |text: &str| Outcome::Failure(text.to_owned());
    for (answer, expected) in [
        (OK, Outcome::Success),
        ("HTTP/1.0 204 No Content\r\n\r\n", Outcome::Success),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", Outcome::Success),
        ("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nhello", Outcome::Success),
        (
            "HTTP/1.1 500 Oh\r\nContent-Length: 6\r\n\r\nsecret",
            failure("HTTP probe failed with statuscode: 500"),
        ),
        ("HTTP/1.1 404 Not Found\r\n\r\n", failure("HTTP probe failed with statuscode: 404")),
        (
            "HTTP/1.1 304 Not Modified\r\n\r\n",
            Outcome::Warning("Probe terminated redirects, Response body: ".to_owned()),
        ),
    ] {
        assert_eq!(answered(&[answer]).await.0, expected, "{answer}");
    }
}

#[tokio::test]
async fn a_missing_response_has_the_message_of_the_stock_kubelet() {
    for (answer, expected) in [
        ("", "EOF"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok", "unexpected EOF"),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "malformed chunked encoding"),
        ("SSH-2.0-OpenSSH_9.2\r\n", "malformed HTTP response: invalid HTTP version"),
    ] {
        let (outcome, server) = answered(&[answer]).await;
        let url = format!("http://{}/healthz", server.address);
        assert_eq!(outcome, Outcome::Failure(format!("Get {url:?}: {expected}")), "{answer}");
    }
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let expected = format!("Get \"http://{free}/\": dial tcp {free}: connect: connection refused");
    assert_eq!(get(json!({"port": free.port()})).await, Outcome::Failure(expected));
}

#[tokio::test]
async fn http_probe_has_a_timeout_and_a_response_size_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let Outcome::Failure(failure_text) = get(json!({"port": port})).await else {
        panic!("silence is no health")
    };
    assert!(failure_text.ends_with("(Client.Timeout exceeded while awaiting headers)"), "{failure_text}");

    for head in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        "HTTP/1.1 200 OK\r\nX: ",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let endless = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut sent = 0;
            while stream.write_all(&[b'x'; 4096]).await.is_ok() {
                sent += 4096;
            }
            sent
        });
        let outcome = get(json!({"port": port})).await;
        assert_eq!(outcome == Outcome::Success, !head.contains("X:"), "{outcome:?}");
        let sent = endless.await.unwrap();
        assert!(sent < 32 << 20, "{sent} bytes were taken");
    }
}

#[tokio::test]
async fn http_probe_request_follows_the_manifest() {
    let server = Server::start(&[OK]).await;
    let port = server.port();
    assert_eq!(get(json!({"port": port, "path": "healthz?deep=a b#top"})).await, Outcome::Success);
    assert_eq!(
        server.last_request(),
        format!(
            "GET /healthz?deep=a%20b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: {}\r\n\
             Accept: */*\r\nConnection: close\r\n\r\n",
            *PROBE_USER_AGENT
        )
    );
    let headers = json!([
        {"name": "Host", "value": "shop.example"}, {"name": "X-Probe", "value": "1"}, {"name": "X-Probe", "value": "2"},
        {"name": "accept", "value": ""}, {"name": "user-agent", "value": "me"},
    ]);
    assert_eq!(
        get(json!({"port": port, "host": "localhost", "httpHeaders": headers})).await,
        Outcome::Success
    );
    assert_eq!(
        server.last_request(),
        "GET / HTTP/1.1\r\nHost: shop.example\r\nX-Probe: 1\r\nX-Probe: 2\r\nuser-agent: me\r\nConnection: close\r\n\r\n"
    );
}

#[tokio::test]
async fn impossible_http_probe_returns_no_result() {
    for (action, expected) in [
        (
            json!({"port": "ten"}),
            "the container has no port named \"ten\"; name one of its ports or give a number",
        ),
        (
            json!({"port": 70000}),
            "70000 is not a port; give a number from 1 to 65535 or the name of a container port",
        ),
        (
            json!({"port": 1, "httpHeaders": [{"name": "a b", "value": ""}]}),
            "\"a b\" is not the name of an HTTP header",
        ),
        (
            json!({"port": 1, "httpHeaders": [{"name": "a", "value": "x\r\nHost: y"}]}),
            "the value of the HTTP header \"a\" contains characters that HTTP does not allow",
        ),
    ] {
        assert_eq!(get(action).await, Outcome::Unknown(expected.to_owned()));
    }
    let Outcome::Failure(failure_text) = get(json!({"port": "nine"})).await else {
        panic!("nothing listens on the port")
    };
    assert!(failure_text.contains("127.0.0.1:9/"), "{failure_text}");
}

#[tokio::test]
async fn http_probe_follows_redirects_only_on_the_same_host() {
    let there = "HTTP/1.1 302 Found\r\nLocation: /login?x=1\r\nContent-Length: 0\r\n\r\n";
    let (outcome, server) = answered(&[there, OK]).await;
    assert_eq!(outcome, Outcome::Success);
    assert!(server.last_request().starts_with("GET /login?x=1 HTTP/1.1\r\n"));

    let away = "HTTP/1.1 301 Moved\r\nLocation: http://other.example/\r\nContent-Length: 4\r\n\r\nmore";
    let expected = Outcome::Warning("Probe terminated redirects, Response body: more".to_owned());
    assert_eq!(answered(&[away]).await.0, expected);

    let Outcome::Failure(failure_text) = answered(&[there]).await.0 else { panic!("a loop is no health") };
    assert!(failure_text.ends_with("stopped after 10 redirects"), "{failure_text}");
}

#[tokio::test]
async fn https_probe_does_not_verify_certificates() {
    let certified = rcgen::generate_simple_self_signed(vec!["nobody".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], certified.signing_key.into())
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            stream.write_all(OK.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
        }
    });
    assert_eq!(get(json!({"port": port, "scheme": "HTTPS"})).await, Outcome::Success);
    assert_eq!(get(json!({"port": port, "scheme": "HTTPS", "host": "localhost"})).await, Outcome::Success);

    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = plain.local_addr().unwrap().port();
    let answers = tokio::spawn(async move {
        let (mut stream, _) = plain.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        stream
    });
    let Outcome::Failure(failure_text) = get(json!({"port": port, "scheme": "HTTPS"})).await else {
        panic!()
    };
    assert!(failure_text.ends_with("http: server gave HTTP response to HTTPS client"), "{failure_text}");
    answers.await.unwrap();
}

#[tokio::test]
async fn http_and_tcp_probes_make_a_pod_ready() {
    let server = Server::start(&["HTTP/1.1 503 Later\r\n\r\n", OK]).await;
    let port = server.port();
    let bed = Bed::started(
        Engine::new(&[Does::Hangs]),
        json!({
            "readinessProbe": {"httpGet": {"port": port}, "periodSeconds": 1},
            "livenessProbe": {"tcpSocket": {"port": port}, "initialDelaySeconds": 1, "periodSeconds": 1},
        }),
    );
    bed.probe_result(Readiness, true).await;
    bed.probe_result(Liveness, true).await;
    assert!(bed.events().await.is_empty());
}

#[tokio::test]
async fn probe_waits_for_the_pod_address() {
    let server = Server::start(&[OK]).await;
    let mut bed = Bed::new(
        Engine::new(&[Does::Hangs]),
        json!({"readinessProbe": {"httpGet": {"port": server.port()}, "periodSeconds": 1}}),
    );
    let ip = bed.target.ip.take();
    bed.sync();
    tokio::task::yield_now().await;
    assert!(server.requests.lock().unwrap().is_empty());
    bed.target.ip = ip;
    bed.sync();
    bed.probe_result(Readiness, true).await;
}

#[tokio::test]
async fn http_probe_uses_http2_if_the_manifest_requests_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            assert_eq!(request.uri().authority().unwrap().as_str(), "shop.example");
            assert_eq!(request.headers()["user-agent"], PROBE_USER_AGENT.as_str());
            let status = if request.uri().path() == "/healthz" { 200 } else { 404 };
            let response = http::Response::builder().status(status).body(()).unwrap();
            respond.send_response(response, true).unwrap();
        }
    });
    let headers = json!([{"name": "Host", "value": "shop.example"}]);
    let action = json!({"port": port, "path": "/healthz", "protocol": "HTTP2", "httpHeaders": headers});
    assert_eq!(get(action).await, Outcome::Success);
}
