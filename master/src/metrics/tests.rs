//! Tests of request labels and their cardinality.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::Arc;

use apiserver::registry::Registry as Objects;
use apiserver::storage::{Memory, Store as _, Transaction};
use apiserver::{Catalog, kinds};
use axum::body::Body;
use axum::{Router, middleware};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use tower::ServiceExt as _;

use super::{Measured, Metrics, labels, layer, observe, router};

#[test]
fn request_metrics_have_the_stock_labels() {
    let rows = Catalog::new(kinds::all()).rows();
    for (method, uri, content_type, expected) in [
        ("GET", "/api/v1/pods", "", "LIST  v1 pods  cluster"),
        ("GET", "/api/v1/namespaces/a/pods?limit=500", "", "LIST  v1 pods  namespace"),
        ("GET", "/api/v1/namespaces/a/pods/x", "", "GET  v1 pods  resource"),
        ("GET", "/api/v1/pods?watch=true", "", "WATCH  v1 pods  cluster"),
        ("GET", "/api/v1/pods?watch=false", "", "LIST  v1 pods  cluster"),
        ("POST", "/apis/apps/v1/namespaces/a/deployments", "", "POST apps v1 deployments  namespace"),
        ("PUT", "/api/v1/namespaces/a/pods/x/status", "", "PUT  v1 pods status resource"),
        ("PATCH", "/api/v1/namespaces/a/pods/x", "application/merge-patch+json", "PATCH  v1 pods  resource"),
        ("PATCH", "/api/v1/namespaces/a/pods/x", "application/apply-patch+yaml", "APPLY  v1 pods  resource"),
        ("DELETE", "/api/v1/namespaces/a/pods", "", "DELETECOLLECTION  v1 pods  namespace"),
        ("GET", "/api/v1/namespaces/a/pods/x/exec?command=ls", "", "CONNECT  v1 pods exec resource"),
        ("GET", "/api/v1/namespaces/a", "", "GET  v1 namespaces  resource"),
        ("GET", "/version", "", "GET     "),
        ("GET", "/api/v1/strangers/x/y", "", "GET     "),
        ("GET", "/api/v1/namespaces/a/pods/x/stranger", "", "GET  v1 pods  resource"),
        ("BREW", "/api/v1/pods", "", "OTHER  v1 pods  cluster"),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let (what, _) = labels::of(&method, &uri.parse().unwrap(), content_type, &rows);
        let joined =
            [what.verb, &what.group, &what.version, &what.resource, what.subresource, what.scope].join(" ");
        assert_eq!(joined, expected, "{method} {uri}");
    }
    let (_, dry_run) = labels::of(&Method::POST, &"/api/v1/nodes?dryRun=All".parse().unwrap(), "", &rows);
    assert_eq!(dry_run, "All");
}

proptest! {
    #[test]
    fn line_count_equals_the_number_of_newlines(text in "[\\n\u{0}a-c\u{8a}\u{b}]{0,60}") {
        let expected = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
        prop_assert_eq!(layer::count_lines(text.as_bytes()), expected);
    }

    #[test]
    fn lines_are_counted_as_newline_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let expected = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
        prop_assert_eq!(layer::count_lines(&bytes), expected);
    }
}

#[tokio::test]
async fn requests_and_stored_objects_are_counted() {
    let catalog = Catalog::new(kinds::all());
    let metrics = Metrics::new("v1.36.0", catalog.clone());
    let store = Arc::new(Measured::new(Arc::new(Memory::default()), metrics.clone()));
    store.commit(Transaction::create("/registry/secrets/a/b", "{}".into())).await.unwrap();
    store.get("/registry/secrets/a/b").await.unwrap();
    let objects = Objects::open(store, catalog).await.unwrap();
    let api = Router::new().route(
        "/api/v1/pods",
        axum::routing::get(|| async {
            ([("content-type", "application/json")], Body::new(String::from("{}\n{}\n")))
        }),
    );
    let layered =
        api.merge(router(&metrics, &objects)).layer(middleware::from_fn_with_state(metrics.clone(), observe));
    let send_request = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        layered.clone().oneshot(request).await.unwrap().into_body()
    };
    let text =
        async |body: Body| String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    text(send_request("/api/v1/pods").await).await;
    let watching = send_request("/api/v1/pods?watch=1").await;
    let during = text(send_request("/metrics").await).await;
    text(watching).await;
    text(send_request("/stranger").await).await;
    let after = text(send_request("/metrics").await).await;
    let pods = r#"version="v1",resource="pods",subresource="",scope="cluster",component="apiserver"} "#;
    let has = |text: &str, line: &str| assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    has(&during, &format!(r#"apiserver_longrunning_requests{{verb="WATCH",group="",{pods}1"#));
    has(&after, &format!(r#"apiserver_longrunning_requests{{verb="WATCH",group="",{pods}0"#));
    has(&during, r#"apiserver_current_inflight_requests{request_kind="readOnly"} 1"#);
    has(&after, &format!(r#"apiserver_request_total{{code="200",dry_run="",verb="LIST",group="",{pods}1"#));
    has(&after, &format!(r#"apiserver_request_total{{code="200",dry_run="",verb="WATCH",group="",{pods}1"#));
    has(&after, &format!(r#"apiserver_request_duration_seconds_count{{verb="LIST",group="",{pods}1"#));
    has(&after, r#"apiserver_watch_events_total{group="",version="v1",resource="pods"} 2"#);
    has(&after, r#"apiserver_storage_objects{resource="secrets"} 1"#);
    has(&after, r#"etcd_request_duration_seconds_count{operation="create",group="",resource="secrets"} 1"#);
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
        let line = after.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
        assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
    }
    assert!(!after.contains("stranger"), "{after}");
}
