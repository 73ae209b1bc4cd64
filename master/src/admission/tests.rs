//! Which plugins are active.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use apiserver::auth::{Issuer, Signer};
use apiserver::storage::{Limits, Memory};
use apiserver::{Api, Catalog, Identity, VERSION, kinds};
use axum::body::{Body, to_bytes};
use http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

fn active(enabled: &[&str], disabled: &[&str]) -> Vec<&'static str> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let chosen = AdmissionPlugins { enabled: owned(enabled), disabled: owned(disabled) };
    PLUGINS.iter().filter(|plugin| plugin.is_active(&chosen)).map(|plugin| plugin.name).collect()
}

/// `kube-apiserver --help` lists its defaults; those that the master implements are active here as well.
#[test]
fn the_defaults_of_the_stock_server_are_active() {
    let found = active(&[], &[]);
    for name in [
        "CertificateApproval",
        "CertificateSigning",
        "CertificateSubjectRestriction",
        "DefaultIngressClass",
        "DefaultStorageClass",
        "DefaultTolerationSeconds",
        "LimitRanger",
        "MutatingAdmissionPolicy",
        "NamespaceLifecycle",
        "PodSecurity",
        "Priority",
        "ResourceQuota",
        "RuntimeClass",
        "ServiceAccount",
        "TaintNodesByCondition",
        "ValidatingAdmissionPolicy",
    ] {
        assert!(found.contains(&name), "{name}");
    }
    assert!(!found.contains(&"AlwaysPullImages"), "the stock server does not run it by default");
}

#[test]
fn users_enable_and_disable_named_plugins() {
    assert!(active(&["AlwaysPullImages"], &[]).contains(&"AlwaysPullImages"));
    let without = active(&[], &["NamespaceLifecycle", "ResourceQuota"]);
    assert!(!without.contains(&"NamespaceLifecycle") && !without.contains(&"ResourceQuota"));
    assert_eq!(active(&[], &["ServiceIpAllocator"]), active(&[], &[]), "the API depends on it");
}

#[test]
fn only_the_namespace_check_has_two_rows_and_internal_plugins_have_no_public_name() {
    let names = plugin_names();
    let internal: Vec<_> = PLUGINS.iter().filter(|plugin| plugin.active == Use::Always).collect();
    assert!(internal.iter().all(|plugin| !names.contains(&plugin.name)));
    assert_eq!(names.len() + internal.len() + 1, PLUGINS.len());
}

/// Creates a pod in a namespace that does not exist, on a server with these plugins.
async fn created(enabled: &[&str], disabled: &[&str]) -> (u16, Value) {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let plugins = AdmissionPlugins { enabled: owned(enabled), disabled: owned(disabled) };
    let store = Arc::new(Memory::new(Limits::default()));
    let registry = Registry::open(store, Catalog::new(kinds::all())).await.unwrap();
    let signer = Signer::new(&rcgen::KeyPair::generate().unwrap().serialize_der()).unwrap();
    let issuer = Issuer { name: "https://issuer".to_owned(), server: "https://server".to_owned() };
    let auth = Auth::new(registry.cache().clone(), signer, issuer);
    let config = AdmissionConfig { plugins, ..AdmissionConfig::default() };
    let api = Api::writable(registry.clone(), super::plugins(&registry, &auth, config), VERSION).router();
    let container = json!({"name": "c", "image": "i", "imagePullPolicy": "Never"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}});
    let request = Request::post("/api/v1/namespaces/shop/pods").header("content-type", "application/json");
    let request = request.extension(Identity::authenticated("admin", ["system:masters".to_owned()]));
    let response = api.oneshot(request.body(Body::from(pod.to_string())).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    (code, serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await.unwrap()).unwrap())
}

#[tokio::test]
async fn admission_flags_enable_and_disable_plugins() {
    assert_eq!(created(&[], &["ServiceAccount"]).await.0, 404, "there is no such namespace");
    let without = ["NamespaceLifecycle", "ServiceAccount"];
    let (code, pod) = created(&[], &without).await;
    assert_eq!((code, &pod["spec"]["containers"][0]["imagePullPolicy"]), (201, &json!("Never")), "{pod}");
    let (code, pod) = created(&["AlwaysPullImages"], &without).await;
    assert_eq!((code, &pod["spec"]["containers"][0]["imagePullPolicy"]), (201, &json!("Always")), "{pod}");
    assert!(!pod["spec"]["tolerations"].is_null(), "{pod}");
    let (_, pod) = created(&[], &["NamespaceLifecycle", "ServiceAccount", "DefaultTolerationSeconds"]).await;
    assert!(pod["spec"]["tolerations"].is_null(), "{pod}");
}

#[test]
fn the_page_lists_all_plugins() {
    let page = include_str!("../../../docs/access.md");
    for plugin in PLUGINS.iter().filter(|plugin| plugin.active != Use::Always) {
        let row =
            page.lines().find(|line| line.starts_with("| `") && line.contains(&format!("`{}`", plugin.name)));
        let state = if plugin.active == Use::Default { "| active |" } else { "| not active |" };
        assert!(row.is_some_and(|row| row.ends_with(state)), "docs/access.md: {} is {state}", plugin.name);
    }
}
