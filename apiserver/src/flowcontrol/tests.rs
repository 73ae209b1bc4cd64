//! Concurrency limits and timeouts.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use axum::body::to_bytes;
use axum::routing::any;
use futures_util::{FutureExt as _, StreamExt as _};
use http::{Method, StatusCode, header};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::*;

const PODS: &str = "/api/v1/namespaces/default/pods";
const WATCH: &str = "/api/v1/namespaces/default/pods?watch=true";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a";
const LIMITS: Limits =
    Limits { read_only: 2, mutating: 1, heartbeat: 1, long_running: 2, timeout: Duration::from_secs(60) };

/// Handlers wait for permission to respond. `/large` returns a large body; watches return a first line.
struct Server {
    router: Router,
    open: watch::Sender<bool>,
}

impl Server {
    fn new() -> Self {
        let (open, opened) = watch::channel(false);
        let handler = move |request: Request<Body>| {
            let mut opened = opened.clone();
            async move {
                let query = request.uri().query().unwrap_or_default();
                if query.contains("refused") {
                    return Status::new(StatusCode::FORBIDDEN, "Forbidden", "no").into_response();
                }
                if query.contains("watch") {
                    let first = futures_util::stream::once(async { Ok::<_, axum::Error>("{}\n") });
                    return Body::from_stream(first.chain(futures_util::stream::pending())).into_response();
                }
                if request.uri().path() == "/large" {
                    return Body::from(vec![b'x'; 1_000_000]).into_response();
                }
                if request.uri().path() == "/unmeasured" {
                    let end = query.contains("broken").then(|| Err(io::Error::other("broken")));
                    let pieces = (0..10).map(|_| Ok(vec![b'x'; 100_000])).chain(end);
                    return Body::from_stream(stream::iter(pieces)).into_response();
                }
                let _ = opened.wait_for(|is_open| *is_open).await;
                Body::from("{}").into_response()
            }
        };
        let router = limit_in_flight(Router::new().fallback(any(handler)), LIMITS);
        Self { router, open }
    }

    /// A request in flight, or `None` if it gets no immediate response.
    fn send_request(
        &self,
        method: Method,
        uri: &str,
        groups: &[&str],
    ) -> impl Future<Output = Response> + Unpin {
        let who = Identity::authenticated("jane", groups.iter().map(|group| (*group).to_owned()));
        let request = Request::builder().method(method).uri(uri).extension(who).body(Body::empty()).unwrap();
        Box::pin(self.router.clone().oneshot(request).map(Result::unwrap))
    }
}

async fn status(response: Response) -> (u16, Option<String>, Value) {
    let retry = response.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
    let code = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (code, retry, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// Advances the paused clock.
async fn passes(time: Duration) {
    assert!(timeout(time, std::future::pending::<()>()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn requests_over_the_limit_are_queued_then_rejected_with_retry_after() {
    let server = Server::new();
    let mut under_way = Vec::new();
    for (method, most) in [(Method::GET, 2), (Method::POST, 1)] {
        for _ in 0..most {
            let mut pending_response = server.send_request(method.clone(), PODS, &[]);
            assert!((&mut pending_response).now_or_never().is_none());
            under_way.push(pending_response);
        }
        let begun = tokio::time::Instant::now();
        let (code, retry, response_body) = status(server.send_request(method, PODS, &[]).await).await;
        assert_eq!(begun.elapsed(), LIMITS.timeout / QUEUE_FRACTION);
        assert_eq!((code, retry.as_deref()), (429, Some("1")));
        assert_eq!(
            (&response_body["kind"], &response_body["reason"]),
            (&"Status".into(), &"TooManyRequests".into())
        );
        assert_eq!(response_body["details"]["retryAfterSeconds"], 1);
    }
    // Exempt requests are not counted.
    for (uri, groups) in [(PODS, ["system:masters"].as_slice()), ("/livez", &[]), ("/readyz/etcd", &[])] {
        assert!(
            server.send_request(Method::GET, uri, groups).now_or_never().is_none(),
            "{uri} is on its way"
        );
    }
    server.open.send_replace(true);
    for pending_response in under_way {
        assert_eq!(pending_response.await.status(), 200);
    }
    assert_eq!(server.send_request(Method::POST, PODS, &[]).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_free_seat_goes_to_a_queued_request_and_no_user_fills_the_queue() {
    let server = Server::new();
    let mut all: Vec<_> = (0..201).map(|_| server.send_request(Method::POST, PODS, &[])).collect();
    for pending_response in &mut all {
        assert!(pending_response.now_or_never().is_none());
    }
    let (code, _, response_body) = status(server.send_request(Method::POST, PODS, &[]).await).await;
    assert_eq!(code, 429);
    assert!(
        response_body["message"].as_str().unwrap().contains("200 requests of \"jane\" are waiting"),
        "{response_body}"
    );
    server.open.send_replace(true);
    for pending_response in all {
        assert_eq!(pending_response.await.status(), 200);
    }
}

#[tokio::test]
async fn node_heartbeats_have_their_own_seats() {
    let server = Server::new();
    let node = ["system:nodes"].as_slice();
    let mut mutating = server.send_request(Method::POST, PODS, node);
    let mut waiting = server.send_request(Method::POST, PODS, node);
    assert!((&mut mutating).now_or_never().is_none() && (&mut waiting).now_or_never().is_none());
    let is_let_in = |uri: &str, groups: &[&str]| {
        // An admitted request reaches the handler, which rejects it.
        server
            .send_request(Method::PATCH, &format!("{uri}?fieldManager=refused"), groups)
            .now_or_never()
            .is_some()
    };
    assert!(is_let_in(LEASE, node) && is_let_in("/api/v1/nodes/a/status", node));
    let read_only: Vec<_> = (0..2)
        .map(|_| {
            let mut pending_response = server.send_request(Method::GET, PODS, node);
            assert!((&mut pending_response).now_or_never().is_none());
            pending_response
        })
        .collect();
    assert!(server.send_request(Method::GET, "/api/v1/nodes/a?refused", node).now_or_never().is_some());
    assert!(server.send_request(Method::GET, "/api/v1/nodes?refused", node).now_or_never().is_none());
    drop(read_only);
    assert!(!is_let_in(LEASE, &[]), "other users have no such seat");
    assert!(!is_let_in("/api/v1/namespaces/default/pods/a/status", node));
}

#[tokio::test(start_paused = true)]
async fn watches_have_their_own_limit_and_no_timeout() {
    let server = Server::new();
    let mut first = server.send_request(Method::GET, WATCH, &[]).await.into_body().into_data_stream();
    let second = server.send_request(Method::GET, WATCH, &[]).await;
    assert_eq!(status(server.send_request(Method::GET, WATCH, &[]).await).await.0, 429);
    passes(100 * LIMITS.timeout).await;
    assert!(first.next().await.unwrap().is_ok());
    drop(second);
    assert_eq!(server.send_request(Method::GET, WATCH, &[]).await.status(), 200);
}

#[tokio::test]
async fn a_rejected_watch_frees_its_seat_though_the_client_does_not_read() {
    let server = Server::new();
    let refused = format!("{WATCH}&labelSelector=refused");
    let mut unread = Vec::new();
    for _ in 0..2 * LIMITS.long_running {
        unread.push(server.send_request(Method::GET, &refused, &[]).await);
    }
    assert!(unread.iter().all(|answer| answer.status() == 403));
    assert_eq!(server.send_request(Method::GET, WATCH, &[]).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn requests_time_out_after_their_deadline() {
    let server = Server::new();
    for (query, seconds) in [("", 60), ("?timeout=5s", 5), ("?timeout=1h", 60), ("?timeout=0s", 60)] {
        let begun = tokio::time::Instant::now();
        let answer = server.send_request(Method::GET, &format!("{PODS}{query}"), &[]).await;
        let (code, _, response_body) = status(answer).await;
        assert_eq!(
            (code, begun.elapsed().as_secs(), &response_body["reason"]),
            (504, seconds, &"Timeout".into())
        );
    }
    let wrong = server.send_request(Method::GET, &format!("{PODS}?timeout=soon"), &[]).await;
    assert_eq!(status(wrong).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn a_large_response_keeps_its_seat_until_it_is_read_or_the_client_stops_reading() {
    let server = Server::new();
    let held: Vec<_> = [
        server.send_request(Method::GET, "/large", &[]).await,
        server.send_request(Method::GET, "/large", &[]).await,
    ]
    .into();
    assert_eq!(server.send_request(Method::GET, "/large", &[]).await.status(), 429);
    let length = held[0].headers()[header::CONTENT_LENGTH].clone();
    assert_eq!(length, "1000000");
    for (at, answer) in held.into_iter().enumerate() {
        if at == 0 {
            assert_eq!(to_bytes(answer.into_body(), usize::MAX).await.unwrap().len(), 1_000_000);
        } else {
            passes(2 * LIMITS.timeout).await;
            assert_eq!(server.send_request(Method::GET, "/large", &[]).await.status(), 200);
            let short = to_bytes(answer.into_body(), usize::MAX).await;
            assert!(short.is_ok_and(|bytes| bytes.len() < 1_000_000), "it breaks off before its length");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn truncated_response_without_a_length_ends_with_an_error() {
    let server = Server::new();
    let whole = server.send_request(Method::GET, "/unmeasured", &[]).await;
    assert_eq!(to_bytes(whole.into_body(), usize::MAX).await.unwrap().len(), 1_000_000);
    let broken = server.send_request(Method::GET, "/unmeasured?broken", &[]).await;
    assert!(to_bytes(broken.into_body(), usize::MAX).await.is_err(), "the body breaks off");
    let unread = server.send_request(Method::GET, "/unmeasured", &[]).await;
    passes(2 * LIMITS.timeout).await;
    assert!(to_bytes(unread.into_body(), usize::MAX).await.is_err(), "the client did not read in time");
}

#[tokio::test(start_paused = true)]
async fn unauthenticated_token_has_its_own_share() {
    let server = Server::new();
    let send_request = |token: Option<&str>| {
        let mut request = Request::builder().method(Method::POST).uri(PODS);
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, token);
        }
        let request = request.extension(Identity::anonymous()).body(Body::empty()).unwrap();
        Box::pin(server.router.clone().oneshot(request).map(Result::unwrap))
    };
    // One is running, the others wait.
    let mut all: Vec<_> = (0..51).map(|_| send_request(Some("Bearer a"))).collect();
    for pending_response in &mut all {
        assert!(pending_response.now_or_never().is_none());
    }
    assert_eq!(send_request(Some("Bearer a")).await.status(), 429);
    let others = [send_request(Some("Bearer b")), send_request(None)];
    server.open.send_replace(true);
    for pending_response in all.into_iter().chain(others) {
        assert_eq!(pending_response.await.status(), 200);
    }
}

#[test]
fn requests_are_classified_by_method_and_path() {
    for (method, uri, class) in [
        ("GET", PODS, RequestClass::ReadOnly),
        ("HEAD", "/api/v1/nodes/a", RequestClass::ReadOnly),
        ("GET", "/apis", RequestClass::ReadOnly),
        ("GET", "/apis/%ff/x/y", RequestClass::ReadOnly),
        ("POST", PODS, RequestClass::Mutating),
        ("PATCH", "/api/v1/nodes/a/status", RequestClass::Mutating),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", RequestClass::Mutating),
        ("GET", WATCH, RequestClass::LongRunning),
        ("GET", "/api/v1/pods?watch=0", RequestClass::ReadOnly),
        ("GET", "/api/v1/namespaces/a/pods/b/log?follow=true", RequestClass::LongRunning),
        ("POST", "/api/v1/namespaces/a/pods/b/exec?command=ls", RequestClass::LongRunning),
        ("GET", "/version?watch=true", RequestClass::ReadOnly),
        ("GET", "/livez", RequestClass::Health),
        ("GET", "/readyz/ping?verbose", RequestClass::Health),
        ("GET", "/livezzz", RequestClass::ReadOnly),
    ] {
        let method = method.parse().unwrap();
        assert_eq!(RequestClass::of(&method, &uri.parse().unwrap(), None), class, "{method} {uri}");
    }
    let node = Identity::authenticated("system:node:a", ["system:nodes".to_owned()]);
    let scheduler = Identity::authenticated("system:kube-scheduler", []);
    let leader = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a";
    for (who, method, uri, class) in [
        (&node, "POST", "/api/v1/nodes", RequestClass::Heartbeat),
        (&node, "GET", "/api/v1/nodes/a", RequestClass::Heartbeat),
        (&node, "PATCH", "/api/v1/nodes/a/status", RequestClass::Heartbeat),
        (&node, "GET", "/api/v1/nodes/a/proxy", RequestClass::LongRunning),
        (&node, "GET", "/api/v1/nodes", RequestClass::ReadOnly),
        (&node, "GET", "/api/v1/nodes?watch=true", RequestClass::LongRunning),
        (&node, "PUT", LEASE, RequestClass::Heartbeat),
        (&node, "PUT", leader, RequestClass::Mutating),
        (&scheduler, "PUT", leader, RequestClass::Heartbeat),
        (&scheduler, "GET", leader, RequestClass::Heartbeat),
        (&scheduler, "PUT", LEASE, RequestClass::Mutating),
    ] {
        let method = method.parse().unwrap();
        assert_eq!(
            RequestClass::of(&method, &uri.parse().unwrap(), Some(who)),
            class,
            "{} {method} {uri}",
            who.user
        );
    }
}
