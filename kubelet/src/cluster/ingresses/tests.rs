//! Tests of the informer: classes, deltas, and Secrets.
#![allow(clippy::unwrap_used, reason = "tests")]

use client::Delta;
use serde_json::{Value, json};

use super::objects::{ApiIngress, ApiSecret};
use super::{IngressSnapshot, NamespacedName, PathType};

fn ingress(name: &str, class: &str) -> ApiIngress {
    let backend = json!({"service": {"name": "web", "port": {"name": "http"}}});
    let paths = json!([{"path": "/", "pathType": "Prefix", "backend": backend}]);
    read(json!({
        "metadata": {"namespace": "shop", "name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "ingressClassName": class, "rules": [{"host": "a.example", "http": {"paths": paths}}],
            "tls": [{"hosts": ["a.example"], "secretName": "cert"}],
        },
    }))
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// A snapshot with one Ingress.
pub(super) fn snapshot() -> IngressSnapshot {
    let mut snapshot = IngressSnapshot::default();
    snapshot.apply(Delta::Replaced(vec![ingress("web", "coracle"), ingress("b", "nginx")], "1".to_owned()));
    snapshot
}

#[test]
fn only_ingresses_of_the_class_are_kept() {
    let mut snapshot = snapshot();
    let name = NamespacedName::new("shop", "web");
    assert_eq!(snapshot.ingresses.keys().collect::<Vec<_>>(), [&name]);
    assert_eq!(snapshot.ingresses[&name].rules[0].http.paths[0].path_type, PathType::Prefix);
    snapshot.apply(Delta::Applied(ingress("web", "nginx")));
    assert!(snapshot.ingresses.is_empty(), "its class is another one now");
    snapshot
        .apply(Delta::Applied(read(json!({"metadata": {"namespace": "shop", "name": "old", "annotations":
        {"kubernetes.io/ingress.class": "coracle"}}, "spec": {"rules": [{"host": "x"}]}}))));
    assert_eq!(snapshot.ingresses.len(), 1, "the older annotation names the class");
    snapshot.apply(Delta::Deleted(read(json!({"metadata": {"namespace": "shop", "name": "old"}}))));
    assert!(snapshot.ingresses.is_empty());
}

#[test]
fn certificates_follow_the_secrets_that_ingresses_name() {
    let mut snapshot = snapshot();
    let name = NamespacedName::new("shop", "cert");
    assert!(snapshot.secrets().into_iter().eq([name.clone()]));
    let secret = |secret_type: &str| -> ApiSecret {
        read(json!({"type": secret_type, "data": {"tls.crt": "Yw==", "tls.key": "aw=="}}))
    };
    snapshot.apply_secret(&name, Delta::Applied(secret("kubernetes.io/tls")));
    assert_eq!((&*snapshot.certificates[&name].certificate, &*snapshot.certificates[&name].key), ("c", "k"));
    snapshot.apply_secret(&name, Delta::Applied(secret("Opaque")));
    assert!(snapshot.certificates.is_empty(), "a Secret of another type is no certificate");
}

#[test]
fn a_list_removes_known_ingresses_only_after_its_confirmation() {
    let mut snapshot = snapshot();
    let name = NamespacedName::new("shop", "web");
    snapshot.apply(Delta::Replaced(vec![ingress("new", "coracle")], "2".to_owned()));
    assert!(snapshot.ingresses.contains_key(&name), "the server may have lost its data");
    assert_eq!(snapshot.ingresses.len(), 2, "a listed Ingress is served at once");
    snapshot.remove_unlisted();
    assert!(!snapshot.ingresses.contains_key(&name));
    // A server that creates the Ingress again before the confirmation keeps it.
    snapshot.apply(Delta::Replaced(Vec::new(), "3".to_owned()));
    snapshot.apply(Delta::Applied(ingress("new", "coracle")));
    snapshot.remove_unlisted();
    assert_eq!(snapshot.ingresses.len(), 1);
}
