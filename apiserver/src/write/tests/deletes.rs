//! Responses to deletes by kind, and default propagation policies.

use super::*;
use crate::kinds;

/// Kinds for which stock Kubernetes returns the deleted object: `ReturnDeletedObject` of its registries.
const RETURNED: [&str; 16] = [
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "deviceclasses.resource.k8s.io",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "resourcequotas",
    "resourceslices.resource.k8s.io",
    "serviceaccounts",
    "services",
    "storageclasses.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "volumeattributesclasses.storage.k8s.io",
];
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CONTROLLERS: &str = "/api/v1/namespaces/default/replicationcontrollers";
/// Warning of kube-apiserver.
const JOB_WARNING: &str = "299 - \"child pods are preserved by default when jobs are deleted; set propagationPolicy=Background \
                           to remove them or set propagationPolicy=Orphan to suppress this warning\"";

/// A server with all kinds, and its registry, which stores objects without validation.
pub(super) async fn stored() -> (Server, Arc<Registry>) {
    let store = Arc::new(storage::Memory::new(storage::Limits::default()));
    let registry = Registry::open(store, Catalog::new(kinds::all())).await.unwrap();
    (Server(Api::writable(registry.clone(), Vec::new(), VERSION).router()), registry)
}

pub(super) async fn store(registry: &Registry, row: &Resource, name: &str) -> Object {
    let mut object = json!({
        "apiVersion": row.api_version(), "kind": row.kind, "metadata": {"name": name, "uid": format!("uid-{name}")},
    });
    if row.namespaced {
        object["metadata"]["namespace"] = "default".into();
    }
    let object = object.as_object().unwrap().clone();
    let object = match &row.conversion {
        None => object,
        Some(conversion) => conversion.to_stored(object),
    };
    registry.create(row, &object).await.unwrap()
}

pub(super) fn collection(row: &Resource) -> String {
    let root = if row.group.is_empty() { "/api" } else { "/apis" };
    let namespace = if row.namespaced { "/namespaces/default" } else { "" };
    format!("{root}/{}{namespace}/{}", row.api_version(), row.plural)
}

#[tokio::test]
async fn delete_response_of_every_kind_equals_the_stock_server() {
    let (server, registry) = stored().await;
    let documents = crate::openapi::router(Catalog::new(kinds::all()), "v1.36.0");
    let documents = Server(documents);
    let (mut returned, mut deleted) = (Vec::new(), 0);
    for row in kinds::all().iter().filter(|row| row.verbs.contains(&"delete")) {
        store(&registry, row, "it").await;
        let path = format!("{}/it", collection(row));
        let (code, answer, warnings) =
            server.send_request("DELETE", &format!("{path}?propagationPolicy=Background"), JSON, "").await;
        assert_eq!((code, &warnings[..]), (200, &[][..]), "{row:?}: {answer}");
        assert_eq!(server.get(&path).await.0, 404, "{row:?} is deleted");
        deleted += 1;
        let is_object = answer["kind"] != "Status";
        if is_object {
            assert_eq!(
                (&answer["kind"], &answer["apiVersion"], &answer["metadata"]["uid"]),
                (&json!(row.kind), &json!(row.api_version()), &json!("uid-it")),
                "{answer}",
            );
            returned.push(row.qualified().to_string());
        } else {
            assert_eq!((&answer["status"], &answer["details"]["uid"]), (&json!("Success"), &json!("uid-it")));
            assert_eq!(answer["details"]["kind"], json!(row.plural), "the stock server names the resource");
        }
        let group_version = if row.group.is_empty() { "api" } else { "apis" };
        let (_, document) =
            documents.get(&format!("/openapi/v3/{group_version}/{}", row.api_version())).await;
        let operations = &document["paths"][collection(row).replace("default", "{namespace}") + "/{name}"];
        for code in ["200", "202"] {
            let content = &operations["delete"]["responses"][code]["content"]["application/json"];
            let schema_ref = content["schema"]["$ref"].as_str().unwrap_or_default();
            let expected = if is_object { format!(".{}", row.kind) } else { ".Status".to_owned() };
            assert!(schema_ref.ends_with(&expected), "OpenAPI v3 of {row:?}, {code}: {content}");
        }
    }
    assert!(deleted > 55, "{deleted} kinds");
    returned.sort_unstable();
    returned.dedup();
    assert_eq!(returned, RETURNED);
}

#[tokio::test]
async fn openapi_v2_has_the_same_delete_responses() {
    let documents = Server(crate::openapi::router(Catalog::new(kinds::all()), "v1.36.0"));
    let (_, document) = documents.get("/openapi/v2").await;
    let mut seen = 0;
    for row in kinds::all().iter().filter(|row| row.verbs.contains(&"delete")) {
        let path = collection(row).replace("default", "{namespace}");
        let Some(operation) = document["paths"][format!("{path}/{{name}}")].get("delete") else { continue };
        let schema_ref = operation["responses"]["200"]["schema"]["$ref"].as_str().unwrap_or_default();
        let is_object = RETURNED.contains(&row.qualified().to_string().as_str());
        let expected = if is_object { format!(".{}", row.kind) } else { ".Status".to_owned() };
        assert!(schema_ref.ends_with(&expected), "{row:?}: {schema_ref}");
        let all = &document["paths"][&path]["delete"];
        if row.verbs.contains(&"deletecollection") {
            let schema_ref = &all["responses"]["200"]["schema"]["$ref"];
            assert!(schema_ref.as_str().unwrap().ends_with(".Status"), "{row:?}: {schema_ref}");
        } else {
            assert_eq!(all, &Value::Null, "{row:?}");
        }
        seen += 1;
    }
    assert!(seen > 50, "{seen} kinds");
}

#[tokio::test]
async fn delete_response_contains_the_final_pod() {
    let (server, registry) = stored().await;
    let rows = kinds::all();
    let row = rows.iter().find(|row| row.plural == "pods").unwrap();
    store(&registry, row, "p").await;
    let (_, before) = server.get(&format!("{PODS}/p")).await;
    let (code, tried) = server.json("DELETE", &format!("{PODS}/p?dryRun=All"), json!({})).await;
    assert_eq!((code, &tried["metadata"]["name"]), (200, &json!("p")));
    let (code, gone) = server.json("DELETE", &format!("{PODS}/p"), json!({})).await;
    assert_eq!((code, &gone["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(0)), "{gone}");
    assert!(gone["metadata"]["deletionTimestamp"].is_string(), "{gone}");
    let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>();
    assert!(revision(&gone).unwrap() > revision(&before).unwrap(), "the revision of the deletion");
}

#[tokio::test]
async fn a_cascading_deletion_that_waits_is_accepted() {
    let (server, registry) = stored().await;
    let rows = kinds::all();
    let row = rows.iter().find(|row| row.plural == "configmaps").unwrap();
    for (name, options, expected) in [
        ("foreground", json!({"propagationPolicy": "Foreground"}), 202),
        ("orphan", json!({"propagationPolicy": "Orphan"}), 200),
        ("kept", json!({"orphanDependents": true}), 200),
        ("unset", json!({}), 200),
        ("old", json!({"orphanDependents": false}), 202),
    ] {
        store(&registry, row, name).await;
        let path = format!("{MAPS}/{name}");
        let held = json!({"metadata": {"finalizers": ["example.com/hold"]}}).to_string();
        assert_eq!(server.send_request("PATCH", &path, MERGE, held).await.0, 200);
        let (code, answer) = server.json("DELETE", &path, options).await;
        assert_eq!((code, &answer["kind"]), (expected, &json!("ConfigMap")), "{name}: {answer}");
    }
}

#[tokio::test]
async fn old_kinds_keep_their_dependents_by_default() {
    let (server, registry) = stored().await;
    let rows = kinds::all();
    let orphaning = ["jobs", "replicationcontrollers"];
    for row in rows.iter().filter(|row| row.verbs.contains(&"delete")) {
        store(&registry, row, "it").await;
        let path = format!("{}/it", collection(row));
        let (code, answer, warnings) = server.send_request("DELETE", &path, JSON, "").await;
        let waits = answer["metadata"]["finalizers"] == json!(["orphan"]);
        assert_eq!(code, 200, "{row:?}: {answer}");
        assert_eq!(waits, orphaning.contains(&row.plural.as_ref()), "{row:?}: {answer}");
        let expected: &[&str] = if row.plural == "jobs" { &[JOB_WARNING] } else { &[] };
        assert_eq!(warnings, expected, "{row:?}");
    }
}

#[tokio::test]
async fn explicit_propagation_policy_for_jobs_gives_no_warning() {
    let (server, registry) = stored().await;
    let rows = kinds::all();
    let row = |plural: &str| rows.iter().find(|row| row.plural == plural).unwrap();
    for (number, (options, expected)) in [
        ("{}", Some(json!(["orphan"]))),
        (r#"{"propagationPolicy":"Orphan"}"#, Some(json!(["orphan"]))),
        (r#"{"propagationPolicy":"Foreground"}"#, Some(json!(["foregroundDeletion"]))),
        (r#"{"propagationPolicy":"Background"}"#, None),
        (r#"{"orphanDependents":false}"#, None),
    ]
    .into_iter()
    .enumerate()
    {
        for (plural, all) in [("jobs", JOBS), ("replicationcontrollers", CONTROLLERS)] {
            for (name, path) in [("one", format!("{all}/one-{number}")), ("many", all.to_owned())] {
                let name = format!("{name}-{number}");
                store(&registry, row(plural), &name).await;
                let (_, _, warnings) = server.send_request("DELETE", &path, JSON, options).await;
                let is_warned = plural == "jobs" && options == "{}";
                assert_eq!(warnings.len(), usize::from(is_warned), "{path} {options}: {warnings:?}");
                let (_, left) = server.get(&format!("{all}/{name}")).await;
                let finalizers = left["metadata"].get("finalizers").cloned();
                assert_eq!(finalizers, expected, "{path} {options}: {left}");
            }
        }
    }
}

#[tokio::test]
async fn a_negative_grace_period_is_one_second() {
    let (server, registry) = stored().await;
    let rows = kinds::all();
    let pods = rows.iter().find(|row| row.stored() == "pods").unwrap();
    for (name, query, body) in [
        ("a", "?gracePeriodSeconds=-1", ""),
        ("b", "", r#"{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":-30}"#),
    ] {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "uid": name},
            "spec": {"nodeName": "n"},
        });
        registry.create(pods, object.as_object().unwrap()).await.unwrap();
        let (code, answer, _) =
            server.send_request("DELETE", &format!("{}/{name}{query}", collection(pods)), JSON, body).await;
        assert_eq!((code, &answer["metadata"]["deletionGracePeriodSeconds"]), (200, &json!(1)), "{answer}");
    }
}
