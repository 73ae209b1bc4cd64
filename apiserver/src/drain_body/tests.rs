//! Clients that send the whole body before they read the response, as most do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::post;
use http::Request;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// More than the buffers of two sockets.
const LONG: usize = 11 << 20;
const DEADLINE: Duration = Duration::from_secs(20);

/// A router that ignores the body, one that stops early, and one that reads it.
fn router() -> Router {
    Router::new()
        .route("/none", post(|| async { "no" }))
        .route(
            "/some",
            post(|body: Body| async { axum::body::to_bytes(body, 10).await.map_or("no", |_| "yes") }),
        )
        .route(
            "/all",
            post(|body: Body| async { axum::body::to_bytes(body, LONG).await.map_or("no", |_| "yes") }),
        )
}

#[tokio::test]
async fn early_response_reaches_a_client_that_is_still_sending() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = watch::channel(false);
    let server = tokio::spawn(crate::serve(listener, router(), stopped));
    for (path, expected_body) in [("/none", "no"), ("/some", "no"), ("/all", "yes"), ("/nowhere", "")] {
        let response = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: {LONG}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(&vec![b' '; LONG]).await.unwrap();
            // The connection is still usable.
            stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let answer = tokio::time::timeout(DEADLINE, response).await.unwrap();
        let (first, second) = answer.rsplit_once("HTTP/1.1 ").unwrap();
        assert!(
            first.ends_with(&format!("\r\n\r\n{expected_body}")) && second.starts_with("404"),
            "{path}: {answer}"
        );
    }
    stop.send(true).unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn server_awaits_no_body_after_expect_continue() {
    let response = Request::post("/none").header("expect", "100-continue");
    // An endless body is not awaited.
    let endless = Body::from_stream(futures_util::stream::pending::<Result<&str, std::io::Error>>());
    let answer = super::serve(router(), response.body(endless).unwrap());
    assert_eq!(tokio::time::timeout(DEADLINE, answer).await.unwrap().unwrap().status(), 200);
}
