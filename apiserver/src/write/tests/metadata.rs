//! Metadata that subresource updates change, by kind. The table was recorded from kube-apiserver.

use super::deletes::{store, stored};
use super::*;
use crate::kinds;
use crate::resource::Part;

const ALL: [bool; 4] = [true; 4];
const NONE: [bool; 4] = [false; 4];
const FIELDS: [&str; 4] = ["labels", "annotations", "finalizers", "ownerReferences"];

/// Whether labels, annotations, finalizers and owner references change, by resource and subresource.
fn expected(resource: &str, part: &str) -> [bool; 4] {
    match (resource, part) {
        ("pods", "status") => [true, true, true, false],
        ("pods", "ephemeralcontainers" | "resize") => NONE,
        // Not in stock Kubernetes: labels and annotations of an initialized pod.
        ("pods", "finalize") => [true, true, false, false],
        ("deployments.apps", "status") => [false, true, true, true],
        (
            "apiservices.apiregistration.k8s.io"
            | "customresourcedefinitions.apiextensions.k8s.io"
            | "flowschemas.flowcontrol.apiserver.k8s.io"
            | "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"
            | "resourceclaims.resource.k8s.io"
            | "servicecidrs.networking.k8s.io"
            | "validatingadmissionpolicies.admissionregistration.k8s.io"
            | "volumeattachments.storage.k8s.io",
            "status",
        ) => NONE,
        (_, "status")
        | ("certificatesigningrequests.certificates.k8s.io", "approval")
        | ("namespaces", "finalize") => ALL,
        _ => panic!("{resource}/{part} is not in the table"),
    }
}

#[tokio::test]
async fn subresource_writes_the_same_metadata_as_the_stock_server() {
    let (server, registry) = stored().await;
    let mut seen = 0;
    for row in kinds::all().iter().filter(|row| row.conversion.is_none()) {
        for part in &row.subresources {
            if !matches!(part.part, Part::Status | Part::Fields(_)) {
                continue;
            }
            let before = store(&registry, row, part.name).await;
            let mut sent = before.decode();
            for field in FIELDS {
                let value = match field {
                    "finalizers" => json!(["example.com/new"]),
                    "ownerReferences" => {
                        json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}])
                    }
                    _ => json!({"new": "1"}),
                };
                object_meta::metadata(&mut sent).insert(field.to_owned(), value);
            }
            // Without validation, which is not tested here.
            let write = |object| {
                let update_fields = match &part.part {
                    Part::Fields(update_fields) => Some(*update_fields),
                    _ => None,
                };
                let part = match &part.part {
                    Part::Status => api::strategy::Part::Status,
                    _ => api::strategy::Part::Sub(part.name),
                };
                object_meta::updated(row, &before.decode(), object, &part, update_fields)
            };
            let after = write(sent).unwrap();
            let metadata = after["metadata"].as_object().unwrap();
            let taken = FIELDS.map(|field| metadata.contains_key(field));
            assert_eq!(taken, expected(&row.qualified().to_string(), part.name), "{row:?}/{}", part.name);
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen} parts");
    drop(server);
}

#[tokio::test]
async fn status_update_changes_labels_and_may_remove_the_last_finalizer() {
    let (server, registry) = stored().await;
    let rows = kinds::all();
    let row = rows.iter().find(|row| row.plural == "configmaps").unwrap();
    store(&registry, row, "unrelated").await;
    let deployment = json!({
        "metadata": {"name": "d", "labels": {"app": "d"}},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    });
    assert_eq!(server.json("POST", DEPLOYMENTS, deployment).await.0, 201);
    let patch = json!({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}}).to_string();
    let path = format!("{DEPLOYMENTS}/d/status");
    let (code, after, _) = server.send_request("PATCH", &path, MERGE, patch).await;
    assert_eq!((code, &after["metadata"]["labels"]), (200, &json!({"app": "d"})), "{after}");
    assert_eq!(after["metadata"]["annotations"], json!({"x": "y"}));
    let pod = json!({
        "metadata": {"name": "p", "finalizers": ["example.com/hold"]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    assert_eq!(server.json("POST", PODS, pod).await.0, 201);
    assert_eq!(server.json("DELETE", &format!("{PODS}/p"), json!({})).await.0, 200);
    let patch = json!({"metadata": {"finalizers": null, "labels": {"x": "y"}}}).to_string();
    let (code, after, _) = server.send_request("PATCH", &format!("{PODS}/p/status"), MERGE, patch).await;
    assert_eq!((code, &after["metadata"]["labels"]), (200, &json!({"x": "y"})), "{after}");
    assert_eq!(server.get(&format!("{PODS}/p")).await.0, 404, "nothing holds it any more");
}
