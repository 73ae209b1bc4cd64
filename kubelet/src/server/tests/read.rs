//! Read-only endpoints.

use std::time::Duration;

use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio_tungstenite::tungstenite::Message;

use super::bed::{Bed, DEADLINE};

const LOG: &str = "/api/v1/namespaces/shop/pods/web/log";

async fn json(bed: &Bed, path: &str) -> Value {
    let (code, body) = bed.text(path).await;
    assert_eq!(code, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test]
async fn read_api_serves_objects_and_kubelet_endpoints() {
    let bed = Bed::new().await;
    assert_eq!(json(&bed, "/api/v1/namespaces/shop/pods/web").await["metadata"]["namespace"], "shop");
    assert_eq!(json(&bed, "/pods").await["items"][0]["metadata"]["name"], "web");
    let running = json(&bed, "/runningpods/").await;
    assert_eq!(running["items"][0]["spec"]["containers"].as_array().unwrap().len(), 1);
    assert_eq!(json(&bed, "/configz").await["kubeletconfig"]["maxPods"], 110);
    assert_eq!(json(&bed, "/version").await["minor"], "36");
    let answer = bed.get("/metrics").await;
    assert_eq!(answer.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let (_, metrics) = bed.text("/metrics").await;
    for line in [
        "kubelet_running_pods 1",
        "kubelet_running_containers{container_state=\"running\"} 1",
        "kubelet_running_containers{container_state=\"created\"} 1",
        "kubelet_node_name{node=\"n1\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert!(
        metrics
            .lines()
            .any(|line| line.starts_with("process_resident_memory_bytes ") && !line.ends_with(" 0"))
    );
    assert!(metrics.lines().any(|line| line.starts_with("process_cpu_seconds_total ")));
}

/// The messages of a WebSocket until it closes.
async fn messages(bed: &Bed, path: &str, protocol: &'static str) -> Vec<Message> {
    let (mut socket, agreed) = bed.websocket(path, protocol).await.unwrap();
    assert_eq!(agreed, protocol);
    let mut messages = Vec::new();
    while let Some(message) = tokio::time::timeout(DEADLINE, socket.next()).await.unwrap() {
        match message.unwrap() {
            Message::Close(close) => {
                assert_eq!(u16::from(close.unwrap().code), 1000);
                break;
            }
            message => messages.push(message),
        }
    }
    messages
}

#[tokio::test]
async fn logs_and_watches_come_over_a_websocket() {
    let bed = Bed::new().await;
    bed.receives_both_lines().await;
    let path = format!("{LOG}?container=c");
    // Like a stock server: an empty message first, then the data.
    let binary = messages(&bed, &path, "binary.k8s.io").await;
    assert_eq!(binary, ["", "one\n", "two\n"].map(|text| Message::Binary(text.into())));
    let base64 = messages(&bed, &path, "base64.binary.k8s.io").await;
    assert_eq!(base64, ["", "b25lCg==", "dHdvCg=="].map(|text| Message::Text(text.into())));
    assert_eq!(bed.websocket(&path, "v4.channel.k8s.io").await.err(), Some(403));
    let missing = bed.websocket("/api/v1/namespaces/shop/pods/none/log", "binary.k8s.io").await;
    assert_eq!(missing.err(), Some(404), "a failure is not upgraded");

    let events = messages(&bed, "/api/v1/pods?watch=true&timeoutSeconds=1", "json").await;
    let [Message::Text(event)] = &events[..] else { panic!("{events:?}") };
    let event: Value = serde_json::from_str(event).unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&"ADDED".into(), &"web".into()));
}

#[tokio::test]
async fn healthz_names_the_stuck_loop() {
    let bed = Bed::new().await;
    bed.health.beat("observe", Duration::from_secs(60));
    assert_eq!(bed.text("/healthz").await, (200, "ok".to_owned()));
    bed.health.beat("workers", Duration::ZERO);
    let (code, body) = bed.text("/healthz").await;
    assert_eq!(code, 500);
    assert!(body.contains("[-]workers failed") && !body.contains("observe"), "{body}");
}

#[tokio::test]
async fn logs() {
    let bed = Bed::new().await;
    for (query, expected) in [
        ("?container=c", "one\ntwo\n"),
        ("?container=c&tailLines=1", "two\n"),
        ("?container=c&limitBytes=5", "one\nt"),
        ("?container=c&stream=Stderr", ""),
    ] {
        assert_eq!(bed.text(&format!("{LOG}{query}")).await, (200, expected.to_owned()), "{query}");
    }
    assert_eq!(bed.text("/containerLogs/shop/web/c?tail=all").await.1, "one\ntwo\n");
    for (path, code, message) in [
        (LOG.to_owned(), 400, "a container name must be specified for pod web, choose one of: [c d]"),
        (
            format!("{LOG}?container=d"),
            400,
            "container \"d\" in pod \"web\" is waiting to start: ContainerCreating",
        ),
        (
            format!("{LOG}?container=c&previous=true"),
            400,
            "previous terminated container \"c\" in pod \"web\" not found",
        ),
        (format!("{LOG}?container=x"), 400, "container x is not valid for pod web"),
        ("/api/v1/namespaces/shop/pods/none/log".to_owned(), 404, "pods \"none\" not found"),
    ] {
        assert_eq!(bed.refusal(&path).await, (code, message.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn followed_log_streams_and_ends_with_its_container() {
    let bed = Bed::new().await;
    let mut body = bed.get(&format!("{LOG}?container=c&follow=true")).await.into_body();
    let mut read = String::new();
    let mut next = async || tokio::time::timeout(DEADLINE, body.frame()).await.unwrap();
    while read != "one\ntwo\n" {
        let data = next().await.unwrap().unwrap().into_data().unwrap();
        read.push_str(std::str::from_utf8(&data).unwrap());
    }
    bed.fake.exit(&bed.id, 0);
    while let Some(frame) = next().await {
        assert!(frame.unwrap().into_data().unwrap().is_empty());
    }
}

#[tokio::test]
async fn requests_report_an_engine_that_does_not_answer() {
    let bed = Bed::new().await;
    bed.fake.set_up(false);
    let (code, message) = bed.refusal(&format!("{LOG}?container=c")).await;
    assert_eq!(code, 503);
    assert!(message.contains("engine does not answer"), "{message}");
}
