//! Decides whether an update affects a pod. ConfigMaps, Secrets and tokens of other pods must not wake its worker.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::references::References;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::Assignment;
use crate::spec;

/// Whether pod, termination and all referenced objects are unchanged.
pub(super) fn is_same(before: &Assignment, now: &Assignment) -> bool {
    Arc::ptr_eq(&before.pod, &now.pod)
        && before.ending == now.ending
        && (Arc::ptr_eq(&before.references, &now.references)
            || same_references(&now.pod.pod, &before.references, &now.references))
}

fn same_references(pod: &Pod, before: &References, now: &References) -> bool {
    let mut names = BTreeSet::new();
    collect(&serde_json::to_value(&pod.spec).unwrap_or_default(), &mut names);
    let namespace = spec::namespace(pod);
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    before.tokens_of(uid).eq(now.tokens_of(uid))
        && before.claims_of(uid).eq(now.claims_of(uid))
        && names.iter().all(|name| {
            before.config_map(namespace, name) == now.config_map(namespace, name)
                && before.secret(namespace, name) == now.secret(namespace, name)
        })
}

/// Collects all texts that may be names of referenced objects. Texts that are not names do no harm.
fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(text) if field == "name" || field == "secretName" => {
                        names.insert(text.clone());
                    }
                    other => collect(other, names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, names)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    //! Tests that only the objects that a pod references affect it.
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

    /// Returns a ConfigMap and a Secret with the given name and content.
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
                other @ (Object::Pod(_) | Object::Service(_)) => panic!("neither: {other:?}"),
            }
        }
        references
    }

    #[test]
    fn only_referenced_objects_affect_a_pod() {
        for spec in PODS {
            let pod = pod(spec);
            assert!(!same_references(&pod, &references("mine", "a"), &references("mine", "b")), "{spec}");
            assert!(!same_references(&pod, &References::default(), &references("mine", "b")), "{spec}");
            assert!(same_references(&pod, &references("other", "a"), &references("other", "b")), "{spec}");
        }
    }
}
