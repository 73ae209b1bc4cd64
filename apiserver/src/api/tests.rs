//! HTTP requests and their responses.
#![allow(clippy::unwrap_used, reason = "tests")]

use axum::Router;
use axum::body::Body;
use futures_util::StreamExt as _;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use tower::ServiceExt as _;

use super::Api;
use crate::VERSION;
use crate::catalog::Catalog;
use crate::resource::{Field, Resource, Source, Subresource};
use crate::watch_cache::{Draft, WatchCache};

const FIELDS: &[Field] = &[Field::new("status.phase", Source::Path)];
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

fn resources() -> [Resource; 2] {
    let log = Subresource::elsewhere("log", ("", "v1", "Pod"), &["get"]);
    let pods = Resource::new("", "v1", "Pod", "pods", "pod").short(&["po"]).in_all().part(log);
    let deployments = Resource::new("apps", "v1", "Deployment", "deployments", "deployment");
    [
        pods.verbs(&["get", "list", "watch"]).fields(FIELDS).owner(|_| "it belongs to a file".to_owned()),
        deployments.short(&["deploy"]).verbs(&["get"]).owner(|_| "it belongs to nobody".to_owned()),
    ]
}

fn pod(namespace: &str, name: &str, app: &str, phase: &str) -> Draft {
    let object = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": app}},
        "status": {"phase": phase},
    });
    Draft::new(object.as_object().unwrap_or(&Map::new()), &resources()[0].fields)
}

/// Three pods with revisions 101 to 103.
fn world() -> (WatchCache, Router) {
    let store = WatchCache::new(100);
    store.put("pods", &pod("a", "x", "web", "Running"));
    store.put("pods", &pod("a", "y", "api", "Pending"));
    store.put("pods", &pod("b", "z", "web", "Running"));
    let router = Api::new(store.clone(), Catalog::new(resources()), VERSION).router();
    (store, router)
}

async fn send(router: &Router, method: &str, path: &str, accept: &str) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path);
    if !accept.is_empty() {
        request = request.header("accept", accept);
    }
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn read(answer: Response<Body>) -> (u16, Value) {
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap())
}

async fn get(router: &Router, path: &str) -> (u16, Value) {
    read(send(router, "GET", path, "application/json").await).await
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

/// Events of a watch.
async fn events(router: &Router, path: &str, accept: &str) -> Vec<Value> {
    let answer = send(router, "GET", path, accept).await;
    assert_eq!(answer.status(), 200, "{path}");
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    body.split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn described(events: &[Value]) -> Vec<String> {
    let described = |event: &Value| {
        format!(
            "{} {}",
            event["type"].as_str().unwrap(),
            event["object"]["metadata"]["name"].as_str().unwrap_or("-")
        )
    };
    events.iter().map(described).collect()
}

#[tokio::test]
async fn discovery() {
    let (_, router) = world();
    assert_eq!(get(&router, "/version").await.1["gitVersion"], VERSION.git_version);
    assert_eq!(get(&router, "/api").await.1["versions"], json!(["v1"]));
    let groups = get(&router, "/apis").await.1;
    assert_eq!(groups["groups"][0]["preferredVersion"]["groupVersion"], "apps/v1");
    assert_eq!(get(&router, "/apis/apps").await.1["kind"], "APIGroup");
    let core = get(&router, "/api/v1").await.1;
    let rows: Vec<&str> =
        core["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(rows, ["pods", "pods/log"]);
    assert_eq!(get(&router, "/apis/apps/v1").await.1["resources"][0]["shortNames"], json!(["deploy"]));
    for path in ["/apis/none", "/apis/none/v1", "/api/v2", "/", "/nothing/here", "/api/v1/services"] {
        let (code, status) = get(&router, path).await;
        assert_eq!(
            (code, &status["kind"], &status["reason"]),
            (404, &"Status".into(), &"NotFound".into()),
            "{path}"
        );
    }
}

#[tokio::test]
async fn aggregated_discovery_has_the_requested_version() {
    let (_, router) = world();
    for version in ["v2", "v2beta1"] {
        let media_type =
            format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
        let accept = format!("{media_type},application/json");
        let answer = send(&router, "GET", "/api", &accept).await;
        assert_eq!(answer.headers()["content-type"], media_type.as_str());
        let (_, document) = read(answer).await;
        assert_eq!(document["apiVersion"], format!("apidiscovery.k8s.io/{version}"));
        assert_eq!(
            document["items"][0]["versions"][0]["resources"][0]["subresources"][0]["subresource"],
            "log"
        );
        let (_, document) = read(send(&router, "GET", "/apis", &accept).await).await;
        assert_eq!(document["items"][0]["metadata"]["name"], "apps");
    }
}

#[tokio::test]
async fn objects_can_be_read_by_name() {
    let (_, router) = world();
    let (code, pod) = get(&router, "/api/v1/namespaces/a/pods/x").await;
    assert_eq!((code, &pod["metadata"]["resourceVersion"]), (200, &"101".into()));
    let (code, status) = get(&router, "/api/v1/namespaces/b/pods/x").await;
    assert_eq!(code, 404);
    assert_eq!(status["message"], "pods \"x\" not found");
    assert_eq!(status["details"], json!({"name": "x", "kind": "pods"}));
    let (_, status) = get(&router, "/apis/apps/v1/namespaces/a/deployments/d").await;
    assert_eq!(status["message"], "deployments.apps \"d\" not found");
}

#[tokio::test]
async fn lists_are_scoped_and_selected() {
    let (_, router) = world();
    for (path, expected) in [
        ("/api/v1/pods", &["x", "y", "z"][..]),
        ("/api/v1/namespaces/a/pods", &["x", "y"]),
        ("/api/v1/pods?labelSelector=app%3Dweb", &["x", "z"]),
        ("/api/v1/pods?fieldSelector=status.phase%3DPending", &["y"]),
        ("/api/v1/pods?fieldSelector=metadata.name%3Dz&resourceVersion=0", &["z"]),
        ("/api/v1/namespaces/none/pods", &[]),
    ] {
        let (code, list) = get(&router, path).await;
        assert_eq!((code, names(&list)), (200, expected.to_vec()), "{path}");
        assert_eq!((&list["kind"], &list["metadata"]["resourceVersion"]), (&"PodList".into(), &"103".into()));
    }
    for (path, expected) in [
        ("/api/v1/pods?labelSelector=a%20b", 400),
        ("/api/v1/pods?fieldSelector=spec.x%3D1", 400),
        ("/api/v1/pods?limit=many", 400),
        ("/api/v1/pods?continue=nonsense", 400),
        ("/api/v1/pods?resourceVersion=999", 504),
        ("/api/v1/pods?resourceVersion=99&resourceVersionMatch=Exact", 410),
        ("/api/v1/pods?watch=true&resourceVersion=99", 410),
        ("/api/v1/pods?watch=true&resourceVersion=999", 504),
        ("/api/v1/pods?sendInitialEvents=true&watch=true", 422),
    ] {
        assert_eq!(get(&router, path).await.0, expected, "{path}");
    }
}

#[tokio::test]
async fn paginated_list_is_consistent() {
    let (store, router) = world();
    let (_, first) = get(&router, "/api/v1/pods?limit=1").await;
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["x"], &2.into()));
    store.put("pods", &pod("a", "w", "web", "Running"));
    store.put("pods", &pod("a", "xx", "web", "Running"));
    store.delete("pods", "b", "z");
    let token = first["metadata"]["continue"].as_str().unwrap();
    let (_, rest) = get(&router, &format!("/api/v1/pods?limit=5&continue={token}")).await;
    assert_eq!(names(&rest), ["y", "z"]);
    assert_eq!(rest["metadata"], json!({"resourceVersion": "103"}));
    let (_, exact) = get(&router, "/api/v1/pods?resourceVersion=102&resourceVersionMatch=Exact").await;
    assert_eq!(names(&exact), ["x", "y"]);
}

#[tokio::test]
async fn a_page_ends_before_it_exceeds_its_bytes() {
    let (store, router) = world();
    let large = "x".repeat(3_000_000);
    for name in ["l1", "l2", "l3", "l4", "l5"] {
        store.put("pods", &pod("c", name, "web", &large));
    }
    let (mut seen, mut sizes, mut token) = (Vec::new(), Vec::new(), String::new());
    loop {
        let (_, page) = get(&router, &format!("/api/v1/pods?limit=500{token}")).await;
        seen.extend(names(&page).into_iter().map(str::to_owned));
        sizes.push(names(&page).len());
        let metadata = &page["metadata"];
        assert_eq!(metadata["remainingItemCount"].as_u64().unwrap_or_default(), 8 - seen.len() as u64);
        let Some(next) = metadata["continue"].as_str() else { break };
        token = format!("&continue={next}");
    }
    assert_eq!(
        (seen, sizes),
        (["x", "y", "z", "l1", "l2", "l3", "l4", "l5"].map(str::to_owned).into(), vec![5, 2, 1])
    );
    let (_, whole) = get(&router, "/api/v1/pods").await;
    assert_eq!(names(&whole).len(), 8, "without a limit the list comes whole");
}

#[tokio::test]
async fn tables() {
    let (_, router) = world();
    let (_, table) = read(send(&router, "GET", "/api/v1/namespaces/a/pods", TABLE).await).await;
    assert_eq!((&table["kind"], &table["apiVersion"]), (&"Table".into(), &"meta.k8s.io/v1".into()));
    assert_eq!(table["columnDefinitions"][0]["name"], "Name");
    assert_eq!(table["rows"][1]["cells"][0], "y");
    assert_eq!(table["rows"][1]["object"]["kind"], "PartialObjectMetadata");
    let (_, one) =
        read(send(&router, "GET", "/api/v1/namespaces/a/pods/x?includeObject=Object", TABLE).await).await;
    assert_eq!(one["rows"][0]["object"]["status"]["phase"], "Running");
    let (_, none) = read(send(&router, "GET", "/api/v1/pods?includeObject=None", TABLE).await).await;
    assert_eq!(none["rows"][0].get("object"), None);
    assert_eq!(send(&router, "GET", "/api/v1/pods", "text/html").await.status(), 406);
    assert_eq!(send(&router, "GET", "/api/v1/pods", "").await.status(), 200);
    let protobuf_first = "application/vnd.kubernetes.protobuf,application/json";
    let answer = send(&router, "GET", "/api/v1/pods", protobuf_first).await;
    assert_eq!(answer.headers()["content-type"], "application/vnd.kubernetes.protobuf");
}

#[tokio::test]
async fn a_watch_from_a_revision() {
    let (store, router) = world();
    store.put("pods", &pod("a", "y", "api", "Running"));
    store.delete("pods", "b", "z");
    let path = "/api/v1/pods?watch=1&resourceVersion=102&timeoutSeconds=1";
    assert_eq!(described(&events(&router, path, "").await), ["ADDED z", "MODIFIED y", "DELETED z"]);
    // A watch with a selector reports ADDED and DELETED when an object begins and ceases to match.
    let path =
        "/api/v1/pods?watch=1&resourceVersion=101&timeoutSeconds=1&fieldSelector=status.phase%3DPending";
    let seen = events(&router, path, "").await;
    assert_eq!(described(&seen), ["ADDED y", "DELETED y"]);
    assert_eq!(seen[1]["object"]["metadata"]["resourceVersion"], "104");
    let path = "/api/v1/namespaces/b/pods?watch=1&resourceVersion=101&timeoutSeconds=1";
    assert_eq!(described(&events(&router, path, "").await), ["ADDED z", "DELETED z"]);
    let path = "/api/v1/namespaces/a/pods/x?watch=1&resourceVersion=100&timeoutSeconds=1";
    assert_eq!(described(&events(&router, path, "").await), ["ADDED x"]);
}

#[tokio::test]
async fn watch_with_initial_events() {
    let (_, router) = world();
    let path = "/api/v1/pods?watch=true&timeoutSeconds=1&labelSelector=app%3Dweb";
    assert_eq!(described(&events(&router, path, "").await), ["ADDED x", "ADDED z"]);
    let path =
        format!("{path}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    let seen = events(&router, &path, "").await;
    assert_eq!(described(&seen), ["ADDED x", "ADDED z", "BOOKMARK -"]);
    assert_eq!(
        seen[2]["object"],
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {
            "resourceVersion": "103", "annotations": {"k8s.io/initial-events-end": "true"}}})
    );
}

#[tokio::test]
async fn table_watch_sends_column_definitions_once() {
    let (_, router) = world();
    let seen = events(&router, "/api/v1/pods?watch=true&resourceVersion=101&timeoutSeconds=1", TABLE).await;
    let heads: Vec<bool> = seen.iter().map(|e| e["object"]["columnDefinitions"].is_array()).collect();
    assert_eq!(heads, [true, false]);
    assert_eq!(seen[1]["object"]["rows"][0]["cells"][0], "z");
}

#[tokio::test]
async fn open_watch_receives_changes() {
    let (store, router) = world();
    let answer = send(&router, "GET", "/api/v1/pods?watch=true&resourceVersion=103", "").await;
    let mut stream = answer.into_body().into_data_stream();
    store.put("pods", &pod("a", "new", "web", "Pending"));
    let line = tokio::time::timeout(std::time::Duration::from_secs(10), stream.next()).await;
    let event: Value = serde_json::from_slice(&line.unwrap().unwrap().unwrap()).unwrap();
    assert_eq!(described(&[event]), ["ADDED new"]);
}

/// Uses paused time.
#[tokio::test(start_paused = true)]
async fn watch_sends_single_changes_at_once_and_batches_many() {
    let (store, router) = world();
    let answer = send(&router, "GET", "/api/v1/pods?watch=true&resourceVersion=103", "").await;
    let mut stream = answer.into_body().into_data_stream();
    let mut lines_after_puts = async |names: &[&str]| {
        let began = tokio::time::Instant::now();
        for name in names {
            store.put("pods", &pod("a", name, "web", "Pending"));
        }
        let piece = stream.next().await.unwrap().unwrap();
        (piece.iter().filter(|byte| **byte == b'\n').count(), began.elapsed())
    };
    let (lines, after) = lines_after_puts(&["one"]).await;
    assert_eq!((lines, after), (1, std::time::Duration::ZERO));
    let (lines, after) = lines_after_puts(&["two", "three", "four"]).await;
    assert_eq!(lines, 3);
    let millis = after.as_millis();
    assert!((1..10).contains(&millis), "they waited {millis} ms for each other");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    let (lines, after) = lines_after_puts(&["five"]).await;
    assert_eq!((lines, after), (1, std::time::Duration::ZERO));
}

#[tokio::test]
async fn a_slow_watch_gets_an_error_that_requires_a_new_list() {
    let (store, router) = world();
    let answer = send(&router, "GET", "/api/v1/pods?watch=true&resourceVersion=103", "").await;
    for round in 0..5000 {
        store.put("pods", &pod("a", "x", "web", &round.to_string()));
    }
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let event: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&"ERROR".into(), &410.into()));
    assert_eq!(event["object"]["reason"], "Expired");
}

#[tokio::test]
async fn read_only_api_rejects_every_write_with_a_reason() {
    let (_, router) = world();
    for (method, path, code, message) in [
        ("DELETE", "/api/v1/namespaces/a/pods/x", 403, "pods \"x\" is forbidden: it belongs to a file"),
        ("PATCH", "/api/v1/namespaces/a/pods/x", 403, "pods \"x\" is forbidden: it belongs to a file"),
        ("PUT", "/api/v1/namespaces/a/pods/none", 404, "pods \"none\" not found"),
        (
            "POST",
            "/api/v1/namespaces/a/pods",
            405,
            "pods cannot be written here with POST: it belongs to a file",
        ),
        ("POST", "/version", 405, "the server does not allow this method on the requested resource"),
    ] {
        let (found, status) = read(send(&router, method, path, "").await).await;
        assert_eq!((found, status["message"].as_str().unwrap()), (code, message), "{method} {path}");
        assert_eq!(status["code"], code);
    }
}

#[tokio::test]
async fn partial_object_metadata_is_served_on_request() {
    let (_, router) = world();
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    let (_, list) = read(send(&router, "GET", "/api/v1/namespaces/a/pods", accept).await).await;
    assert_eq!((&list["kind"], names(&list)), (&"PartialObjectMetadataList".into(), vec!["x", "y"]));
    let item = &list["items"][0];
    assert_eq!((&item["kind"], item.get("status")), (&"PartialObjectMetadata".into(), None));
    assert_eq!(item["metadata"]["labels"]["app"], "web");
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let (_, one) = read(send(&router, "GET", "/api/v1/namespaces/a/pods/x", accept).await).await;
    assert_eq!((&one["kind"], &one["metadata"]["name"]), (&"PartialObjectMetadata".into(), &"x".into()));
    let path = "/api/v1/pods?watch=true&resourceVersion=102&timeoutSeconds=1";
    let seen = events(&router, path, accept).await;
    assert_eq!(
        (described(&seen), &seen[0]["object"]["kind"]),
        (vec!["ADDED z".to_owned()], &"PartialObjectMetadata".into())
    );
}
