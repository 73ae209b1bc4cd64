//! Changes reach the volumes of running pods: new values, created and deleted objects, and the pod's own labels.

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::node::{Node, path, shell, slug};

const OBJECTS: &str = "/api/v1/namespaces/default";

/// Prints all files of all volumes on one line after each change.
const TELLS: &str = "trap 'exit 0' TERM; cd /v; while :; do now=$(for f in */*; do [ -e $f ] && echo $f=$(cat $f); done | tr '\\n' ' '); \
                     [ \"$now\" = \"$last\" ] || echo \"$now\"; last=$now; usleep 100000; done";

/// A pod that prints the content of these volumes.
fn printing(volumes: &[(&str, Value)]) -> Value {
    let mut main = shell(TELLS);
    let mount = |(name, _): &(&str, Value)| json!({"name": name, "mountPath": format!("/v/{name}")});
    main["volumeMounts"] = volumes.iter().map(mount).collect();
    let volumes: Vec<Value> = volumes
        .iter()
        .map(|(name, source)| {
            let mut volume = source.clone();
            volume["name"] = json!(name);
            volume
        })
        .collect();
    json!({"spec": {"containers": [main], "volumes": volumes}})
}

/// An optional volume of that kind.
fn optional(kind: &str, name: &str) -> Value {
    match kind {
        "configMap" => json!({kind: {"name": name, "optional": true}}),
        "secret" => json!({kind: {"secretName": name, "optional": true}}),
        _ => {
            json!({"projected": {"sources": [{kind.trim_start_matches("projected "): {"name": name, "optional": true}}]}})
        }
    }
}

/// Creates the ConfigMap and the Secret of a name with that value.
async fn is_there(cluster: &Cluster, name: &str, key: &str, value: &str) {
    for (kind, field) in [("configmaps", "data"), ("secrets", "stringData")] {
        let object = json!({"metadata": {"name": name}, field: {key: value}});
        cluster.post(&format!("{OBJECTS}/{kind}"), &object).await.is(201);
    }
}

#[tokio::test]
async fn volume_files_of_running_pods_are_updated() {
    let node = Node::running("changes").await;
    let cluster = &node.cluster;
    is_there(cluster, "goes", "data-1", "value-1").await;
    is_there(cluster, "changes", "data-1", "value-1").await;
    let kinds = ["configMap", "projected configMap", "secret", "projected secret"];
    for kind in kinds {
        let volumes = ["goes", "changes", "comes"].map(|name| (name, optional(kind, name)));
        node.make(&slug(kind), printing(&volumes)).await;
    }
    let binary = json!({"metadata": {"name": "binary"}, "data": {"data": "text"}, "binaryData": {"bytes": "3q2+7wD/"}});
    cluster.post(&format!("{OBJECTS}/configmaps"), &binary).await.is(201);
    let volume = json!({"name": "v", "configMap": {"name": "binary"}});
    let mut main = shell("cat /v/data; od -An -tx1 /v/bytes");
    main["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    node.make(&slug("binary data"), json!({"spec": {"containers": [main], "volumes": [volume]}})).await;
    let items = json!({"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}]});
    for (name, volume) in [
        ("downwardAPI", json!({"downwardAPI": items})),
        ("projected downwardAPI", json!({"projected": {"sources": [{"downwardAPI": items}]}})),
    ] {
        let mut pod = printing(&[("own", volume)]);
        pod["metadata"] = json!({"labels": {"key1": "value1"}, "annotations": {"builder": "bar"}});
        node.make(&slug(name), pod).await;
    }

    let last = |log: &str, line: &str| log.lines().last().is_some_and(|last| last.trim() == line);
    let shows = async |name: &str, line: &str| {
        node.log_until(&slug(name), "main", line, |log| last(log, line)).await;
    };
    for kind in kinds {
        shows(kind, "changes/data-1=value-1 goes/data-1=value-1").await;
    }
    let has = async |name: &str, lines: [&str; 2]| {
        let all =
            |log: &str| log.lines().last().is_some_and(|last| lines.iter().all(|line| last.contains(line)));
        node.log_until(&slug(name), "main", &lines.join(" and "), all).await;
    };
    for name in ["downwardAPI", "projected downwardAPI"] {
        has(name, ["own/annotations=builder=\"bar\"", "own/labels=key1=\"value1\""]).await;
        let change = json!({"metadata": {"labels": {"key3": "value3"}, "annotations": {"builder": "foo"}}});
        cluster.patch(&path(&slug(name)), &change).await.is(200);
    }
    for kind in ["configmaps", "secrets"] {
        cluster.delete(&format!("{OBJECTS}/{kind}/goes")).await.is(200);
    }
    cluster
        .patch(
            &format!("{OBJECTS}/configmaps/changes"),
            &json!({"data": {"data-1": null, "data-3": "value-3"}}),
        )
        .await
        .is(200);
    cluster
        .patch(
            &format!("{OBJECTS}/secrets/changes"),
            &json!({"data": {"data-1": null, "data-3": "dmFsdWUtMw=="}}),
        )
        .await
        .is(200);
    is_there(cluster, "comes", "data-1", "value-1").await;
    for kind in kinds {
        shows(kind, "changes/data-3=value-3 comes/data-1=value-1").await;
    }
    for name in ["downwardAPI", "projected downwardAPI"] {
        has(name, ["own/annotations=builder=\"foo\"", "own/labels=key1=\"value1\" key3=\"value3\""]).await;
    }
    node.until(&slug("binary data"), "to have ended", |pod| pod.phase() == "Succeeded").await;
    let binary = node.log(&slug("binary data"), "main").await;
    assert_eq!(binary.split_whitespace().collect::<Vec<_>>().join(" "), "text de ad be ef 00 ff");
}
