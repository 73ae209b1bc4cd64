//! Objects on a master, as kubectl and its administrator meet them: made, changed, watched, gone, and there after a kill.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use rustix::process::Signal;
use tests::Master;

/// What kubectl prints when it succeeds.
async fn kubectl(master: &Master, arguments: &[&str]) -> String {
    let admin = master.data_dir().join("admin.kubeconfig");
    let output = master.kubectl(&admin, arguments).await;
    assert!(output.code == 0, "kubectl {}: {output:?}\n{}", arguments.join(" "), master.log());
    output.stdout
}

#[tokio::test]
async fn kubectl_makes_shows_changes_and_removes() {
    let master = Master::running().await;
    let namespaces = kubectl(&master, &["get", "namespaces", "-o", "name"]).await;
    assert!(
        namespaces.contains("namespace/default") && namespaces.contains("namespace/kube-system"),
        "{namespaces}"
    );
    kubectl(&master, &["create", "configmap", "a", "--from-literal=k=v"]).await;
    let table = kubectl(&master, &["get", "configmaps", "a"]).await;
    assert!(table.starts_with("NAME") && table.contains("a      1"), "{table}");
    kubectl(&master, &["label", "configmap", "a", "tier=one"]).await;
    assert_eq!(
        kubectl(&master, &["get", "configmap", "-l", "tier=one", "-o", "name"]).await,
        "configmap/a\n"
    );
    kubectl(&master, &["patch", "configmap", "a", "-p", "{\"data\":{\"k\":\"w\"}}"]).await;
    assert_eq!(kubectl(&master, &["get", "configmap", "a", "-o", "jsonpath={.data.k}"]).await, "w");
    kubectl(&master, &["create", "namespace", "shop"]).await;
    kubectl(&master, &["create", "-n", "shop", "secret", "generic", "s", "--from-literal=p=q"]).await;
    assert!(kubectl(&master, &["get", "secrets", "-A"]).await.contains("shop"));
    kubectl(&master, &["delete", "configmap", "a"]).await;
    let admin = master.data_dir().join("admin.kubeconfig");
    let gone = master.kubectl(&admin, &["get", "configmap", "a"]).await;
    assert!(gone.stderr.contains("NotFound"), "{gone:?}");
}

#[tokio::test]
async fn what_was_answered_is_there_after_a_kill() {
    let mut master = Master::running().await;
    for name in ["a", "b"] {
        kubectl(&master, &["create", "configmap", name, "--from-literal=k=v"]).await;
    }
    let version = "jsonpath={.metadata.uid} {.metadata.resourceVersion}";
    let before = kubectl(&master, &["get", "configmap", "a", "-o", version]).await;
    master.kill();
    master.start().await;
    assert_eq!(kubectl(&master, &["get", "configmap", "a", "-o", version]).await, before);
    kubectl(&master, &["delete", "configmap", "b"]).await;
    assert!(master.stop(Signal::TERM).await.success());
    master.start().await;
    let left = ["get", "configmaps", "a", "b", "--ignore-not-found", "-o", "name"];
    assert_eq!(kubectl(&master, &left).await, "configmap/a\n");
}

#[tokio::test]
async fn kubectl_scales_and_removes_by_label() {
    let master = Master::running().await;
    kubectl(&master, &["create", "deployment", "web", "--image=registry.example/web:1", "--replicas=2"])
        .await;
    kubectl(&master, &["scale", "deployment", "web", "--replicas=3"]).await;
    let replicas = kubectl(&master, &["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"]).await;
    assert_eq!(replicas, "3");
    for name in ["a", "b"] {
        kubectl(&master, &["create", "configmap", name, "--from-literal=k=v"]).await;
        kubectl(&master, &["label", "configmap", name, "tier=one"]).await;
    }
    kubectl(&master, &["delete", "configmaps", "-l", "tier=one"]).await;
    assert_eq!(kubectl(&master, &["get", "configmaps", "-l", "tier=one", "-o", "name"]).await, "");
}

#[tokio::test]
async fn an_apply_that_takes_the_last_label_keeps_the_rest() {
    let master = Master::running().await;
    let file = master.data_dir().join("m.yaml");
    let apply = async |labels: &str| {
        let text =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{labels}}}\ndata: {{a: b}}\n");
        std::fs::write(&file, text).unwrap();
        let arguments = ["apply", "--server-side", "--validate=false", "-f", file.to_str().unwrap()];
        kubectl(&master, &arguments).await;
        kubectl(&master, &["get", "configmap", "m", "-o", "jsonpath={.metadata.labels}"]).await
    };
    assert_eq!(apply(", labels: {tier: one}").await, "{\"tier\":\"one\"}");
    assert_eq!(apply("").await, "");
}
