//! Nesting limit, as a client sees it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::registry::Registry;
use crate::{Api, Catalog, VERSION, kinds, storage};

const PATH: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

/// A kind with arbitrary data, nested to this depth.
fn revision(name: &str, depth: usize) -> String {
    let (open, close) = ("{\"a\":".repeat(depth - 1), "}".repeat(depth - 1));
    let metadata = format!("{{\"name\":\"{name}\"}}");
    format!(
        "{{\"kind\":\"ControllerRevision\",\"apiVersion\":\"apps/v1\",\"metadata\":{metadata},\"revision\":1,\"data\":{open}1{close}}}"
    )
}

#[tokio::test]
async fn lists_serve_objects_of_the_maximum_depth() {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = Registry::open(store, Catalog::new(kinds::all())).await.unwrap();
    let router = Api::writable(registry, vec![Arc::new(NestingLimit)], VERSION).router();
    let send_request = async |method: &str, path: &str, media_type: &str, body: String| -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", media_type);
        let response = router.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        (code, serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap())
    };
    for (name, depth, expected) in [("a", MAX_DEPTH, 201), ("b", MAX_DEPTH + 1, 400), ("c", 127, 400)] {
        let (code, answer) = send_request("POST", PATH, "application/json", revision(name, depth)).await;
        assert_eq!(code, expected, "{depth} {answer}");
        if expected == 400 {
            assert_eq!(answer["reason"], "BadRequest");
            assert!(answer["message"].as_str().unwrap().contains("flatten"), "{answer}");
        }
    }
    let deeper = json!({"metadata": {"annotations": {"a": "b"}}}).to_string();
    let path = format!("{PATH}/a");
    let (code, changed) = send_request("PATCH", &path, "application/merge-patch+json", deeper).await;
    assert_eq!(code, 200, "{changed}");
    let (code, _) = send_request("PUT", &path, "application/json", revision("a", MAX_DEPTH + 2)).await;
    assert_eq!(code, 400);
    let (_, list) = send_request("GET", PATH, "application/json", String::new()).await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}
