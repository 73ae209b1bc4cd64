//! Objects on a master through kubectl: create, update, watch, delete, and persistence after `kill -9`.

use rustix::process::Signal;
use tests::Master;

/// Output of a kubectl command that must succeed.
async fn kubectl(master: &Master, arguments: &[&str]) -> String {
    let admin = master.data_dir().join("admin.kubeconfig");
    let output = master.kubectl(&admin, arguments).await;
    assert!(output.code == 0, "kubectl {}: {output:?}\n{}", arguments.join(" "), master.log());
    output.stdout
}

#[tokio::test]
async fn kubectl_creates_reads_updates_and_deletes() {
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
async fn acknowledged_writes_survive_a_kill() {
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
async fn kubectl_scales_and_deletes_by_label() {
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
async fn apply_that_removes_the_last_label_keeps_other_fields() {
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

/// Sends a body unchanged with `kubectl --raw`; errors are the server's.
async fn raw(master: &Master, verb: &str, path: &str, body: &str) -> String {
    let file = master.data_dir().join("body");
    std::fs::write(&file, body).unwrap();
    let admin = master.data_dir().join("admin.kubeconfig");
    let output = master.kubectl(&admin, &[verb, "--raw", path, "-f", file.to_str().unwrap()]).await;
    format!("{}{}", output.stdout, output.stderr)
}

#[tokio::test]
async fn server_rejects_duplicate_fields_and_wrong_types() {
    let master = Master::running().await;
    let maps = "/api/v1/namespaces/default/configmaps?fieldValidation=Strict";
    let twice = r#"{"metadata": {"name": "a"}, "dat": 1, "data": {"k": "v", "k": "w"}}"#;
    let result = raw(&master, "create", maps, twice).await;
    assert!(
        result.contains("strict decoding error: unknown field") && result.contains("duplicate field"),
        "{result}"
    );
    let result = raw(&master, "create", maps, r#"{"metadata": {"name": "a"}, "data": {"k": 1}}"#).await;
    assert!(result.contains("BadRequest") && result.contains("cannot be handled as a ConfigMap"), "{result}");
    let mistyped =
        ["patch", "configmap", "kube-root-ca.crt", "--type=merge", "-p", r#"{"data": {"ca.crt": 1}}"#];
    let admin = master.data_dir().join("admin.kubeconfig");
    assert_ne!(master.kubectl(&admin, &mistyped).await.code, 0);
}

#[tokio::test]
async fn put_creates_a_lease_but_no_config_map() {
    let master = Master::running().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let result = raw(&master, "replace", &format!("{leases}/a"), r#"{"metadata": {"name": "a"}}"#).await;
    assert!(result.contains("\"uid\""), "{result}");
    assert_eq!(kubectl(&master, &["get", "leases", "-o", "name"]).await, "lease.coordination.k8s.io/a\n");
    let map = "/api/v1/namespaces/default/configmaps/a";
    let result = raw(&master, "replace", map, r#"{"metadata": {"name": "a"}}"#).await;
    assert!(result.contains("NotFound"), "{result}");
}

#[tokio::test]
async fn events_and_pods_are_served_in_all_their_group_versions() {
    let master = Master::running().await;
    let event = r#"{"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "apiVersion": "v1", "name": "p", "namespace": "default"},
        "note": "so it is", "type": "Normal", "reason": "Because", "action": "Doing",
        "eventTime": "2026-01-02T03:04:05.000006Z", "reportingController": "example.com/c", "reportingInstance": "c-0"}"#;
    // An event with an old time would be removed by its TTL.
    let event = event.replace(
        "2026-01-02T03:04:05.000006Z",
        &jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
    );
    let newer = "/apis/events.k8s.io/v1/namespaces/default/events";
    let result = raw(&master, "create", newer, &event).await;
    assert!(result.contains("events.k8s.io/v1"), "{result}");
    let note = [
        "get",
        "events.events.k8s.io",
        "--field-selector=regarding.name=p",
        "-o",
        "jsonpath={.items[0].note}",
    ];
    assert_eq!(kubectl(&master, &note).await, "so it is");
    for table in ["events", "events.events.k8s.io"] {
        let table = kubectl(&master, &["get", table]).await;
        assert!(
            table.starts_with("LAST SEEN") && table.contains("pod/p") && table.contains("so it is"),
            "{table}"
        );
    }
    let printed = kubectl(&master, &["events", "--for=pod/p"]).await;
    assert!(printed.contains("so it is"), "{printed}");

    let pod = r#"{"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"host": "n1"}}"#;
    master.until_account("default").await;
    let result = raw(&master, "create", "/api/v1beta3/namespaces/default/pods", pod).await;
    assert!(result.contains("\"host\":\"n1\""), "{result}");
    assert_eq!(kubectl(&master, &["get", "pod", "p", "-o", "jsonpath={.spec.nodeName}"]).await, "n1");
    let old = kubectl(&master, &["get", "--raw", "/api/v1beta3/namespaces/default/pods/p"]).await;
    assert!(old.contains("\"host\":\"n1\"") && old.contains("\"v1beta3\""), "{old}");
}

#[tokio::test]
async fn resource_version_match_is_respected() {
    let master = Master::running().await;
    let list = async |query: &str| {
        let (code, body) = master.get_as_admin(&format!("/api/v1/namespaces?{query}")).await;
        (code, serde_json::from_str::<serde_json::Value>(&body).unwrap())
    };
    let (code, all) = list("resourceVersion=0&limit=1").await;
    assert_eq!((code, all["items"].as_array().unwrap().len() >= 4), (200, true), "{all}");
    let revision = all["metadata"]["resourceVersion"].as_str().unwrap();
    let (code, exact) = list(&format!("resourceVersion={revision}&resourceVersionMatch=Exact")).await;
    assert_eq!((code, exact["metadata"]["resourceVersion"].as_str()), (200, Some(revision)), "{exact}");
    assert_eq!(list("resourceVersionMatch=Exact").await.0, 422);
    assert_eq!(list(&format!("resourceVersion={revision}&continue=x")).await.0, 400);
}
