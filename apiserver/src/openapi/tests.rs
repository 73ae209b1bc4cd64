//! OpenAPI documents.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::sync::Arc;

use api::shape::Shape;
use axum::Router;
use axum::body::Body;
use flate2::read::GzDecoder;
use http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use tower::ServiceExt as _;

use super::router;
use crate::catalog::Catalog;
use crate::kinds;
use crate::registry::Registry;
use crate::resource::{Resource, Schema};
use crate::storage::Memory;

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

fn documents() -> Router {
    router(Catalog::new(kinds::all()), "v1.36.0")
}

async fn send(router: &Router, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Vec<u8>) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (head, body) = answer.into_parts();
    (head.status.as_u16(), head.headers, body.collect().await.unwrap().to_bytes().to_vec())
}

async fn get(router: &Router, path: &str) -> Value {
    let (code, _, body) = send(router, path, &[]).await;
    assert_eq!(code, 200, "{path}");
    serde_json::from_slice(&body).unwrap()
}

/// All `$ref` values that are not property names.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(target) if name == "$ref" => drop(found.insert(target.clone())),
                    value => references(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

/// Every schema is a kind or referenced, and every reference resolves.
#[track_caller]
fn assert_whole(document: &Value, schemas: &Value, prefix: &str) {
    let mut found = BTreeSet::new();
    references(document, &mut found);
    for target in &found {
        let name = target.strip_prefix(prefix).unwrap_or_else(|| panic!("{target}"));
        assert!(schemas.get(name).is_some(), "{target} is referred to and not there");
    }
    for name in schemas.as_object().unwrap().keys() {
        assert!(found.contains(&format!("{prefix}{name}")), "{name} is unused");
    }
}

#[tokio::test]
async fn every_group_version_has_a_complete_openapi_document() {
    let documents = documents();
    let index = get(&documents, "/openapi/v3").await;
    let paths = index["paths"].as_object().unwrap();
    let wanted: BTreeSet<String> = kinds::all()
        .iter()
        .map(|row| format!("{}/{}", if row.group.is_empty() { "api" } else { "apis" }, row.api_version()))
        .collect();
    assert_eq!(paths.keys().cloned().collect::<BTreeSet<_>>(), wanted);
    let mut ids = BTreeSet::new();
    for (path, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
        let document = get(&documents, url).await;
        assert_whole(&document, &document["components"]["schemas"], "#/components/schemas/");
        for (path, operations) in document["paths"].as_object().unwrap() {
            for operation in operations.as_object().unwrap().values().filter(|value| value.is_object()) {
                assert!(
                    ids.insert(operation["operationId"].to_string()),
                    "{path}: {}",
                    operation["operationId"]
                );
            }
        }
    }
}

#[tokio::test]
async fn openapi_types_have_descriptions_kinds_and_merge_keys() {
    let document = get(&documents(), "/openapi/v3/apis/apps/v1").await;
    let schemas = &document["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(deployment["description"], "Deployment enables declarative updates for Pods and ReplicaSets.");
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
    );
    let spec = &deployment["properties"]["spec"];
    assert_eq!(spec["allOf"][0]["$ref"], "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec");
    assert_eq!(spec["description"], "Specification of the desired behavior of the Deployment.");
    let required = &schemas["io.k8s.api.apps.v1.DeploymentSpec"]["required"];
    assert_eq!(required, &json!(["selector", "template"]));
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    for (word, value) in [
        ("x-kubernetes-list-type", json!("map")),
        ("x-kubernetes-list-map-keys", json!(["name"])),
        ("x-kubernetes-patch-merge-key", json!("name")),
        ("x-kubernetes-patch-strategy", json!("merge")),
        ("items", json!({"$ref": "#/components/schemas/io.k8s.api.core.v1.Container"})),
    ] {
        assert_eq!(containers[word], value, "{word}");
    }
    let port = &schemas["io.k8s.api.core.v1.ContainerPort"]["properties"];
    assert_eq!(port["containerPort"]["format"], "int32");
    assert_eq!(port["protocol"]["default"], "TCP");
    let description = port["protocol"]["description"].as_str().unwrap();
    assert!(description.contains("Defaults to \"TCP\"."), "{description}");
}

#[tokio::test]
async fn almost_all_types_and_fields_have_a_description() {
    let document = get(&documents(), "/openapi/v2").await;
    let mut silent = Vec::new();
    for (name, schema) in document["definitions"].as_object().unwrap() {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let fields = fields.filter(|(_, field)| field.get("description").is_none());
        silent.extend(fields.map(|(field, _)| format!("{name}.{field}")));
        silent.extend(schema.get("description").is_none().then(|| name.clone()));
    }
    // Some types have no official description.
    assert!(silent.len() < 120, "{silent:#?}");
}

#[tokio::test]
async fn openapi_paths_have_the_extensions_of_kubectl() {
    let document = get(&documents(), "/openapi/v3/apis/apps/v1").await;
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let patch = &document["paths"][path]["patch"];
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "kind": "Deployment", "version": "v1"})
    );
    let names: Vec<&str> =
        patch["parameters"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let forms: Vec<&String> = patch["requestBody"]["content"].as_object().unwrap().keys().collect();
    assert_eq!(
        forms,
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json"
        ]
    );
    let status = &document["paths"][format!("{path}/status")];
    assert_eq!(status["get"]["operationId"], "readAppsV1NamespacedDeploymentStatus");
    let list = &document["paths"]["/apis/apps/v1/deployments"];
    assert_eq!(list["get"]["operationId"], "listAppsV1DeploymentForAllNamespaces");
    let in_path = document["paths"][path]["parameters"].as_array().unwrap();
    let in_path: Vec<&Value> = in_path.iter().map(|parameter| &parameter["name"]).collect();
    assert_eq!(in_path, ["name", "namespace"]);
}

#[tokio::test]
async fn openapi_document_under_its_hash_is_immutable() {
    let documents = documents();
    let index = get(&documents, "/openapi/v3").await;
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let (code, headers, plain) = send(&documents, url, &[]).await;
    assert_eq!((code, headers["cache-control"].to_str().unwrap().contains("immutable")), (200, true));
    let tag = headers["etag"].to_str().unwrap().to_owned();

    let (_, headers, gzipped) = send(&documents, url, &[("accept-encoding", "br, gzip")]).await;
    assert_eq!(headers["content-encoding"], "gzip");
    let mut unpacked = Vec::new();
    GzDecoder::new(&*gzipped).read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == plain && gzipped.len() < 200_000, "{} bytes", gzipped.len());

    let (code, _, body) = send(&documents, url, &[("if-none-match", &tag)]).await;
    assert_eq!((code, body.len()), (304, 0));
    let (code, headers, _) = send(&documents, "/openapi/v3/apis/apps/v1", &[]).await;
    assert_eq!((code, headers["cache-control"].to_str().unwrap()), (200, "no-cache, private"));
    let (code, headers, _) = send(&documents, "/openapi/v3/apis/apps/v1?hash=OLD", &[]).await;
    assert_eq!((code, headers["location"].to_str().unwrap()), (301, url));
}

#[tokio::test]
async fn openapi_returns_a_status_for_unknown_documents_and_formats() {
    let documents = documents();
    let v3 = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
    let table = [
        ("GET", "/openapi/v3/apis/apps/v7", "", 404),
        ("GET", "/openapi/v3/apis/apps/v1", v3, 406),
        ("GET", "/openapi/v3/apis/apps/v1", &format!("{v3}, application/json"), 200),
        ("GET", "/openapi/v2", "text/html", 406),
        ("POST", "/openapi/v2", "", 405),
        ("DELETE", "/openapi/v3", "", 405),
    ];
    for (method, path, accept, expected) in table {
        let mut request = Request::builder().method(method).uri(path);
        if !accept.is_empty() {
            request = request.header("accept", accept);
        }
        let answer = documents.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status().as_u16(), expected, "{method} {path} {accept}");
        let body: Value =
            serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
        assert_eq!(body["kind"] == "Status", expected != 200, "{method} {path}");
    }
}

#[tokio::test]
async fn swagger_2_document_is_complete() {
    let documents = documents();
    let document = get(&documents, "/openapi/v2").await;
    assert_whole(&document, &document["definitions"], "#/definitions/");
    let text = document.to_string();
    // These keywords have lists; there are fields of the same names, too.
    for word in ["\"oneOf\":[", "\"allOf\":[", "requestBody", "#/components"] {
        assert!(!text.contains(word), "{word}");
    }
    for (path, headers) in [("/openapi/v2", vec![("accept", PROTOBUF)]), ("/swagger-2.0.0.pb-v1", vec![])] {
        let (code, headers, body) = send(&documents, path, &headers).await;
        let form = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
        assert_eq!((code, headers["content-type"].to_str().unwrap()), (200, form));
        assert!(body == super::gnostic::encode(&document), "{path}");
    }
}

/// A given schema.
struct Given(Value);

impl Schema for Given {
    fn shape(&self) -> Shape<'_> {
        Shape::UNKNOWN
    }

    fn prune(&self, _: &mut Map<String, Value>) -> Vec<String> {
        Vec::new()
    }

    fn json(&self) -> Option<Arc<Value>> {
        Some(Arc::new(self.0.clone()))
    }
}

fn ship(schema: &Value) -> Resource {
    let mut ship = Resource::new("sea.example.com", "v1", "Ship", "ships", "ship").cluster();
    ship.schema = Some(Arc::new(Given(schema.clone())));
    ship
}

#[tokio::test]
async fn kind_added_at_run_time_is_published() {
    let registry = Registry::open(Arc::new(Memory::default()), Catalog::new(kinds::all())).await.unwrap();
    let documents = router(registry.catalog().clone(), "v1.36.0");
    let before = get(&documents, "/openapi/v3").await;
    let schema = json!({
        "type": "object",
        "description": "A ship.",
        "properties": {"spec": {"type": "object", "properties": {"oneOf": {"type": "integer", "nullable": true}}}},
    });
    registry.serve("ships", vec![ship(&schema)]).await.unwrap();

    let after = get(&documents, "/openapi/v3").await;
    assert_eq!(before["paths"]["apis/apps/v1"], after["paths"]["apis/apps/v1"], "others stay as they are");
    let url = after["paths"]["apis/sea.example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let document = get(&documents, &url).await;
    assert_whole(&document, &document["components"]["schemas"], "#/components/schemas/");
    let schemas = &document["components"]["schemas"];
    let ship_schema = &schemas["com.example.sea.v1.Ship"];
    assert_eq!(ship_schema["description"], "A ship.");
    assert_eq!(ship_schema["properties"]["spec"], schema["properties"]["spec"]);
    assert_eq!(
        ship_schema["x-kubernetes-group-version-kind"],
        json!([{"group": "sea.example.com", "kind": "Ship", "version": "v1"}])
    );
    assert_eq!(schemas["com.example.sea.v1.ShipList"]["required"], json!(["items"]));
    let patch = &document["paths"]["/apis/sea.example.com/v1/ships/{name}"]["patch"];
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
    // A property may have the name of a keyword.
    let old = get(&documents, "/openapi/v2").await;
    let spec = &old["definitions"]["com.example.sea.v1.Ship"]["properties"]["spec"];
    assert_eq!(spec["properties"], json!({"oneOf": {}}), "in Swagger 2.0 what may be null has no type");

    registry.serve("ships", vec![ship(&json!({"type": "object"}))]).await.unwrap();
    let changed = get(&documents, "/openapi/v3").await;
    assert_ne!(changed["paths"]["apis/sea.example.com/v1"]["serverRelativeURL"], url.as_str());
}

/// kubectl rejects fields that are not in `properties`, if there are any.
#[tokio::test]
async fn kind_that_preserves_unknown_fields_has_an_untyped_schema() {
    const V2: &str = "/openapi/v2";
    const V3: &str = "/openapi/v3/apis/sea.example.com/v1";
    let gvk = json!([{"group": "sea.example.com", "kind": "Ship", "version": "v1"}]);
    let plain = json!({"type": "object", "x-kubernetes-group-version-kind": gvk});
    let preserved =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": "A ship."});
    let nested = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}}});
    for schema in [&preserved, &nested] {
        let rows = kinds::all().into_iter().chain([ship(schema)]);
        let documents = router(Catalog::new(rows), "v1.36.0");
        let old = get(&documents, V2).await["definitions"]["com.example.sea.v1.Ship"].clone();
        let new = get(&documents, V3).await["components"]["schemas"]["com.example.sea.v1.Ship"].clone();
        let pod =
            get(&documents, "/openapi/v3/api/v1").await["components"]["schemas"]["io.k8s.api.core.v1.Pod"]
                .clone();
        for field in ["apiVersion", "kind", "metadata"] {
            let description = &new["properties"][field]["description"];
            assert_eq!(
                description, &pod["properties"][field]["description"],
                "the official words for {field}"
            );
        }
        if schema == &preserved {
            assert_eq!(old, plain);
            assert_eq!(new["x-kubernetes-preserve-unknown-fields"], true);
        } else {
            let spec = json!({"x-kubernetes-preserve-unknown-fields": true});
            assert_eq!(old["properties"]["spec"], spec);
            assert!(old["properties"]["kind"]["description"].is_string());
        }
    }
}

/// The expected schemas are those that kube-apiserver 1.21 publishes for the same definition. If a schema had a type
/// where the stock one has none, kubectl 1.20 would reject valid objects, or fail to read the whole document.
#[tokio::test]
async fn old_clients_can_read_and_use_every_custom_schema() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "required": ["spec"],
        "properties": {"spec": {"type": "object"}}});
    let schema = json!({"type": "object", "required": ["none", "some"], "properties": {
        "none": {"type": "string", "nullable": true},
        "some": {"type": "string"},
        "list": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}},
        "bare": {"type": "array"},
        "open": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "whole": embedded,
        "wholes": {"type": "array", "items": embedded},
    }});
    let rows = kinds::all().into_iter().chain([ship(&schema)]);
    let documents = router(Catalog::new(rows), "v1.36.0");
    let old = get(&documents, "/openapi/v2").await["definitions"]["com.example.sea.v1.Ship"].clone();
    let new = get(&documents, "/openapi/v3/apis/sea.example.com/v1").await["components"]["schemas"]
        ["com.example.sea.v1.Ship"]
        .clone();
    assert_eq!(old["required"], json!(["some"]), "what may be null is not required");
    let fields = &old["properties"];
    for (name, expected) in [
        ("none", json!({})),
        ("list", json!({"x-kubernetes-preserve-unknown-fields": true})),
        ("bare", json!({})),
        (
            "open",
            json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        ),
    ] {
        assert_eq!(fields[name], expected, "{name}");
    }
    for (whole, metadata) in [
        (&fields["whole"], &fields["metadata"]),
        (&fields["wholes"]["items"], &fields["metadata"]),
        (&new["properties"]["whole"], &new["properties"]["metadata"]),
        (&new["properties"]["wholes"]["items"], &new["properties"]["metadata"]),
    ] {
        assert_eq!(whole["required"], json!(["spec", "kind", "apiVersion"]));
        assert_eq!(&whole["properties"]["metadata"], metadata);
        assert!(whole["properties"]["kind"]["description"].is_string(), "{whole}");
        assert_eq!(whole["properties"]["spec"], json!({"type": "object"}));
    }
    assert!(new["properties"]["open"]["properties"]["kind"].is_object());
    assert_eq!(new["required"], json!(["none", "some"]));
    assert_eq!(new["properties"]["list"], schema["properties"]["list"]);
}

#[tokio::test]
async fn connect_paths_are_in_both_openapi_documents() {
    let documents = documents();
    let old = get(&documents, "/openapi/v2").await;
    let new = get(&documents, "/openapi/v3/api/v1").await;
    const POD: &str = "/api/v1/namespaces/{namespace}/pods/{name}";
    for document in [&old, &new] {
        for (path, methods, id, kind) in [
            (format!("{POD}/exec"), "get post", "connectCoreV1GetNamespacedPodExec", "PodExecOptions"),
            (format!("{POD}/attach"), "get post", "connectCoreV1GetNamespacedPodAttach", "PodAttachOptions"),
            (
                format!("{POD}/portforward"),
                "get post",
                "connectCoreV1GetNamespacedPodPortforward",
                "PodPortForwardOptions",
            ),
            (format!("{POD}/log"), "get", "readCoreV1NamespacedPodLog", "Pod"),
            (
                format!("{POD}/proxy/{{path}}"),
                "delete get patch post put",
                "connectCoreV1GetNamespacedPodProxyWithPath",
                "PodProxyOptions",
            ),
            (
                "/api/v1/namespaces/{namespace}/services/{name}/proxy".to_owned(),
                "delete get patch post put",
                "connectCoreV1GetNamespacedServiceProxy",
                "ServiceProxyOptions",
            ),
            (
                "/api/v1/nodes/{name}/proxy".to_owned(),
                "delete get patch post put",
                "connectCoreV1GetNodeProxy",
                "NodeProxyOptions",
            ),
        ] {
            let at = &document["paths"][&path];
            let mut found: Vec<&String> =
                at.as_object().unwrap().keys().filter(|key| *key != "parameters").collect();
            found.sort();
            assert_eq!(found, methods.split(' ').collect::<Vec<_>>(), "{path}");
            assert_eq!(at["get"]["operationId"], id);
            assert_eq!(at["get"]["x-kubernetes-group-version-kind"]["kind"], kind, "{path}");
        }
    }
}

/// Tests required fields that differ between API versions, or that only validation requires.
#[tokio::test]
async fn required_fields_are_those_of_the_served_version() {
    let document = get(&documents(), "/openapi/v2").await;
    for (name, expected) in [
        ("apps.v1.ControllerRevision", json!(["revision"])),
        ("apps.v1.DeploymentCondition", json!(["status", "type"])),
        ("apps.v1.Deployment", Value::Null),
        ("batch.v1.CronJob", json!(["spec"])),
        ("core.v1.Event", json!(["involvedObject", "metadata"])),
        ("core.v1.Pod", Value::Null),
        ("core.v1.Container", json!(["name"])),
        ("core.v1.PodList", json!(["items"])),
        ("apps.v1.DeploymentSpec", json!(["selector", "template"])),
        // The name defaults to an empty string, so client-side validation accepts references without it.
        ("core.v1.LocalObjectReference", Value::Null),
        ("core.v1.ConfigMapEnvSource", Value::Null),
        ("core.v1.ConfigMapProjection", Value::Null),
        ("core.v1.ConfigMapVolumeSource", Value::Null),
        ("core.v1.SecretEnvSource", Value::Null),
        ("core.v1.SecretProjection", Value::Null),
        ("core.v1.ConfigMapKeySelector", json!(["key"])),
        ("core.v1.SecretKeySelector", json!(["key"])),
    ] {
        assert_eq!(document["definitions"][format!("io.k8s.api.{name}")]["required"], expected, "{name}");
    }
    assert_eq!(
        document["definitions"]["io.k8s.api.core.v1.LocalObjectReference"]["properties"]["name"]["default"],
        ""
    );
}
