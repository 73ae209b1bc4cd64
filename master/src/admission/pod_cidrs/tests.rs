//! Pod CIDR allocation by several masters with one store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;

use apiserver::storage::{Limits, Memory};
use apiserver::{Api, Catalog, VERSION, kinds};
use axum::Router;
use axum::body::{Body, to_bytes};
use futures_util::future::join_all;
use http::{Request, header};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

const ALL: &str = "/api/v1/nodes";

/// Masters with one store that allocate a /24 per node from this CIDR.
async fn masters(count: usize, range: &str) -> Vec<Router> {
    let store = Arc::new(Memory::new(Limits::default()));
    let mut masters = Vec::new();
    for _ in 0..count {
        let registry = Registry::open(store.clone(), Catalog::new(kinds::all())).await.unwrap();
        let range = ClusterCidr { network: range.parse().unwrap(), node_mask_size: 24 };
        let pass =
            PodCidrAllocator::new(registry.clone(), vec![range], vec!["10.244.0.0/24".parse().unwrap()]);
        masters.push(Api::writable(registry, vec![Arc::new(pass)], VERSION).router());
    }
    masters
}

async fn send_request(server: &Router, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
    let request = request.body(Body::from(body.to_string())).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    (code, serde_json::from_slice(&to_bytes(response.into_body(), usize::MAX).await.unwrap()).unwrap())
}

/// Creates a Node that requests a CIDR, or none. Returns the assigned one.
async fn make(server: &Router, name: &str, claim: &str) -> String {
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    if !claim.is_empty() {
        node["spec"] = json!({"podCIDR": claim, "podCIDRs": [claim]});
    }
    let (code, made) = send_request(server, "POST", ALL, &node).await;
    assert_eq!(code, 201, "{made}");
    let range = made["spec"]["podCIDR"].as_str().unwrap_or_default().to_owned();
    let all = if range.is_empty() { Value::Null } else { json!([range]) };
    assert_eq!(made["spec"]["podCIDRs"], all);
    range
}

#[tokio::test]
async fn node_gets_a_pod_cidr_at_creation_and_keeps_it() {
    let server = &masters(1, "10.244.0.0/22").await[0];
    assert_eq!(make(server, "a", "10.244.2.0/24").await, "10.244.2.0/24");
    assert_eq!(make(server, "b", "10.244.2.0/24").await, "10.244.3.0/24");
    assert_eq!(make(server, "c", "192.168.0.0/24").await, "10.244.1.0/24");
    // CIDRs in use for services are not allocated, and no other one is left.
    assert_eq!(make(server, "d", "10.244.0.0/24").await, "");
    let change = json!({"spec": {"podCIDR": "10.244.9.0/24", "podCIDRs": ["10.244.9.0/24"]}});
    let (code, refused) = send_request(server, "PATCH", &format!("{ALL}/a"), &change).await;
    assert_eq!(code, 422, "{refused}");
    // An invalid CIDR for a Node without one is rejected, not silently ignored.
    for (range, why) in [
        ("10.9.0.0/24", "is not within 10.244.0.0/22"),
        ("10.244.2.0/23", "is larger than the /24 of 10.244.0.0/22"),
        ("10.244.2.0/25", "overlaps 10.244.2.0/24, which another node"),
    ] {
        let change = json!({"spec": {"podCIDR": range}});
        let (code, refused) = send_request(server, "PATCH", &format!("{ALL}/d"), &change).await;
        let message = refused["message"].as_str().unwrap();
        assert!(
            code == 422 && message.contains(&format!("spec.podCIDR: Invalid value: \"{range}\": {why}")),
            "{refused}"
        );
    }
    // A deleted Node releases its CIDR to the next Node that is written.
    assert_eq!(send_request(server, "DELETE", &format!("{ALL}/b"), &Value::Null).await.0, 200);
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    let (_, d) = send_request(server, "PATCH", &format!("{ALL}/d"), &labels).await;
    assert_eq!(d["spec"]["podCIDRs"], json!(["10.244.3.0/24"]));
    let claim =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "e"}, "spec": {"podCIDR": "x"}});
    assert_eq!(send_request(server, "POST", ALL, &claim).await.0, 422);
}

#[tokio::test]
async fn masters_that_share_a_store_allocate_distinct_pod_cidrs() {
    let masters = masters(4, "10.244.0.0/16").await;
    // All nodes request the same CIDR at once, and some names are created at two masters.
    let makes = (0..48).map(|at| {
        let (master, name) = (&masters[at % masters.len()], format!("n{}", at / 2));
        async move {
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"podCIDR": "10.244.7.0/24"},
            });
            send_request(master, "POST", ALL, &node).await.0
        }
    });
    let codes = join_all(makes).await;
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), 24, "{codes:?}");
    let (_, list) = send_request(&masters[0], "GET", ALL, &Value::Null).await;
    let ranges =
        list["items"].as_array().unwrap().iter().map(|node| node["spec"]["podCIDR"].as_str().unwrap());
    let ranges: BTreeSet<&str> = ranges.collect();
    assert!(ranges.len() == 24 && ranges.contains("10.244.7.0/24"), "{ranges:?}");
}

#[tokio::test]
async fn dry_run_reserves_no_pod_cidr() {
    let server = &masters(1, "10.244.0.0/16").await[0];
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}});
    let (code, made) = send_request(server, "POST", &format!("{ALL}?dryRun=All"), &node).await;
    assert_eq!((code, &made["spec"]["podCIDR"]), (201, &json!("10.244.1.0/24")));
    let path = format!("/api/v1/namespaces/{}/configmaps/{}", reservations::NAMESPACE, reservations::NAME);
    assert_eq!(send_request(server, "GET", &path, &Value::Null).await.0, 404);
    make(server, "b", "").await;
    make(server, "c", "").await;
    let (_, kept) = send_request(server, "GET", &path, &Value::Null).await;
    let text = kept["data"]["promises"].as_str().unwrap();
    assert!(text.contains("\"c\"") && !text.contains("\"b\""), "{text}");
}
