//! Responses in each representation.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use http::{Request, header};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tower::ServiceExt as _;

use crate::registry::Registry;
use crate::resource::{Columns, Head, Resource};
use crate::{Api, Catalog, VERSION, kinds, storage};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn server() -> Router {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = Registry::open(store, Catalog::new(kinds::all())).await.unwrap();
    let router = Api::writable(registry, Vec::new(), VERSION).router();
    for name in ["a", "b"] {
        let (code, ..) = send_request(&router, "POST", MAPS, "", map(name)).await;
        assert_eq!(code, 201);
    }
    router
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

async fn send_request(
    router: &Router,
    method: &str,
    path: &str,
    accept: &str,
    body: Value,
) -> (u16, String, Bytes) {
    let media_type = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media_type);
    let request = if accept.is_empty() { request } else { request.header(header::ACCEPT, accept) };
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let answer = router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let media_type = answer.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
    (answer.status().as_u16(), media_type, to_bytes(answer.into_body(), usize::MAX).await.unwrap())
}

async fn json(router: &Router, method: &str, path: &str, accept: &str, body: Value) -> (u16, Value) {
    let (code, media_type, body) = send_request(router, method, path, accept, body).await;
    assert_eq!(media_type, "application/json", "{path} as {accept}");
    assert!(body.ends_with(b"\n"), "stock ends every body in JSON with a newline: {path}");
    (code, serde_json::from_slice(&body).unwrap())
}

async fn protobuf(router: &Router, method: &str, path: &str, body: Value) -> (u16, Value) {
    let (code, media_type, body) = send_request(router, method, path, PROTOBUF, body).await;
    assert_eq!(media_type, PROTOBUF, "{path}");
    (code, api::protobuf::decode(&body).unwrap())
}

#[tokio::test]
async fn protobuf_objects_lists_and_errors_equal_json() {
    let router = server().await;
    for path in [
        &format!("{MAPS}/a"),
        MAPS,
        "/api/v1/namespaces/default/configmaps?limit=1",
        "/api/v1/namespaces/default/configmaps/none",
        "/api/v1/namespaces/default/events",
        "/apis/autoscaling/v1/horizontalpodautoscalers",
    ] {
        let (code, mut expected) = json(&router, "GET", path, "", Value::Null).await;
        // Protobuf omits empty lists, and JSON omits the kind of items.
        if expected["items"] == json!([]) {
            expected.as_object_mut().unwrap().shift_remove("items");
        }
        for item in expected.get("items").and_then(Value::as_array).into_iter().flatten() {
            assert!(item.get("kind").is_none() && item.get("apiVersion").is_none(), "{path}: {item}");
        }
        assert_eq!(protobuf(&router, "GET", path, Value::Null).await, (code, expected), "{path}");
    }
}

#[tokio::test]
async fn write_response_has_the_requested_format() {
    let router = server().await;
    let path = format!("{MAPS}/c");
    let (code, made) = protobuf(&router, "POST", MAPS, map("c")).await;
    assert_eq!((code, &made["kind"], &made["data"]), (201, &"ConfigMap".into(), &json!({"k": "v"})));
    let (code, changed) = protobuf(&router, "PATCH", &path, json!({"data": {"k": "w"}})).await;
    assert_eq!((code, &changed["data"]), (200, &json!({"k": "w"})));
    let (code, refused) = protobuf(&router, "POST", MAPS, map("c")).await;
    assert_eq!(
        (code, &refused["kind"], &refused["reason"]),
        (409, &"Status".into(), &"AlreadyExists".into())
    );
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1beta1";
    for (method, path, body) in [
        ("POST", MAPS, map("d")),
        ("PUT", &format!("{MAPS}/d"), map("d")),
        ("PATCH", &path, json!({"data": {"l": "x"}})),
    ] {
        let (_, table) = json(&router, method, path, table, body).await;
        assert_eq!((&table["kind"], &table["apiVersion"]), (&"Table".into(), &"meta.k8s.io/v1beta1".into()));
        assert_eq!(table["rows"][0]["object"]["apiVersion"], "meta.k8s.io/v1beta1", "{method}");
    }
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let (_, partial) = json(&router, "PATCH", &path, metadata, json!({"data": {"m": "x"}})).await;
    assert_eq!((&partial["kind"], partial.get("data")), (&"PartialObjectMetadata".into(), None));
    assert_eq!(partial["metadata"]["name"], "c");
}

#[tokio::test]
async fn partial_object_metadata_is_served_as_protobuf_and_in_both_versions() {
    let router = server().await;
    let partial = |version: &str, kind: &str, media_type: &str| {
        format!("{media_type};as={kind};g=meta.k8s.io;v={version}")
    };
    for version in ["v1", "v1beta1"] {
        let accept = partial(version, "PartialObjectMetadataList", "application/json");
        let (_, list) = json(&router, "GET", MAPS, &accept, Value::Null).await;
        let api_version = format!("meta.k8s.io/{version}");
        assert_eq!(
            (&list["kind"], list["apiVersion"].as_str()),
            (&"PartialObjectMetadataList".into(), Some(&*api_version))
        );
        assert_eq!(list["items"][1]["metadata"]["name"], "b");
        let accept = partial(version, "PartialObjectMetadataList", PROTOBUF);
        let (code, media_type, body) = send_request(&router, "GET", MAPS, &accept, Value::Null).await;
        assert_eq!((code, &*media_type), (200, PROTOBUF));
        let text = String::from_utf8_lossy(&body).into_owned();
        assert!(text.contains("PartialObjectMetadataList") && text.contains(&api_version), "{text}");
        let accept = partial(version, "PartialObjectMetadata", PROTOBUF);
        let (_, _, one) = send_request(&router, "GET", &format!("{MAPS}/a"), &accept, Value::Null).await;
        assert!(one.starts_with(b"k8s\0"));
        let (code, ..) = send_request(
            &router,
            "GET",
            MAPS,
            &format!("{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"),
            Value::Null,
        )
        .await;
        assert_eq!(code, 406, "protobuf has no tables");
    }
}

#[tokio::test]
async fn yaml_response_equals_the_json_object() {
    let router = server().await;
    let empty = "/api/v1/namespaces/none/configmaps";
    let paths = [MAPS, empty, &format!("{MAPS}?limit=1"), &format!("{MAPS}/a"), &format!("{MAPS}/none")];
    for (path, shape) in paths
        .map(|path| (path, ""))
        .into_iter()
        .chain([(MAPS, ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")])
    {
        let (code, expected) =
            json(&router, "GET", path, &format!("application/json{shape}"), Value::Null).await;
        let (yaml_code, media_type, body) =
            send_request(&router, "GET", path, &format!("application/yaml{shape}"), Value::Null).await;
        assert_eq!((yaml_code, &*media_type), (code, "application/yaml"), "{path}");
        let read: Value = serde_yaml::from_slice(&body).unwrap();
        assert_eq!(read, expected, "{path}");
    }
    let (code, ..) =
        send_request(&router, "GET", &format!("{MAPS}?watch=1"), "application/yaml", Value::Null).await;
    assert_eq!(code, 406, "YAML has no form for watches");
}

/// Events of a protobuf watch: type and object.
fn frames(mut body: &[u8]) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    while let Some((length, rest)) = body.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        // WatchEvent: the type, then a RawExtension with an enveloped object.
        let kind = usize::from(frame[1]);
        let object = frame.windows(4).position(|window| window == b"k8s\0").unwrap();
        let kind = String::from_utf8(frame[2..2 + kind].to_vec()).unwrap();
        events.push((kind, api::protobuf::decode(&frame[object..]).unwrap()));
        body = rest;
    }
    events
}

#[tokio::test]
async fn watches_in_protobuf_have_a_frame_for_each_event() {
    let router = server().await;
    let paths = [
        format!("{MAPS}?watch=1&timeoutSeconds=1"),
        "/api/v1/watch/namespaces/default/configmaps?timeoutSeconds=1".to_owned(),
    ];
    for path in paths {
        let (code, media_type, body) = send_request(&router, "GET", &path, PROTOBUF, Value::Null).await;
        assert_eq!((code, &*media_type), (200, "application/vnd.kubernetes.protobuf;stream=watch"));
        let events = frames(&body);
        let found: Vec<(&str, &str)> = events
            .iter()
            .map(|(kind, object)| (kind.as_str(), object["metadata"]["name"].as_str().unwrap()))
            .collect();
        assert_eq!(found, [("ADDED", "a"), ("ADDED", "b")], "{path}");
        let (_, one) = json(&router, "GET", &format!("{MAPS}/b"), "", Value::Null).await;
        assert_eq!(events[1].1, one);
    }
    let (code, ..) =
        send_request(&router, "POST", "/api/v1/watch/namespaces/default/configmaps", "", map("x")).await;
    assert_eq!(code, 405);
}

#[tokio::test]
async fn discovery_comes_as_yaml_and_names_the_stock_categories_and_verbs() {
    let router = server().await;
    let row = async |path: &str, name: &str| {
        let (_, list) = json(&router, "GET", path, "", Value::Null).await;
        list["resources"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap().clone()
    };
    for path in ["/api", "/apis", "/apis/apps", "/apis/apps/v1"] {
        let (_, expected) = json(&router, "GET", path, "", Value::Null).await;
        let (code, media_type, body) =
            send_request(&router, "GET", path, "application/yaml", Value::Null).await;
        assert_eq!((code, &*media_type), (200, "application/yaml"), "{path}");
        assert_eq!(serde_yaml::from_slice::<Value>(&body).unwrap(), expected, "{path}");
    }
    for (path, name, category) in [
        ("/apis/autoscaling/v1", "horizontalpodautoscalers", "all"),
        ("/apis/autoscaling/v2", "horizontalpodautoscalers", "all"),
        ("/apis/batch/v1", "cronjobs", "all"),
        ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", "api-extensions"),
        ("/apis/apiregistration.k8s.io/v1", "apiservices", "api-extensions"),
        ("/apis/admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", "api-extensions"),
        ("/apis/admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings", "api-extensions"),
    ] {
        assert_eq!(row(path, name).await["categories"], json!([category]), "{name}");
    }
    let verbs = &row("/api/v1", "namespaces").await["verbs"];
    assert_eq!(verbs, &json!(["create", "delete", "get", "list", "patch", "update", "watch"]));
    let (code, refused) = json(&router, "DELETE", "/api/v1/namespaces", "", Value::Null).await;
    assert_eq!((code, &refused["details"]), (405, &json!({})));
}

#[tokio::test]
async fn errors_have_no_empty_name() {
    let router = server().await;
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let (code, refused) = json(&router, "POST", MAPS, "", nameless).await;
    assert_eq!(
        (code, &refused["details"]["kind"], refused["details"].get("name")),
        (422, &"ConfigMap".into(), None)
    );
}

#[tokio::test]
async fn discovery_has_the_hashes_of_the_stock_server() {
    let router = server().await;
    for (path, name, hash) in [
        ("/api/v1", "pods", "xPOwRZ+Yhw8="),
        ("/api/v1", "services", "0/CO1lhkEBI="),
        ("/apis/apps/v1", "deployments", "8aSe+NMegvE="),
    ] {
        let (_, list) = json(&router, "GET", path, "", Value::Null).await;
        let row = list["resources"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
        assert_eq!(row["storageVersionHash"], hash, "{name}");
    }
}

/// Columns that record the threads on which tables are made.
#[derive(Clone, Default)]
struct Threads(Arc<Mutex<Vec<ThreadId>>>);

impl Columns for Threads {
    fn heads(&self) -> Vec<Head> {
        Vec::new()
    }

    fn cells(&self, _: &Map<String, Value>, _: Timestamp) -> Vec<Value> {
        self.0.lock().unwrap().push(thread::current().id());
        Vec::new()
    }
}

#[tokio::test]
async fn large_write_responses_are_encoded_in_the_compute_pool() {
    let threads = Threads::default();
    let maps = Resource::new("", "v1", "ConfigMap", "configmaps", "configmap").columns(threads.clone());
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = Registry::open(store, Catalog::new([maps])).await.unwrap();
    let router = Api::writable(registry, Vec::new(), VERSION).router();
    let write = async |method: &str, body: Value| {
        let (code, ..) =
            send_request(&router, method, MAPS, "application/json;as=Table;g=meta.k8s.io;v=v1", body).await;
        assert!((200..=201).contains(&code), "{method}: {code}");
        let all = std::mem::take(&mut *threads.0.lock().unwrap());
        assert_eq!(all.len(), 1);
        all[0] == thread::current().id()
    };
    let sized = |name: &str, bytes: usize| {
        let mut object = map(name);
        object["data"]["k"] = "x".repeat(bytes).into();
        object
    };
    for name in ["a", "b", "c"] {
        assert!(write("POST", sized(name, 60_000)).await, "a small one needs no other thread");
    }
    assert!(!write("POST", sized("d", 140_000)).await);
    // The request is small, the list of deleted objects is not.
    assert!(!write("DELETE", Value::Null).await);
}
