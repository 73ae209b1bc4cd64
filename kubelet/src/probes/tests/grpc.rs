//! gRPC probes, against a server built with the same HTTP/2 library.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use k8s_openapi::api::core::v1::GRPCAction;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use crate::probes::check::Outcome;
use crate::probes::grpc::Health;

/// Response of the server.
#[derive(Clone, Copy)]
enum Reply {
    /// A message and `grpc-status: 0`.
    Message(&'static [u8]),
    /// No message, a code and a text.
    Code(&'static str, &'static str),
    /// This HTTP status.
    Http(u16),
    Nothing,
}

/// Serves one call and keeps its body.
async fn server(reply: Reply, tls: bool) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = Arc::new(Mutex::new(Vec::new()));
    let kept = received.clone();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        if tls {
            let certified = rcgen::generate_simple_self_signed(vec!["nobody".to_owned()]).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let mut config = rustls::ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certified.cert.der().clone()], certified.signing_key.into())
                .unwrap();
            config.alpn_protocols = vec![b"h2".to_vec()];
            let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
            serve(acceptor.accept(stream).await.unwrap(), reply, kept).await;
        } else {
            serve(stream, reply, kept).await;
        }
    });
    (port, received)
}

async fn serve<IO>(io: IO, reply: Reply, received: Arc<Mutex<Vec<u8>>>)
where
    IO: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut connection = h2::server::handshake(io).await.unwrap();
    while let Some(call) = connection.accept().await {
        let Ok((request, mut respond)) = call else { return };
        assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
        assert_eq!(request.headers()["content-type"], "application/grpc");
        let mut body = request.into_body();
        let received = received.clone();
        tokio::spawn(async move {
            while let Some(data) = body.data().await {
                received.lock().await.extend_from_slice(&data.unwrap());
            }
            let mut trailers = HeaderMap::new();
            match reply {
                Reply::Message(message) => {
                    let mut stream = respond.send_response(Response::new(()), false).unwrap();
                    stream.send_data(Bytes::from_static(message), false).unwrap();
                    trailers.insert("grpc-status", "0".parse().unwrap());
                    stream.send_trailers(trailers).unwrap();
                }
                Reply::Code(code, text) => {
                    let response =
                        Response::builder().header("grpc-status", code).header("grpc-message", text);
                    respond.send_response(response.body(()).unwrap(), true).unwrap();
                }
                Reply::Http(status) => {
                    let response = Response::builder().status(status).body(()).unwrap();
                    respond.send_response(response, true).unwrap();
                }
                Reply::Nothing => std::future::pending().await,
            }
        });
    }
}

async fn check(port: u16, service: Option<&str>, mode: Option<&str>) -> Outcome {
    let action =
        GRPCAction { port: port.into(), service: service.map(str::to_owned), mode: mode.map(str::to_owned) };
    Health::new(&action, "127.0.0.1".parse().unwrap()).unwrap().check(Duration::from_secs(1)).await
}

#[tokio::test]
async fn grpc_probe_succeeds_only_if_serving() {
    let failure = |text: &str| Outcome::Failure(text.to_owned());
    for (reply, expected) in [
        (Reply::Message(&[0, 0, 0, 0, 2, 8, 1]), Outcome::Success),
        (
            Reply::Message(&[0, 0, 0, 0, 2, 8, 2]),
            failure("service unhealthy (responded with \"NOT_SERVING\")"),
        ),
        (Reply::Message(&[0, 0, 0, 0, 0]), failure("service unhealthy (responded with \"UNKNOWN\")")),
        (
            Reply::Message(&[0, 0, 0, 0, 9, 8]),
            failure("error: health rpc probe failed: the answer is not a HealthCheckResponse"),
        ),
        (
            Reply::Code("12", "unknown%20service"),
            failure(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service",
            ),
        ),
        (
            Reply::Code("5", "who?"),
            failure("error: health rpc probe failed: rpc error: code = NotFound desc = who?"),
        ),
        (
            Reply::Http(502),
            failure(
                "error: health rpc probe failed: rpc error: code = Unavailable desc = the server answered with HTTP \
                 status 502, which no gRPC server does",
            ),
        ),
        (Reply::Nothing, failure("timeout: health rpc did not complete within 1s")),
    ] {
        let (port, _) = server(reply, false).await;
        assert_eq!(check(port, None, None).await, expected);
    }
}

#[tokio::test]
async fn grpc_probe_sends_the_service_and_does_not_verify_tls() {
    let (port, received) = server(Reply::Message(&[0, 0, 0, 0, 2, 8, 1]), true).await;
    assert_eq!(check(port, Some("shop"), Some("TLS")).await, Outcome::Success);
    assert_eq!(*received.lock().await, b"\0\0\0\0\x06\x0a\x04shop");
}

#[tokio::test]
async fn grpc_probe_fails_without_a_listener() {
    let Outcome::Failure(failure_text) = check(1, None, None).await else {
        panic!("nothing listens on the port")
    };
    let dial = "dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!(failure_text, format!("error: failed to connect service at \"127.0.0.1:1\": {dial}"));
}
