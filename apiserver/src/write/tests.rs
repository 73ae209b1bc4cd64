//! Write requests over HTTP types and the in-memory store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod admitted;
mod autoscalers;
mod bodies;
mod deletes;
mod metadata;
mod parts;
mod records;
mod selected;
mod store;

use std::sync::Arc;

use api::strategy::{DefaultsTooLarge, Part};
use axum::Router;
use axum::body::{Body, to_bytes};
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::admission::{AdmissionRequest, NamespaceLifecycle, Operation};
use crate::storage;
use crate::{Api, Catalog, VERSION};

fn resources() -> [Resource; 4] {
    [
        Resource::new("", "v1", "Pod", "pods", "pod").with_status(),
        Resource::new("", "v1", "ConfigMap", "configmaps", "configmap"),
        Resource::new("", "v1", "Node", "nodes", "node").cluster().with_status(),
        Resource::new("apps", "v1", "Deployment", "deployments", "deployment").with_status(),
    ]
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

struct Server(Router);

impl Server {
    async fn new() -> Self {
        Self::of(resources(), |_| Vec::new()).await
    }

    async fn of(
        rows: impl IntoIterator<Item = Resource>,
        admission: impl Fn(&Arc<Registry>) -> Vec<Arc<dyn Admission>>,
    ) -> Self {
        let store = Arc::new(storage::Memory::new(storage::Limits::default()));
        let registry = Registry::open(store, Catalog::new(rows)).await.unwrap();
        let admission = admission(&registry);
        Self(Api::writable(registry, admission, VERSION).router())
    }

    async fn send_request(
        &self,
        method: &str,
        path: &str,
        media_type: &str,
        body: impl Into<Body>,
    ) -> (u16, Value, Vec<String>) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media_type)
            .header(header::USER_AGENT, "tester/1");
        let answer = self.0.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let warnings = answer.headers().get_all(header::WARNING).iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
        let code = answer.status().as_u16();
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap(), warnings)
    }

    async fn json(&self, method: &str, path: &str, body: Value) -> (u16, Value) {
        let (code, answer, _) = self.send_request(method, path, JSON, body.to_string()).await;
        (code, answer)
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.json("GET", path, Value::Null).await
    }
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn refused(answer: (u16, Value), code: u16, reason: &str, text: &str) {
    let (given, status) = answer;
    assert_eq!((given, status["reason"].as_str().unwrap()), (code, reason), "{status}");
    assert!(status["message"].as_str().unwrap().contains(text), "{status}");
}

#[tokio::test]
async fn created_object_has_metadata_and_can_be_read() {
    let server = Server::new().await;
    let (code, made) = server.json("POST", MAPS, map("a")).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["metadata"]["namespace"], "default");
    for field in ["uid", "creationTimestamp", "resourceVersion", "managedFields"] {
        assert!(!made["metadata"][field].is_null(), "{field} in {made}");
    }
    assert_eq!(server.get(&format!("{MAPS}/a")).await, (200, made));
    refused(
        server.json("POST", MAPS, map("a")).await,
        409,
        "AlreadyExists",
        "configmaps \"a\" already exists",
    );
    for (name, why) in [("..", "may not be '..'"), ("a/b", "may not contain '/'"), (&*"a".repeat(254), "253")]
    {
        refused(server.json("POST", MAPS, map(name)).await, 422, "Invalid", why);
    }
    let mut named = map("");
    named["metadata"] = json!({"generateName": "b-"});
    let (_, made) = server.json("POST", MAPS, named).await;
    assert_eq!(made["metadata"]["name"].as_str().unwrap().len(), "b-".len() + commit::SUFFIX_LENGTH);
}

#[tokio::test]
async fn json_and_yaml_bodies_are_accepted_and_invalid_ones_are_client_errors() {
    let server = Server::new().await;
    let yaml = "kind: ConfigMap\nmetadata: {name: yaml}\ndata: {a: b}\n";
    assert_eq!(server.send_request("POST", MAPS, "application/yaml", yaml).await.0, 201);
    for (media_type, body, code) in [
        (JSON, "{", 400),
        (JSON, "[]", 400),
        (JSON, "", 400),
        ("application/yaml", "a: [", 400),
        ("application/vnd.kubernetes.protobuf", "k8s\0nonsense", 400),
        ("text/plain", "hello", 415),
        (JSON, "{\"kind\": \"Secret\"}", 400),
        (JSON, "{\"metadata\": {\"name\": \"../x\"}}", 422),
        (JSON, "{\"metadata\": {\"name\": \"Upper\"}}", 422),
        (JSON, "{\"metadata\": {}}", 422),
        (JSON, "{\"metadata\": {\"name\": \"x\", \"namespace\": \"other\"}}", 400),
        (JSON, "{\"metadata\": {\"name\": \"x\", \"resourceVersion\": \"1\"}}", 400),
    ] {
        let (given, status, _) = server.send_request("POST", MAPS, media_type, body).await;
        assert_eq!((given, status["kind"].as_str()), (code, Some("Status")), "{body}: {status}");
    }
    let long = format!("{{\"x\": \"{}\"}}", "x".repeat(body::MAX_BYTES));
    assert_eq!(server.send_request("POST", MAPS, JSON, long).await.0, 413);
}

#[tokio::test]
async fn update_requires_the_current_resource_version() {
    let server = Server::new().await;
    let (_, mut made) = server.json("POST", MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    let old = made.clone();
    made["data"]["a"] = "2".into();
    let (code, changed) = server.json("PUT", &path, made.clone()).await;
    assert_eq!((code, &changed["data"]["a"]), (200, &json!("2")));
    refused(
        server.json("PUT", &path, old.clone()).await,
        409,
        "Conflict",
        "please apply your changes to the latest version",
    );
    made["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    made["metadata"]["uid"] = "other".into();
    refused(server.json("PUT", &path, made).await, 409, "Conflict", "Precondition failed: UID");
    let (code, same) = server.json("PUT", &path, changed.clone()).await;
    assert_eq!((code, same), (200, changed), "nothing changed, so nothing was written");
    refused(server.json("PUT", &format!("{MAPS}/b"), map("b")).await, 404, "NotFound", "\"b\" not found");
    refused(
        server.json("PUT", &path, map("b")).await,
        400,
        "BadRequest",
        "does not match the name on the URL",
    );
}

#[tokio::test]
async fn status_and_spec_are_written_separately() {
    let server = Server::new().await;
    let containers = json!([{"name": "c", "image": "1"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": containers}, "status": {"phase": "Running"}});
    let (_, made) = server.json("POST", PODS, pod).await;
    assert_eq!(made["status"]["phase"], "Pending", "{made}");
    assert_eq!(made["metadata"]["generation"], 1);
    let path = format!("{PODS}/p");
    let mut status = made.clone();
    status["status"] = json!({"phase": "Running"});
    status["spec"]["nodeName"] = "n".into();
    let (_, stored) = server.json("PUT", &format!("{path}/status"), status).await;
    assert_eq!((&stored["status"]["phase"], stored["spec"].get("nodeName")), (&json!("Running"), None));
    assert_eq!(stored["metadata"]["generation"], 1);
    let patch = json!({"spec": {"activeDeadlineSeconds": 5}, "status": null}).to_string();
    let (_, bounded, _) = server.send_request("PATCH", &path, MERGE, patch).await;
    assert_eq!(
        (&bounded["status"]["phase"], &bounded["spec"]["activeDeadlineSeconds"]),
        (&json!("Running"), &json!(5))
    );
    assert_eq!(bounded["metadata"]["generation"], 2);
}

#[tokio::test]
async fn graceful_deletion_changes_the_generation_once() {
    let server = Server::new().await;
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "1"}]});
    let (_, made) = server.json("POST", PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    assert_eq!(made["metadata"]["generation"], 1);
    let path = format!("{PODS}/p");
    for grace in [30, 20] {
        let (_, going) = server.json("DELETE", &path, json!({"gracePeriodSeconds": grace})).await;
        let metadata = &going["metadata"];
        assert_eq!(
            (&metadata["generation"], &metadata["deletionGracePeriodSeconds"]),
            (&json!(2), &json!(grace))
        );
    }
}

#[tokio::test]
async fn every_patch_type_is_accepted() {
    let server = Server::new().await;
    let containers = json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    server.json("POST", DEPLOYMENTS, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    let path = format!("{DEPLOYMENTS}/d");
    let images = |object: &Value| {
        let all = object["spec"]["template"]["spec"]["containers"].as_array().unwrap().clone();
        all.iter().map(|c| c["image"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>().join(" ")
    };
    let one =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "2"}]}}}}).to_string();
    let (_, object, _) =
        server.send_request("PATCH", &path, "application/strategic-merge-patch+json", one.clone()).await;
    assert_eq!(images(&object), "1 2");
    let (_, object, _) = server.send_request("PATCH", &path, MERGE, one).await;
    assert_eq!(images(&object), "2");
    let third = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "3"}])
        .to_string();
    let (_, object, _) = server.send_request("PATCH", &path, "application/json-patch+json", third).await;
    assert_eq!(images(&object), "3");
    for (media_type, patch, code) in [
        ("application/json-patch+json", "[{\"op\": \"test\", \"path\": \"/x\", \"value\": 1}]", 422),
        ("application/json-patch+json", "{}", 400),
        (MERGE, "[", 400),
        ("text/plain", "{}", 415),
    ] {
        assert_eq!(
            server.send_request("PATCH", &path, media_type, patch).await.0,
            code,
            "{media_type} {patch}"
        );
    }
}

#[tokio::test]
async fn apply_creates_owns_and_detects_conflicts() {
    let server = Server::new().await;
    let path = |manager: &str, more: &str| format!("{MAPS}/m?fieldManager={manager}{more}");
    let wants = |value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{a: '{value}'}}\n")
    };
    let (code, made, _) = server.send_request("PATCH", &path("one", ""), APPLY, wants("1")).await;
    assert_eq!(code, 201, "{made}");
    let (code, same, _) = server.send_request("PATCH", &path("one", ""), APPLY, wants("1")).await;
    assert_eq!((code, &same["metadata"]["resourceVersion"]), (200, &made["metadata"]["resourceVersion"]));
    let (code, conflict, _) = server.send_request("PATCH", &path("two", ""), APPLY, wants("2")).await;
    assert_eq!(
        (code, &conflict["details"]["causes"][0]["reason"]),
        (409, &json!("FieldManagerConflict")),
        "{conflict}"
    );
    let (code, taken, _) = server.send_request("PATCH", &path("two", "&force=true"), APPLY, wants("2")).await;
    assert_eq!((code, &taken["data"]["a"]), (200, &json!("2")), "{taken}");
    assert_eq!(
        server.send_request("PATCH", &format!("{MAPS}/m"), APPLY, wants("3")).await.0,
        422,
        "without a manager"
    );
    // An object cannot be written under another name.
    for other in ["m", "none"] {
        let path = format!("{MAPS}/{other}?fieldManager=one");
        let sent = wants("1").replace("name: m", "name: other");
        let (code, status, _) = server.send_request("PATCH", &path, APPLY, sent).await;
        refused((code, status), 400, "BadRequest", "does not match the name on the URL");
    }
    assert_eq!(server.get(&format!("{MAPS}/other")).await.0, 404);
}

/// Charts without a pull secret often render `imagePullSecrets: [{name: ""}]`. The name is the key of the list and defaults to
/// an empty string.
#[tokio::test]
async fn apply_accepts_an_empty_list_key_that_is_the_default() {
    let server = Server::new().await;
    let pod = |secrets: Value| {
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "imagePullSecrets": secrets});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}).to_string()
    };
    let path = format!("{PODS}/p?fieldManager=one");
    let (code, made, _) =
        server.send_request("PATCH", &path, APPLY, pod(json!([{"name": ""}, {"name": "a"}]))).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["imagePullSecrets"], json!([{}, {"name": "a"}]));
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:imagePullSecrets"];
    let keys: Vec<&String> = owned.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["k:{\"name\":\"\"}", "k:{\"name\":\"a\"}"]);
    let (code, status, _) = server.send_request("PATCH", &path, APPLY, pod(json!([{}, {"name": ""}]))).await;
    assert_eq!(code, 400, "two elements with one key: {status}");
}

#[tokio::test]
async fn delete_with_invalid_options_deletes_nothing() {
    let server = Server::new().await;
    server.json("POST", MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    for options in [
        json!({"dryRun": "All"}),
        json!({"preconditions": {"uid": 7}}),
        json!({"preconditions": ["other"]}),
        json!({"gracePeriodSeconds": "0"}),
        json!({"propagationPolicy": ["Orphan"]}),
        json!(["All"]),
    ] {
        for path in [path.as_str(), MAPS] {
            refused(server.json("DELETE", path, options.clone()).await, 400, "BadRequest", "");
        }
    }
    assert_eq!(server.get(&path).await.0, 200);
    let containers = json!([{"name": "c", "image": "1"}]);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": containers}});
    server.json("POST", PODS, pod).await;
    server.json("DELETE", &format!("{PODS}/p"), json!({"gracePeriodSeconds": 0, "dryRun": null})).await;
    assert_eq!(server.get(&format!("{PODS}/p")).await.0, 404, "none is a grace too");
}

#[tokio::test]
async fn deletions_wait_for_finalizers_and_grace() {
    let server = Server::new().await;
    server.json("POST", MAPS, map("a")).await;
    let (code, gone) =
        server.json("DELETE", &format!("{MAPS}/a"), json!({"preconditions": {"uid": "other"}})).await;
    refused((code, gone), 409, "Conflict", "Precondition failed");
    let (code, gone, _) = server.send_request("DELETE", &format!("{MAPS}/a"), JSON, "").await;
    assert_eq!((code, &gone["status"], &gone["details"]["name"]), (200, &json!("Success"), &json!("a")));
    refused(server.get(&format!("{MAPS}/a")).await, 404, "NotFound", "");

    let mut held = map("b");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.json("POST", MAPS, held).await;
    let (_, terminating, _) = server.send_request("DELETE", &format!("{MAPS}/b"), JSON, "").await;
    assert!(terminating["metadata"]["deletionTimestamp"].is_string(), "{terminating}");
    let free = json!({"metadata": {"finalizers": null}}).to_string();
    assert_eq!(server.send_request("PATCH", &format!("{MAPS}/b"), MERGE, free).await.0, 200);
    assert_eq!(
        server.get(&format!("{MAPS}/b")).await.0,
        404,
        "the last finalizer is gone, and so is the object"
    );

    let containers = json!([{"name": "c", "image": "1"}]);
    let spec = json!({"nodeName": "n", "terminationGracePeriodSeconds": 7, "containers": containers});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    server.json("POST", PODS, pod).await;
    let (_, ending, _) = server.send_request("DELETE", &format!("{PODS}/p"), JSON, "").await;
    assert_eq!(ending["metadata"]["deletionGracePeriodSeconds"], 7);
    let ends =
        |pod: &Value| pod["metadata"]["deletionTimestamp"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let delete_path = |seconds: u32| format!("{PODS}/p?gracePeriodSeconds={seconds}");
    let (_, longer, _) = server.send_request("DELETE", &delete_path(60), JSON, "").await;
    assert_eq!(longer["metadata"], ending["metadata"], "a grace is never made longer");
    let (_, shorter, _) = server.send_request("DELETE", &delete_path(5), JSON, "").await;
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    assert_eq!(ends(&ending).duration_since(ends(&shorter)).as_secs(), 2);
    server.send_request("DELETE", &format!("{PODS}/p?gracePeriodSeconds=0"), JSON, "").await;
    assert_eq!(server.get(&format!("{PODS}/p")).await.0, 404);
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let server = Server::new().await;
    assert_eq!(server.json("POST", &format!("{MAPS}?dryRun=All"), map("a")).await.0, 201);
    assert_eq!(server.get(&format!("{MAPS}/a")).await.0, 404);
    server.json("POST", MAPS, map("a")).await;
    let (_, patched, _) = server
        .send_request("PATCH", &format!("{MAPS}/a?dryRun=All"), MERGE, "{\"data\": {\"a\": \"2\"}}")
        .await;
    assert_eq!(patched["data"]["a"], "2");
    server.send_request("DELETE", &format!("{MAPS}/a?dryRun=All"), JSON, "").await;
    assert_eq!(server.get(&format!("{MAPS}/a")).await.1["data"]["a"], "1");
    assert_eq!(server.json("POST", &format!("{MAPS}?dryRun=Some"), map("b")).await.0, 422);
}

#[tokio::test]
async fn concurrent_patches_lose_no_change() {
    let server = Arc::new(Server::new().await);
    server.json("POST", MAPS, map("a")).await;
    let writers = (0..8).map(|writer| {
        let server = server.clone();
        tokio::spawn(async move {
            let patch = json!({"data": {format!("k{writer}"): "1"}}).to_string();
            loop {
                let (code, answer, _) =
                    server.send_request("PATCH", &format!("{MAPS}/a"), MERGE, patch.clone()).await;
                if code == 200 {
                    return;
                }
                assert_eq!(code, 409, "{answer}");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let (_, object) = server.get(&format!("{MAPS}/a")).await;
    assert_eq!(object["data"].as_object().unwrap().len(), 9, "{object}");
}

/// Defaults the color, rejects green, warns of red, and keeps the size immutable.
struct Painted;

impl api::strategy::Strategy for Painted {
    fn default(&self, object: &mut Json) -> Result<(), DefaultsTooLarge> {
        let spec = object.entry("data").or_insert_with(|| json!({}));
        spec.as_object_mut().unwrap().entry("color").or_insert_with(|| "blue".into());
        Ok(())
    }

    fn prepare(&self, object: &mut Json, before: Option<&Json>, _: &Part<'_>) {
        let size = before.map_or("1", |before| before["data"]["size"].as_str().unwrap());
        object["data"]["size"] = size.into();
    }

    fn validate(&self, object: &Json, _: Option<&Json>, _: &Part<'_>) -> Vec<Cause> {
        let color = object["data"]["color"].as_str().unwrap();
        (color == "green")
            .then(|| Cause::not_supported("data.color", color, &["blue", "red"]))
            .into_iter()
            .collect()
    }

    fn warnings(&self, object: &Json) -> Vec<String> {
        (object["data"]["color"] == "red").then(|| "red is loud".to_owned()).into_iter().collect()
    }
}

#[tokio::test]
async fn strategy_applies_to_every_kind_of_write() {
    let row = Resource::new("", "v1", "ConfigMap", "configmaps", "configmap").strategy(Arc::new(Painted));
    let server = Server::of([row], |_| Vec::new()).await;
    let object = |color: Value| json!({"metadata": {"name": "a"}, "data": {"color": color, "size": "9"}});
    let (code, made) = server.json("POST", MAPS, object(Value::Null)).await;
    assert_eq!((code, &made["data"]), (201, &json!({"color": "blue", "size": "1"})), "{made}");
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:data"];
    assert!(owned.get("f:color").is_some(), "defaults are owned: {made}");
    let path = format!("{MAPS}/a");
    let message = "ConfigMap \"a\" is invalid: data.color: Unsupported value: \"green\": supported values: \"blue\", \"red\"";
    let green = json!({"data": {"color": "green"}}).to_string();
    let apply = format!("{path}?fieldManager=me&force=true");
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "green"}}).to_string();
    for (method, path, media_type, body) in [
        ("POST", MAPS, JSON, object("green".into()).to_string()),
        ("PUT", path.as_str(), JSON, object("green".into()).to_string()),
        ("PATCH", &path, MERGE, green.clone()),
        ("PATCH", &path, "application/strategic-merge-patch+json", green),
        ("PATCH", &apply, APPLY, applied),
    ] {
        let (code, status, _) = server.send_request(method, path, media_type, body).await;
        assert_eq!((code, &status["message"]), (422, &json!(message)), "{method} {media_type}");
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueNotSupported");
    }
    let (_, red, warnings) = server.send_request("PUT", &path, JSON, object("red".into()).to_string()).await;
    assert_eq!((&red["data"]["size"], warnings), (&json!("1"), vec!["299 - \"red is loud\"".to_owned()]));
}

/// Labels new objects with their creator, and rejects the name `no`.
struct Doorkeeper;

#[async_trait::async_trait]
impl Admission for Doorkeeper {
    async fn mutate(&self, attempt: &mut AdmissionRequest<'_>) -> Result<(), Status> {
        let by = format!("{}-{}", attempt.operation.as_str(), attempt.user.user.replace(':', "-"));
        object_meta::metadata(&mut attempt.object).insert("labels".to_owned(), json!({"by": by}));
        Ok(())
    }

    async fn validate(&self, attempt: &AdmissionRequest<'_>) -> Result<(), Status> {
        let is_labelled =
            attempt.operation == Operation::Delete || attempt.object["metadata"]["labels"]["by"].is_string();
        assert!(is_labelled, "all mutate before any validates");
        match attempt.name {
            "no" => Err(Status::forbidden("configmaps", "no", "not through this door")),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn every_write_passes_admission() {
    let server = Server::of(resources(), |_| vec![Arc::new(Doorkeeper)]).await;
    let (_, made) = server.json("POST", MAPS, map("a")).await;
    assert_eq!(made["metadata"]["labels"]["by"], "CREATE-system-anonymous");
    let (_, changed, _) =
        server.send_request("PATCH", &format!("{MAPS}/a"), MERGE, "{\"data\":{\"b\":\"2\"}}").await;
    assert_eq!(changed["metadata"]["labels"]["by"], "UPDATE-system-anonymous");
    refused(server.json("POST", MAPS, map("no")).await, 403, "Forbidden", "not through this door");
    let wants = "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n";
    let (code, status, _) =
        server.send_request("PATCH", &format!("{MAPS}/no?fieldManager=me"), APPLY, wants).await;
    refused((code, status), 403, "Forbidden", "not through this door");
    assert_eq!(server.json("DELETE", &format!("{MAPS}/a"), json!({})).await.0, 200);
}

#[tokio::test]
async fn objects_require_an_active_namespace() {
    let namespaces = Resource::new("", "v1", "Namespace", "namespaces", "namespace").cluster().with_status();
    let server = Server::of(resources().into_iter().chain([namespaces]), |registry| {
        vec![NamespaceLifecycle::new(registry.clone())]
    });
    let server = server.await;
    const SHOP: &str = "/api/v1/namespaces/shop/configmaps";
    refused(server.json("POST", SHOP, map("a")).await, 404, "NotFound", "namespaces \"shop\" not found");
    let apply = "apiVersion: v1\nkind: ConfigMap\ndata: {a: b}\n";
    let (code, status, _) =
        server.send_request("PATCH", &format!("{SHOP}/a?fieldManager=me"), APPLY, apply).await;
    refused((code, status), 404, "NotFound", "namespaces \"shop\" not found");
    for name in ["shop", "default", "kube-system", "kube-public"] {
        let namespace = json!({"metadata": {"name": name}, "spec": {"finalizers": ["kubernetes"]}});
        assert_eq!(server.json("POST", "/api/v1/namespaces", namespace).await.0, 201);
    }
    assert_eq!(server.json("POST", SHOP, map("a")).await.0, 201);
    let (code, ending) = server.json("DELETE", "/api/v1/namespaces/shop", json!({})).await;
    assert!(code == 200 && ending["metadata"]["deletionTimestamp"].is_string(), "{ending}");
    refused(server.json("POST", SHOP, map("b")).await, 403, "Forbidden", "because it is being terminated");
    let (_, changed, _) =
        server.send_request("PATCH", &format!("{SHOP}/a"), MERGE, "{\"data\":{\"a\":\"2\"}}").await;
    assert_eq!(changed["data"]["a"], "2", "what is there may be changed to the last");
    for name in ["default", "kube-system", "kube-public"] {
        let answer = server.json("DELETE", &format!("/api/v1/namespaces/{name}"), json!({})).await;
        refused(answer, 403, "Forbidden", "this namespace may not be deleted");
    }
}

#[tokio::test]
async fn apply_that_removes_the_last_finalizer_deletes_the_object() {
    let server = Server::new().await;
    let path = format!("{MAPS}/m?fieldManager=me");
    let held = "apiVersion: v1\nkind: ConfigMap\nmetadata: {finalizers: [example.com/hold]}\n";
    assert_eq!(server.send_request("PATCH", &path, APPLY, held).await.0, 201);
    server.json("DELETE", &format!("{MAPS}/m"), json!({})).await;
    let (code, last, _) =
        server.send_request("PATCH", &path, APPLY, "apiVersion: v1\nkind: ConfigMap\n").await;
    assert_eq!(code, 200, "{last}");
    assert_eq!(server.get(&format!("{MAPS}/m")).await.0, 404);
}
