//! Custom resources: created, listed, watched, selected by fields, defaulted, validated, published.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A schema that accepts everything.
fn anything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A CustomResourceDefinition whose schema accepts everything.
pub fn definition(group: &str, singular: &str, kind: &str) -> Value {
    json!({"metadata": {"name": format!("{singular}s.{group}")}, "spec": {"group": group, "scope": "Namespaced",
        "names": {"plural": format!("{singular}s"), "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": anything()}}]}})
}

/// The CustomResourceDefinition with this schema for its version.
fn with_schema(group: &str, schema: Value) -> Value {
    let mut definition = definition(group, "foo", "Foo");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    definition
}

/// Creates a CustomResourceDefinition and waits until its kind is served.
pub async fn define(cluster: &Cluster, definition: &Value) {
    cluster.post(DEFINITIONS, definition).await.is(201);
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let group = text(&spec["group"]);
    for version in spec["versions"].as_array().unwrap().iter().filter(|version| version["served"] == true) {
        let path = format!("/apis/{group}/{}/{}", text(&version["name"]), text(&spec["names"]["plural"]));
        cluster.until(&path, |_| true).await;
    }
}

fn bar_schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["bars"], "properties": {
            "bars": {"type": "array", "description": "List of Bars and their specs.", "items": {"type": "object", "required": ["name"],
                "properties": {"name": {"type": "string"}, "age": {"type": "string"}, "feeling": {"type": "string", "enum": ["Great", "Down"]}}}}}},
        "status": {"type": "object", "properties": {"done": {"type": "boolean"}}}}})
}

const FOOS: &str = "/apis/e2e.example.com/v1/namespaces/default/foos";

fn foo(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "e2e.example.com/v1", "kind": "Foo", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn crds_can_be_listed_watched_and_deleted() {
    let cluster = Cluster::running().await;
    for number in 0..10 {
        let mut definition = definition("many.example.com", &format!("foo{number}"), &format!("Foo{number}"));
        definition["metadata"]["labels"] = json!({"many": "yes"});
        definition["spec"]["versions"][0]["subresources"] = json!({"status": {}});
        define(&cluster, &definition).await;
    }
    let selected = format!("{DEFINITIONS}?labelSelector=many%3Dyes");
    assert_eq!(cluster.names(&selected).await.len(), 10);
    let path = format!("{DEFINITIONS}/foo0s.many.example.com");
    let status = format!("{path}/status");
    assert_eq!(cluster.get(&status).await.is(200)["status"]["acceptedNames"]["kind"], "Foo0");
    let added = json!({"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "set by a test", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let put = cluster
        .update(&status, |object| object["status"]["conditions"].as_array_mut().unwrap().push(added.clone()))
        .await;
    assert!(
        put["status"]["conditions"].as_array().unwrap().iter().any(|c| c["type"] == "StatusUpdate"),
        "{put}"
    );
    let mut conditions = put["status"]["conditions"].clone();
    conditions.as_array_mut().unwrap().last_mut().unwrap()["message"] = json!("patched");
    let patched = cluster.patch(&status, &json!({"status": {"conditions": conditions}})).await.is(200);
    assert!(patched["status"]["conditions"].to_string().contains("patched"));
    cluster.delete(&path).await.is(200);
    cluster.gone(&path).await;
    cluster.send("DELETE", &selected, &[], "").await.is(200);
    cluster.gone(&format!("{DEFINITIONS}/foo9s.many.example.com")).await;
    cluster.gone("/apis/many.example.com/v1/foo9s").await;
    cluster.until(&selected, |list| list["items"] == json!([])).await;
}

#[tokio::test]
async fn custom_resources_support_watches_and_field_selectors() {
    let cluster = Cluster::running().await;
    let mut of = with_schema(
        "e2e.example.com",
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "color": {"type": "string"}, "size": {"type": "string"}}}}}),
    );
    of["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]);
    define(&cluster, &of).await;
    let from = cluster.revision(FOOS).await;
    let mut all = cluster.watch(&format!("{FOOS}?resourceVersion={from}")).await;
    let mut blue =
        cluster.watch(&format!("{FOOS}?resourceVersion={from}&fieldSelector=spec.color%3Dblue")).await;
    for (name, color, size) in [("a", "blue", "small"), ("b", "blue", "large"), ("c", "green", "large")] {
        cluster.post(FOOS, &foo(name, json!({"color": color, "size": size}))).await.is(201);
        all.shows("ADDED", name).await;
    }
    assert_eq!(cluster.names(&format!("{FOOS}?fieldSelector=spec.color%3Dblue")).await, ["a", "b"]);
    assert_eq!(
        cluster.names(&format!("{FOOS}?fieldSelector=spec.color%3Dblue%2Cspec.size%3Dlarge")).await,
        ["b"]
    );
    assert_eq!(cluster.names(&format!("{FOOS}?fieldSelector=spec.color%21%3Dblue")).await, ["c"]);
    blue.shows("ADDED", "a").await;
    blue.shows("ADDED", "b").await;
    cluster.patch(&format!("{FOOS}/a"), &json!({"spec": {"color": "green"}})).await.is(200);
    all.shows("MODIFIED", "a").await;
    blue.shows("DELETED", "a").await;
    cluster.delete(&format!("{FOOS}/b")).await.is(200);
    all.shows("DELETED", "b").await;
    blue.shows("DELETED", "b").await;
    cluster.get(&format!("{FOOS}?fieldSelector=spec.weight%3D1")).await.refuses(400, "spec.weight");
}

#[tokio::test]
async fn custom_resource_defaults_apply_on_write_and_read() {
    let cluster = Cluster::running().await;
    let schema =
        |default: Value| json!({"type": "object", "properties": {"a": default, "b": {"type": "string"}}});
    define(&cluster, &with_schema("e2e.example.com", schema(json!({"type": "string"})))).await;
    let object =
        |name: &str| json!({"apiVersion": "e2e.example.com/v1", "kind": "Foo", "metadata": {"name": name}});
    assert_eq!(cluster.post(FOOS, &object("old")).await.is(201)["a"], Value::Null);
    let path = format!("{DEFINITIONS}/foos.e2e.example.com");
    cluster
        .update(&path, |of| {
            of["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
                schema(json!({"type": "string", "default": "A"}));
        })
        .await;
    cluster.until(&format!("{FOOS}/old"), |old| old["a"] == "A").await;
    assert_eq!(cluster.post(FOOS, &object("new")).await.is(201)["a"], "A");
    let listed = cluster.get(FOOS).await.is(200);
    assert!(listed["items"].as_array().unwrap().iter().all(|item| item["a"] == "A"), "{listed}");
}

#[tokio::test]
async fn unknown_fields_are_handled_by_the_validation_level_of_the_client() {
    let cluster = Cluster::running().await;
    define(&cluster, &with_schema("e2e.example.com", bar_schema())).await;
    define(&cluster, &definition("free.example.com", "foo", "Foo")).await;
    let strict = "?fieldManager=e2e&fieldValidation=Strict";
    let right = json!({"bars": [{"name": "b", "feeling": "Great"}]});
    cluster.apply(&format!("{FOOS}/right{strict}"), &foo("right", right)).await.is(201);
    let extra = foo("extra", json!({"bars": [{"name": "b", "color": "red"}], "shape": 1}));
    let refused = cluster.apply(&format!("{FOOS}/extra{strict}"), &extra).await;
    assert_eq!(refused.code, 400, "{}", refused.text);
    assert!(refused.text.contains("color") && refused.text.contains("shape"), "{}", refused.text);
    let warned = cluster.post(&format!("{FOOS}?fieldValidation=Warn"), &extra).await;
    assert!(warned.headers.get_all("warning").iter().any(|w| w.to_str().unwrap().contains("unknown field")));
    assert_eq!(warned.is(201)["spec"]["shape"], Value::Null);
    let wrong = foo("wrong", json!({"bars": [{"name": "b", "feeling": "Odd"}]}));
    cluster.post(FOOS, &wrong).await.refuses(422, "Unsupported value: \"Odd\"");
    cluster.post(FOOS, &foo("none", json!({}))).await.refuses(422, "spec.bars: Required value");

    let free = json!({"apiVersion": "free.example.com/v1", "kind": "Foo", "metadata": {"name": "free"}, "spec": {"what": {"ever": 1}}});
    let path = format!("/apis/free.example.com/v1/namespaces/default/foos/free{strict}");
    assert_eq!(cluster.apply(&path, &free).await.is(201)["spec"]["what"]["ever"], 1);
}

#[tokio::test]
async fn duplicate_fields_of_custom_resources_are_rejected() {
    let cluster = Cluster::running().await;
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"known": {"type": "string"}}});
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    define(&cluster, &with_schema("e2e.example.com", schema)).await;
    let yaml = |field: &str| {
        format!(
            "apiVersion: e2e.example.com/v1\nkind: Foo\nmetadata:\n  name: twice\nspec:\n  free: 1\n  {field}: one\n  {field}: two\n"
        )
    };
    let strict = "fieldManager=e2e&fieldValidation=Strict";
    for field in ["known", "unknown"] {
        let expected_message = format!("line 8: key \"{field}\" already set in map");
        let kind = [("content-type", "application/apply-patch+yaml")];
        let applied = cluster.send("PATCH", &format!("{FOOS}/twice?{strict}"), &kind, yaml(field)).await;
        applied.refuses(400, &expected_message);
        let kind = [("content-type", "application/yaml")];
        cluster
            .send("POST", &format!("{FOOS}?{strict}"), &kind, yaml(field))
            .await
            .refuses(400, &expected_message);
        let json = format!(
            r#"{{"apiVersion": "e2e.example.com/v1", "kind": "Foo", "metadata": {{"name": "twice"}}, "spec": {{"{field}": "1", "{field}": "2"}}}}"#
        );
        let kind = [("content-type", "application/json")];
        let posted = cluster.send("POST", &format!("{FOOS}?{strict}"), &kind, json).await;
        posted.refuses(400, &format!("duplicate field \"spec.{field}\""));
    }
    cluster.gone(&format!("{FOOS}/twice")).await;
}

#[tokio::test]
async fn unknown_metadata_is_reported_at_the_root_and_in_embedded_objects() {
    let cluster = Cluster::running().await;
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}}}}});
    define(&cluster, &with_schema("e2e.example.com", schema)).await;
    let inner =
        json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "inside": 1}}});
    let mut object = foo("both", inner);
    object["metadata"]["outside"] = json!(1);
    let refused = cluster.post(&format!("{FOOS}?fieldValidation=Strict"), &object).await;
    assert_eq!(refused.code, 400, "{}", refused.text);
    for field in
        ["unknown field \\\"metadata.outside\\\"", "unknown field \\\"spec.template.metadata.inside\\\""]
    {
        assert!(refused.text.contains(field), "{field}: {}", refused.text);
    }
}

/// The published OpenAPI document of a version, or null if there is none.
async fn published(cluster: &Cluster, group: &str, version: &str) -> Value {
    cluster.get(&format!("/openapi/v3/apis/{group}/{version}")).await.body
}

async fn published_until(cluster: &Cluster, group: &str, version: &str, is: impl Fn(&Value) -> bool) {
    cluster.until(&format!("/openapi/v3/apis/{group}/{version}"), is).await;
}

/// The published schema of a kind.
fn schema_of<'a>(document: &'a Value, kind: &str) -> Option<&'a Value> {
    document["components"]["schemas"].as_object()?.values().find(|schema| {
        schema["x-kubernetes-group-version-kind"]
            .as_array()
            .is_some_and(|of| of.iter().any(|gvk| gvk["kind"] == kind))
    })
}

#[tokio::test]
async fn openapi_contains_crd_schemas() {
    let cluster = Cluster::running().await;
    define(&cluster, &with_schema("valid.example.com", bar_schema())).await;
    define(&cluster, &definition("root.example.com", "foo", "Foo")).await;
    let inside = json!({"type": "object", "properties": {"spec": anything(), "status": anything()}});
    define(&cluster, &with_schema("inside.example.com", inside)).await;
    define(&cluster, &definition("root.example.com", "bar", "Bar")).await;
    let document = published(&cluster, "valid.example.com", "v1").await;
    let schema = schema_of(&document, "Foo").unwrap();
    assert_eq!(
        schema["properties"]["spec"]["properties"]["bars"]["description"],
        "List of Bars and their specs."
    );
    assert!(schema["properties"]["metadata"].is_object() && schema["properties"]["kind"].is_object());
    published_until(&cluster, "root.example.com", "v1", |of| {
        schema_of(of, "Foo").is_some() && schema_of(of, "Bar").is_some()
    })
    .await;
    let document = published(&cluster, "root.example.com", "v1").await;
    assert_eq!(schema_of(&document, "Foo").unwrap()["x-kubernetes-preserve-unknown-fields"], true);
    let document = published(&cluster, "inside.example.com", "v1").await;
    assert_eq!(
        schema_of(&document, "Foo").unwrap()["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"],
        true
    );

    let explained =
        cluster.kubectl(&["explain", "foos.spec.bars", "--api-version=valid.example.com/v1"]).await;
    assert!(explained.stdout.contains("List of Bars and their specs."), "{explained:?}");
    let file = cluster.master.data_dir().join("foo.json");
    for (group, spec, code) in [
        ("valid.example.com", json!({"bars": [{"name": "b"}]}), 0),
        ("valid.example.com", json!({"bars": [{"name": "b", "height": 1}]}), 1),
        ("root.example.com", json!({"bars": 1}), 0),
        ("inside.example.com", json!({"bars": [{"name": "b", "height": 1}]}), 0),
    ] {
        let name = format!("{code}-{}", group.len());
        let object = json!({"apiVersion": format!("{group}/v1"), "kind": "Foo", "metadata": {"name": name}, "spec": spec});
        std::fs::write(&file, object.to_string()).unwrap();
        let created = cluster.kubectl(&["create", "-f", file.to_str().unwrap()]).await;
        assert_eq!(created.code, code, "{group} {created:?}");
    }
}

#[tokio::test]
async fn openapi_follows_added_removed_and_renamed_versions() {
    let cluster = Cluster::running().await;
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": bar_schema()}});
    let mut of = definition("e2e.example.com", "foo", "Foo");
    of["spec"]["versions"] = json!([version("v2", true), version("v3", false)]);
    define(&cluster, &of).await;
    for version in ["v2", "v3"] {
        published_until(&cluster, "e2e.example.com", version, |of| schema_of(of, "Foo").is_some()).await;
    }
    let path = format!("{DEFINITIONS}/foos.e2e.example.com");
    cluster.update(&path, |of| of["spec"]["versions"][1]["name"] = json!("v4")).await;
    published_until(&cluster, "e2e.example.com", "v4", |of| schema_of(of, "Foo").is_some()).await;
    cluster.gone("/openapi/v3/apis/e2e.example.com/v3").await;
    assert!(schema_of(&published(&cluster, "e2e.example.com", "v2").await, "Foo").is_some());
    cluster.update(&path, |of| of["spec"]["versions"][1]["served"] = json!(false)).await;
    cluster.gone("/openapi/v3/apis/e2e.example.com/v4").await;
    assert!(schema_of(&published(&cluster, "e2e.example.com", "v2").await, "Foo").is_some());
}
