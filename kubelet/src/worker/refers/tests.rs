//! What a pod names matters to it, and nothing else does.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use api::object::Object;

use super::*;

const PODS: [&str; 5] = [
    "containers: [{name: c, image: i, envFrom: [{configMapRef: {name: mine}}]}]",
    "containers: [{name: c, image: i, env: [{name: A, valueFrom: {secretKeyRef: {name: mine, key: k}}}]}]",
    "containers: [{name: c, image: i}], volumes: [{name: v, secret: {secretName: mine}}]",
    "containers: [{name: c, image: i}], volumes: [{name: v, projected: {sources: [{configMap: {name: mine}}]}}]",
    "containers: [{name: c, image: i}], imagePullSecrets: [{name: mine}]",
];

fn read(manifest: &str) -> Object {
    let decoded = api::decode(manifest.as_bytes());
    assert!(decoded.problems.is_empty(), "{:?}", decoded.problems);
    decoded.objects.into_iter().next().unwrap()
}

fn pod(spec: &str) -> Pod {
    match read(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: default}}, spec: {{{spec}}}}}"
    )) {
        Object::Pod(pod) => *pod,
        other => panic!("not a pod: {other:?}"),
    }
}

/// A ConfigMap and a Secret of that name with that content.
fn references(name: &str, content: &str) -> References {
    let mut references = References::default();
    for kind in ["ConfigMap", "Secret"] {
        let field = if kind == "Secret" { "stringData" } else { "data" };
        let text = format!(
            "{{apiVersion: v1, kind: {kind}, metadata: {{name: {name}, namespace: default}}, {field}: {{k: {content}}}}}"
        );
        let place = ("default".to_owned(), name.to_owned());
        match read(&text) {
            Object::ConfigMap(map) => drop(references.config_maps.insert(place, Arc::new(*map))),
            Object::Secret(secret) => drop(references.secrets.insert(place, Arc::new(*secret))),
            other @ Object::Pod(_) => panic!("neither: {other:?}"),
        }
    }
    references
}

#[test]
fn only_what_a_pod_names_matters_to_it() {
    for spec in PODS {
        let pod = pod(spec);
        assert!(!same_references(&pod, &references("mine", "a"), &references("mine", "b")), "{spec}");
        assert!(!same_references(&pod, &References::default(), &references("mine", "b")), "{spec}");
        assert!(same_references(&pod, &references("other", "a"), &references("other", "b")), "{spec}");
    }
}
