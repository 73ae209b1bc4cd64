//! Lists from a server with large objects, and several servers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Query, State};
use axum::routing::get;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// Limits and continue tokens of the requested pages.
type Requests = Arc<Mutex<Vec<(usize, String)>>>;

/// The response to a list query: `large` if the limit exceeds `fits` objects.
fn page(fits: usize, large: &Bytes, requests: &Requests, query: &[(String, String)]) -> Bytes {
    let of = |wanted: &str| query.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
    let limit: usize = of("limit").unwrap().parse().unwrap();
    let token = of("continue").unwrap_or_default();
    requests.lock().unwrap().push((limit, token.clone()));
    if limit > fits {
        return large.clone();
    }
    let next = if token.is_empty() { "second" } else { "" };
    let page = json!({
        "metadata": {"resourceVersion": "7", "continue": next},
        "items": [{"metadata": {"name": format!("of-{token}")}}],
    });
    Bytes::from(page.to_string())
}

const MAX_RESPONSE_BYTES: usize = 64 * 1024;
const PAGE_SIZE: usize = 500;

/// A server whose pages exceed the client's size limit if they have more than `fits` objects.
fn server(fits: usize) -> (Client, Requests) {
    let requests = Requests::default();
    let large = Bytes::from(vec![b' '; MAX_RESPONSE_BYTES + 1]);
    let list = move |State(requests): State<Requests>, Query(query): Query<Vec<(String, String)>>| {
        let large = large.clone();
        async move { page(fits, &large, &requests, &query) }
    };
    let router = Router::new().route("/api/v1/configmaps", get(list)).with_state(requests.clone());
    let limits = Limits { max_response_bytes: MAX_RESPONSE_BYTES, page_size: PAGE_SIZE, ..Limits::default() };
    (Client::in_process(router).with_limits(limits), requests)
}

#[tokio::test]
async fn a_page_that_is_too_large_is_read_again_with_half_as_many_objects() {
    let (client, requests) = server(PAGE_SIZE / 4);
    let mut names = Vec::new();
    let name = |object: Json| object["metadata"]["name"].as_str().unwrap().to_owned();
    let version = client.list(&Kind::CONFIG_MAP, "", |object| names.push(name(object))).await.unwrap();
    assert_eq!((version.as_str(), names), ("7", vec!["of-".to_owned(), "of-second".to_owned()]));
    let quarter = PAGE_SIZE / 4;
    let expected = [(PAGE_SIZE, ""), (PAGE_SIZE / 2, ""), (quarter, ""), (quarter, "second")];
    let expected = expected.map(|(limit, token)| (limit, token.to_owned()));
    assert_eq!(*requests.lock().unwrap(), expected);
}

#[tokio::test]
async fn client_reports_an_object_above_the_size_limit() {
    let (client, requests) = server(0);
    let error = client.list(&Kind::CONFIG_MAP, "", |_| {}).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { bytes: MAX_RESPONSE_BYTES, .. }), "{error:?}");
    assert_eq!(requests.lock().unwrap().last(), Some(&(1, String::new())));
}

/// The URL of a port that nothing listens on.
async fn closed() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// The URL of a server that answers every request with that status and body.
async fn answering(code: StatusCode, body: Value) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = move || async move { (code, [("Retry-After", "7")], body.to_string()) };
    tokio::spawn(axum::serve(listener, Router::new().fallback(answer)).into_future());
    url
}

fn remote(servers: &[String]) -> Client {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    Client::remote(transport::http(tls, 1).unwrap(), servers)
}

#[tokio::test]
async fn client_skips_an_unresponsive_server_and_remembers_the_working_one() {
    let node = json!({"metadata": {"name": "a"}});
    let (first, second) = (closed().await, answering(StatusCode::OK, node).await);
    let client = remote(&[first.clone(), second.clone()]);
    assert_eq!(client.server(), first);
    assert_eq!(client.get(&Kind::NODE, "", "a").await.unwrap()["metadata"]["name"], "a");
    assert_eq!(client.server(), second);
    let error = remote(&[first]).get(&Kind::NODE, "", "a").await.unwrap_err();
    assert!(
        error.is_server_unavailable() && error.root_cause().contains("refused"),
        "{}",
        error.full_message()
    );
}

#[tokio::test]
async fn rejection_is_returned_with_its_reason_and_code() {
    let details = json!({"name": "", "causes": [{"reason": "ResourceVersionTooLarge"}]});
    let status = json!({"kind": "Status", "reason": "Timeout", "message": "ahead", "details": details});
    let rejecting = answering(StatusCode::GATEWAY_TIMEOUT, status).await;
    let other = answering(StatusCode::OK, json!({})).await;
    let error = remote(&[rejecting, other]).get(&Kind::NODE, "", "a").await.unwrap_err();
    assert!(error.has_code(504) && error.is_expired(), "{error:?}");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert_eq!(error.to_string(), "504 Timeout: ahead");
    let plain = answering(StatusCode::GATEWAY_TIMEOUT, json!("no status")).await;
    assert!(!remote(&[plain]).get(&Kind::NODE, "", "a").await.unwrap_err().is_expired());
}

#[test]
fn only_unreserved_characters_are_not_encoded() {
    assert_eq!(percent_encoded("a-Z_0.9~"), "a-Z_0.9~");
    assert_eq!(percent_encoded("a=b/c +ä"), "a%3Db%2Fc%20%2B%C3%A4");
}

#[tokio::test]
async fn a_response_larger_than_the_buffers_arrives_over_one_connection() {
    let body: Bytes = (0..1_000_000_u32).map(|n| n as u8).collect();
    let sent = body.clone();
    let router = Router::new().route("/large", get(async || sent));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let received = async {
        let stream = TcpStream::connect(address).await.unwrap();
        let request = Request::get("/large").header("host", "server").body(Bytes::new()).unwrap();
        let response = transport::send_on(stream, request).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    };
    let received = tokio::select! {
        received = received => received,
        served = axum::serve(listener, router) => panic!("{served:?}"),
    };
    assert!(received == body, "{} bytes arrived", received.len());
}
